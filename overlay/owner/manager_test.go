package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/store"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	for _, field := range []string{
		"Key", "DB", "Directory", "Strategy", "Leases", "Homes", "Estimate", "Sender", "Resolve",
		"ResolveFresh", "Replicas", "Guard", "Limiter", "Outbox", "LeaseTTL", "Times", "Tick",
	} {
		if err == nil || !strings.Contains(err.Error(), "owner: "+field+" is ") {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}

// Claimed, every candidate is probed once, then the subnet stays.
func TestEstimateAndStay(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob, carol}
	})
	m.strategy.next = probeFirst(alice)
	m.claim(subnetA)
	if m.phase(subnetA) != store.PhaseDeciding || !m.frontier.is(m.frontier.single, subnetA) {
		t.Fatalf("phase %v after the claim", m.phase(subnetA))
	}
	want := []string{alice.id.String(), bob.id.String(), carol.id.String()}
	slices.Sort(want)
	var got []string
	for m.phase(subnetA) == store.PhaseDeciding && len(got) < 10 {
		who, hold := m.placement.Where(subnetA)
		if hold {
			t.Fatal("held")
		}
		if m.phase(subnetA) != store.PhaseDeciding {
			break
		}
		if who == "" {
			got = append(got, alice.id.String())
		} else {
			got = append(got, who)
		}
		m.placement.Observe(subnetA, who, store.FetchReport{Outcome: store.OutcomeOK,
			Timing: store.Timing{Connect: time.Millisecond}}, nil)
	}
	if !slices.Equal(got, want) {
		t.Errorf("probed %v, want %v", got, want)
	}
	i := m.List()[0]
	if i.Phase != store.PhaseOwned || i.Estimations != 2 || i.Proxy == nil ||
		i.Proxy.Samples != 3 || i.Epoch != 1 {
		t.Errorf("decided: %+v", i)
	}
	if m.frontier.is(m.frontier.single, subnetA) {
		t.Error("still in single file")
	}
	if s, ok := m.stored(subnetA); !ok || s.Phase != store.PhaseOwned || s.Estimations != 2 {
		t.Errorf("stored %+v", s)
	}
	// The renewal tells the network of the proxy.
	m.run()
	until(t, "the proxy is published", func() bool {
		l, _ := m.cfg.Leases.Cached(subnetA)
		return l.Proxy != nil && l.Proxy.Samples == 3
	})
}

// Where an estimation failed decides what is held against the peer.
func TestObserveFailures(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob, carol}
	})
	m.strategy.next = probeFirst(alice)
	m.claim(subnetA)
	m.placement.Observe(subnetA, bob.id.String(), store.FetchReport{},
		fmt.Errorf("wrapped: %w", estimate.ErrNotSent))
	m.placement.Observe(subnetA, carol.id.String(), store.FetchReport{}, estimate.ErrNoReply)
	m.placement.Observe(subnetA, "", store.FetchReport{Outcome: store.OutcomeReset}, nil)
	m.placement.Observe(subnetB, "", store.FetchReport{}, nil) // not ours
	s := m.subnets[subnetA]
	if !s.exclude[bob.id.String()] || len(s.exclude) != 1 {
		t.Errorf("excluded %v", s.exclude)
	}
	if len(s.history) != 2 || !s.history[0].failed || !s.history[1].failed ||
		s.history[0].peer != carol.id.String() {
		t.Errorf("samples %+v", s.history.samples())
	}
	if s.estimations != 1 {
		t.Errorf("%d estimations", s.estimations)
	}
	for range 3 * assign.HistorySize {
		m.placement.Observe(subnetA, "", store.FetchReport{Outcome: store.OutcomeOK}, nil)
	}
	if n := len(s.history); n < 6 || n > assign.HistorySize+assign.HistorySize/4 {
		t.Errorf("%d samples kept", len(s.history))
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	var asked peer.ID
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Estimate = fetchFunc(func(_ context.Context, to peer.ID, sealed []byte,
			r store.FetchRequest) (store.FetchReport, error) {
			l, err := lease.OpenLease(sealed)
			if err != nil || l.Owner != alice.id || l.Subnet != subnetA {
				t.Errorf("lease %+v, %v", l, err)
			}
			asked = to
			return store.FetchReport{Outcome: store.OutcomeOK}, nil
		})
	})
	for _, who := range []string{bob.id.String(), "nonsense"} {
		_, err := m.placement.Remote(t.Context(), subnetA, who, store.FetchRequest{})
		if !errors.Is(err, estimate.ErrNotSent) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", who, err)
		}
		m.strategy.next = probeFirst(alice)
		m.claim(subnetA)
	}
	if _, err := m.placement.Remote(t.Context(), subnetA, bob.id.String(),
		store.FetchRequest{}); err != nil || asked != bob.id {
		t.Errorf("asked %v, %v", asked, err)
	}
}

// A strategy that fails neither ends the peer nor blocks the subnet.
func TestStrategyFails(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, nil)
	m.strategy.next = func(assign.Evidence) (assign.Step, error) {
		return assign.Step{}, errors.New("cannot")
	}
	m.claim(subnetA)
	if m.phase(subnetA) != store.PhaseOwned {
		t.Errorf("phase %v", m.phase(subnetA))
	}
	if who, hold := m.placement.Where(subnetA); who != "" || hold {
		t.Errorf("%q, held %v", who, hold)
	}
	if who, hold := m.placement.Where(subnetB); who != "" || !hold {
		t.Errorf("a subnet that is not ours: %q, held %v", who, hold)
	}
}

// Without a URL to estimate with, what is known decides.
func TestDecideIdle(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.DecideIdle = 10 * time.Millisecond
		c.Directory = directory{alice, bob}
	})
	m.strategy.next = probeFirst(alice)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 0)
	m.run()
	until(t, "decided", func() bool { return m.phase(subnetA) == store.PhaseOwned })
	m.strategy.mu.Lock()
	defer m.strategy.mu.Unlock()
	if last := m.strategy.seen[len(m.strategy.seen)-1]; last.CanProbe {
		t.Error("it was told that it may probe")
	}
}

// Without the quorum lease no URL is accepted, so that the lack of URLs decides nothing: not
// before the lease is back, nor before URLs have had time to come.
func TestDecideIdleWithoutQuorumLease(t *testing.T) {
	t.Parallel()
	for _, hosts := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d hosts", hosts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _, w := guardedBy(t, alice, nil, func(c *Config) {
					c.DecideIdle = 10 * time.Second
				})
				m.strategy.next = probeFirst(alice)
				m.claim(subnetA)
				if hosts > 0 {
					m.plant("a.test", subnetA, addrA, 0)
				}
				phaseAfter := func(seconds int) store.Phase {
					for range seconds {
						time.Sleep(time.Second)
						if err := m.placement.decideIdle(); err != nil {
							t.Fatal(err)
						}
					}
					return m.phase(subnetA)
				}
				phaseAfter(5)
				w.right = false
				if got := phaseAfter(180); got != store.PhaseDeciding {
					t.Errorf("phase %v without the quorum lease, want %v", got,
						store.PhaseDeciding)
				}
				w.right = true
				soon := 9
				if hosts == 0 {
					soon = int(hostless/time.Second) + 9
				}
				if got := phaseAfter(soon); got != store.PhaseDeciding {
					t.Errorf("phase %v %d s after the quorum lease was back, want %v", got, soon,
						store.PhaseDeciding)
				}
				if got := phaseAfter(5); got != store.PhaseOwned {
					t.Errorf("phase %v %d s after the quorum lease was back, want %v", got, soon+5,
						store.PhaseOwned)
				}
			})
		})
	}
}

// While a subnet may have another owner no URL is accepted either.
func TestDecideIdleInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := join(t, alice, newDHT(), nil, func(c *Config) { c.DecideIdle = 10 * time.Second })
		m.strategy.next = probeFirst(alice)
		m.claim(subnetA)
		m.plant("a.test", subnetA, addrA, 0)
		doubt := func(stale bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.table.subnets[subnetA].doubt(stale)
		}
		for _, c := range []struct {
			stale   bool
			seconds int
			want    store.Phase
		}{{false, 5, store.PhaseDeciding}, {true, 60, store.PhaseDeciding},
			{false, 9, store.PhaseDeciding}, {false, 5, store.PhaseOwned}} {
			doubt(c.stale)
			for range c.seconds {
				time.Sleep(time.Second)
				if err := m.placement.decideIdle(); err != nil {
					t.Fatal(err)
				}
			}
			if got := m.phase(subnetA); got != c.want {
				t.Errorf("in doubt %v, after %d s: phase %v, want %v", c.stale, c.seconds, got,
					c.want)
			}
		}
	})
}

// A successor that refuses, or is not reached, is left out; the subnet stays and
// is crawled on.
func TestSuccessorRefuses(t *testing.T) {
	t.Parallel()
	for _, why := range []error{handover.ErrRefused, handover.ErrBroken} {
		t.Run(why.Error(), func(t *testing.T) {
			var offers []handover.Offer
			m := join(t, alice, newDHT(), nil, func(c *Config) {
				c.Directory = directory{alice, bob}
				c.Sender = sendFunc(func(_ context.Context, to peer.ID, o handover.Offer,
					_ func() ([]byte, error)) ([]byte, error) {
					offers = append(offers, o)
					return nil, fmt.Errorf("%w: no", why)
				})
			})
			m.strategy.next = choose(bob)
			m.claim(subnetA)
			if who, hold := m.placement.Where(subnetA); who != "" || !hold ||
				!m.frontier.is(m.frontier.shut,
					subnetA) {
				t.Errorf("on the way: %q, held %v", who, hold)
			}
			if ok, moving, _ := m.resolver.Accepts(subnetA); ok || !moving {
				t.Errorf("on the way: takes URLs %v, moving %v", ok, moving)
			}
			stop := m.run()
			until(t, "it stays", func() bool { return !m.frontier.is(m.frontier.shut, subnetA) })
			stop()
			if who, hold := m.placement.Where(subnetA); who != "" || hold {
				t.Errorf("afterwards: %q, held %v", who, hold)
			}
			if m.phase(subnetA) != store.PhaseOwned || len(offers) != 1 || offers[0].Epoch != 2 {
				t.Errorf("phase %v, offers %+v", m.phase(subnetA), offers)
			}
			if ok, moving, _ := m.resolver.Accepts(subnetA); !ok || moving {
				t.Errorf("afterwards: takes URLs %v, moving %v", ok, moving)
			}
		})
	}
}

// A successor that took the subnet and was never heard of again: its lease tells.
func TestCommittedAndSuccessorGone(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	other := join(t, bob, dht, nil, nil)
	m := join(t, alice, dht, nil, func(c *Config) {
		c.Directory = directory{alice, bob}
		c.Sender = sendFunc(func(ctx context.Context, _ peer.ID, o handover.Offer,
			grant func() ([]byte, error)) ([]byte, error) {
			g, err := grant()
			if err != nil {
				return nil, err
			}
			old, err := lease.OpenLease(o.Lease)
			if err != nil {
				return nil, err
			}
			_, sealed, err := other.cfg.Leases.Adopt(ctx, old, g, nil)
			if err != nil {
				return nil, err
			}
			if _, err := c.Leases.Learn(sealed); err != nil { // as it comes with batches
				return nil, err
			}
			return nil, handover.ErrOutcomeUnknown
		})
	})
	m.strategy.next = choose(bob)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	m.run()
	until(t, "it is gone", func() bool { return !m.Live(subnetA) })
	if rec, _ := m.stored(subnetA); rec.Phase != store.PhaseReplica || m.routedURLs() != 0 {
		t.Errorf("left behind: %v, %d routed, want a copy", rec.Phase, m.routedURLs())
	}
}

// "Done" by another way than our commit: the one who has the subnet now is told
// what was queued here.
func TestDoneWithoutCommit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	claimed := lease.Lease{Subnet: subnetA, Owner: carol.id, Epoch: 1}
	grant, err := claimed.GrantTo(bob.id, now, carol.key)
	if err != nil {
		t.Fatal(err)
	}
	l := claimed.Next(bob.id)
	l.Issued, l.Expires, l.Grant = now, now.Add(time.Minute), grant
	better, err := lease.SealLease(l, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	worse, err := lease.SealLease(lease.Lease{Subnet: subnetB, Owner: bob.id, Epoch: 1, Issued: now,
		Expires: now.Add(time.Minute)}, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		answer []byte
		leaves bool
	}{
		"better": {better, true}, "of another subnet": {worse, false},
		"rubbish": {[]byte("rubbish"), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := join(t, alice, newDHT(), nil, func(c *Config) {
				c.Directory = directory{alice, bob}
				c.Sender = sendFunc(func(context.Context, peer.ID, handover.Offer,
					func() ([]byte, error)) ([]byte, error) {
					return tc.answer, nil
				})
			})
			m.strategy.next = choose(bob)
			m.claim(subnetA)
			m.plant("a.test", subnetA, addrA, 3)
			m.run()
			if tc.leaves {
				until(t, "it is gone", func() bool { return !m.Live(subnetA) })
				if m.routedURLs() != 3 || m.queued("a.test") != 0 {
					t.Errorf("%d routed, %d queued", m.routedURLs(), m.queued("a.test"))
				}
				return
			}
			until(t, "it stays", func() bool { return !m.frontier.is(m.frontier.shut, subnetA) })
			if !m.Live(subnetA) || m.queued("a.test") != 3 || m.routedURLs() != 0 {
				t.Errorf("%d routed, %d queued", m.routedURLs(), m.queued("a.test"))
			}
		})
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	m, other := join(t, alice, dht, nil, nil), join(t, bob, dht, nil, nil)
	m.names["a.test"], m.names["b.test"] = []netip.Addr{addrA}, []netip.Addr{addrB}
	other.claim(subnetB)
	for name, tc := range map[string]struct {
		host string
		kind outbox.Kind
		none bool
	}{
		"unowned": {"a.test", outbox.Unowned, false},
		"foreign": {"b.test", outbox.Foreign, false},
		"no host": {"none.test", 0, true},
	} {
		r, err := m.resolver.Resolve(t.Context(), tc.host, netip.Addr{})
		failed, ok := errors.AsType[*outbox.NameError](err)
		if r.Kind != tc.kind || (err != nil) != tc.none || ok != tc.none || ok && !failed.NotFound {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	m.claim(subnetA)
	if err := m.claimer.Claim(t.Context(), subnetA); err != nil {
		t.Errorf("claimed twice: %v", err)
	}
	if err := m.claimer.Claim(t.Context(), subnetB); err != nil || m.Live(subnetB) {
		t.Errorf("claimed what is another's: %v", err)
	}
	for range 2 {
		if r, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{}); err != nil ||
			r.Kind != outbox.Own || !m.frontier.Owns("a.test") {
			t.Errorf("own: %+v, %v", r, err)
		}
	}
	// The finder's address counts, when it is in a subnet of ours ...
	if r, err := m.resolver.Resolve(t.Context(), "b.test", addrA); err != nil ||
		r.Kind != outbox.Own ||
		r.Addr != addrA {
		t.Errorf("hint of ours: %+v, %v", r, err)
	}
	// ... but makes no host.
	if _, err := m.resolver.Resolve(t.Context(), "none.test", addrA); !errors.Is(err, m.nothing) {
		t.Errorf("hint for a host that does not exist: %v", err)
	}
	m.nothing = errors.New("DNS is down")
	if _, err := m.resolver.Resolve(t.Context(), "some.test", addrA); !errors.Is(err, m.nothing) ||
		errors.Is(err, outbox.ErrGone) {
		t.Errorf("no DNS: %v", err)
	}
	m.Manager.cfg.Guard.(*guard).check = func(netip.Addr) error { return errors.New("forbidden") }
	m.names["c.test"] = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	if _, err := m.resolver.Resolve(t.Context(), "c.test", netip.Addr{}); !errors.Is(err,
		outbox.ErrGone) {
		t.Errorf("a forbidden address: %v", err)
	}
	m.names["d.test"] = []netip.Addr{}
	if _, err := m.resolver.Resolve(t.Context(), "d.test", netip.Addr{}); !errors.Is(err,
		outbox.ErrGone) ||
		strings.Contains(err.Error(), "%!") {
		t.Errorf("no address: %v", err)
	}
}

func TestClaimAlone(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil,
		func(c *Config) { c.Limiter.(*limiter).mayClaim = func() error { return ErrAlone } })
	if err := m.claimer.Claim(t.Context(), subnetA); !errors.Is(err, ErrAlone) || m.Live(subnetA) {
		t.Error(err)
	}
}

// Everything at once, for the race detector; the subnet comes to one decision.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob, carol}
	})
	m.strategy.next = probeFirst(alice)
	m.names["a.test"] = []netip.Addr{addrA}
	m.run()
	m.claim(subnetA)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range 50 {
				who, hold := m.placement.Where(subnetA)
				if hold {
					t.Error("held")
				}
				m.placement.Observe(subnetA, who, store.FetchReport{Outcome: store.OutcomeOK}, nil)
				if i == 0 && k%10 == 0 {
					if _, err := m.resolver.Resolve(t.Context(), "a.test",
						netip.Addr{}); err != nil {
						t.Error(err)
					}
				}
				m.List()
				m.resolver.Accepts(subnetA)
			}
		})
	}
	wg.Wait()
	if m.phase(subnetA) != store.PhaseOwned || m.epoch(subnetA) != 1 {
		t.Errorf("phase %v", m.phase(subnetA))
	}
}

// FuzzEvidence feeds what an offer says of a subnet.
func FuzzEvidence(f *testing.F) {
	good, err := cbor.Marshal(make([]coords.Sample, 3))
	if err != nil {
		f.Fatal(err)
	}
	now := time.Now()
	sealed, err := lease.SealLease(lease.Lease{Subnet: subnetA, Owner: alice.id, Epoch: 1,
		Issued: now, Expires: now.Add(time.Minute)}, alice.key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0x9f})
	f.Fuzz(func(t *testing.T, evidence []byte) {
		s, err := fromRecord(store.Subnet{Prefix: subnetA, Lease: sealed, Evidence: evidence})
		if err != nil || len(s.history) > maxSent {
			t.Errorf("%d samples, %v", len(s.history), err)
		}
	})
}
