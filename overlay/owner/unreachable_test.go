package owner

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/estimate"
	"peerd/store"
)

// cutOff is an owner of subnetA with a host at addrA, and the peers that can connect to it.
type cutOff struct {
	*member
	can    map[peer.ID]bool // who can connect, this peer included
	asked  []peer.ID
	online bool
	now    time.Time
}

func newCutOff(t *testing.T, can ...someone) *cutOff {
	t.Helper()
	c := &cutOff{can: map[peer.ID]bool{}, online: true, now: time.Now()}
	for _, s := range can {
		c.can[s.id] = true
	}
	c.member, _ = joinHosts(t, alice, newDHT(), nil, func(cfg *Config) {
		cfg.Directory = directory{alice, bob, carol}
		cfg.Limiter.(*limiter).online = func() bool { return c.online }
		cfg.Reacher = reachFunc(func(_ context.Context, _ store.URL, addrs []netip.Addr,
			_ time.Duration) (netip.Addr, bool) {
			return addrs[0], c.can[alice.id]
		})
		cfg.Estimate = fetchFunc(func(_ context.Context, to peer.ID, sealed []byte,
			r store.FetchRequest) (store.FetchReport, error) {
			c.asked = append(c.asked, to)
			if r.Addr != addrA || r.URL.Host() != "a.test" || sealed == nil {
				t.Errorf("asked for %+v", r)
			}
			if !c.can[to] {
				return store.FetchReport{Outcome: store.OutcomeTimeout}, nil
			}
			return store.FetchReport{Outcome: store.OutcomeOK}, nil
		})
	})
	c.claim(subnetA)
	c.plant("a.test", subnetA, addrA, 3)
	c.reachability.hosts.(*hostFrontier).addrs["a.test"] = addrA
	return c
}

// fail has a request fail.
func (c *cutOff) fail() {
	c.placement.Observe(subnetA, "", store.FetchReport{Outcome: store.OutcomeConnect}, nil)
	c.SuspectHost("a.test", store.OutcomeConnect)
}

// pass lets time pass and asks other peers if it is time to. It returns who was asked.
func (c *cutOff) pass(d time.Duration) []peer.ID {
	c.asked = nil
	c.now = c.now.Add(d)
	for _, task := range c.reachability.toAsk(c.now) {
		task(c.t.Context())
	}
	return c.asked
}

func (c *cutOff) successor() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subnets[subnetA].unit.To
}

const askWait = 3 * time.Minute

// TestUnreachableSubnetIsGivenAway verifies that a subnet goes to a peer that can reach it, and is
// not taken back for a while.
func TestUnreachableSubnetIsGivenAway(t *testing.T) {
	t.Parallel()
	c := newCutOff(t, carol)
	c.fail()
	if who := c.pass(askWait - time.Second); len(who) > 0 {
		t.Errorf("asked %v too early", who)
	}
	c.fail()
	if who := c.pass(2 * time.Second); len(who) == 0 || len(who) > 2 {
		t.Errorf("asked %v, want one or two peers", who)
	}
	if to := c.successor(); to != carol.id.String() {
		t.Errorf("the subnet goes to %q, want carol", to)
	}
	if err := c.arrivals.takes(subnetA); err == nil {
		t.Error("the subnet would be taken back")
	}
	if err := c.arrivals.takes(subnetB); err != nil {
		t.Errorf("another subnet is refused: %v", err)
	}
}

// TestHostThatAsksToWait verifies that neither this peer nor others connect to a host that has
// asked to be left alone.
func TestHostThatAsksToWait(t *testing.T) {
	t.Parallel()
	for waits, want := range map[bool]bool{true: false, false: true} {
		c := newCutOff(t, carol)
		tried := false
		c.Manager.cfg.Reacher = reachFunc(func(_ context.Context, _ store.URL, _ []netip.Addr,
			_ time.Duration) (netip.Addr, bool) {
			tried = true
			return netip.Addr{}, false
		})
		h := store.Health{State: store.HostThrottled, NextTry: time.Now().Add(-time.Second)}
		if waits {
			h.NextTry = time.Now().Add(time.Hour)
		}
		err := c.cfg.DB.Update(func(tx *store.Tx) error {
			rec, err := tx.Host("a.test")
			if err == nil {
				rec.Health = h
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		c.fail()
		if who := c.pass(askWait + time.Second); (len(who) > 0) != want || tried != want {
			t.Errorf("waits %v: asked %v, connected %v, want %v", waits, who, tried, want)
		}
		tried = false
		c.reachability.reachNow(t.Context(), "a.test", []netip.Addr{addrA})
		if tried != want {
			t.Errorf("waits %v: connected %v for a host move, want %v", waits, tried, want)
		}
	}
}

// TestReachableSubnetStays verifies when other peers are not asked, or not asked again soon.
func TestReachableSubnetStays(t *testing.T) {
	t.Parallel()
	t.Run("answered meanwhile", func(t *testing.T) {
		c := newCutOff(t, bob, carol)
		c.fail()
		c.placement.Observe(subnetA, "", store.FetchReport{Outcome: store.OutcomeHTTPError}, nil)
		if who := c.pass(2 * askWait); len(who) > 0 {
			t.Errorf("asked %v", who)
		}
	})
	t.Run("this peer can connect", func(t *testing.T) {
		c := newCutOff(t, alice, bob, carol)
		c.fail()
		if who := c.pass(2 * askWait); len(who) > 0 || c.successor() != "" {
			t.Errorf("asked %v, goes to %q", who, c.successor())
		}
		if got := c.reachability.hosts.(*hostFrontier).retried; len(got) != 1 {
			t.Errorf("asked again at once: %v, want the host", got)
		}
	})
	t.Run("offline", func(t *testing.T) {
		c := newCutOff(t, bob, carol)
		c.fail()
		c.online = false
		c.pass(2 * askWait)
		c.online = true
		if who := c.pass(askWait); len(who) > 0 {
			t.Errorf("asked %v", who)
		}
	})
	t.Run("no peer can connect", func(t *testing.T) {
		c := newCutOff(t)
		c.fail()
		n := 0
		for range 60 {
			if len(c.pass(time.Minute)) > 0 {
				n++
			}
			c.fail()
		}
		if n < 3 || n > 5 || c.successor() != "" {
			t.Errorf("asked %d times in an hour, goes to %q", n, c.successor())
		}
	})
	t.Run("in doubt when a peer can connect", func(t *testing.T) {
		c := newCutOff(t, carol)
		doubt := func(stale bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.table.subnets[subnetA].doubt(stale)
		}
		connect := c.Manager.cfg.Estimate
		c.Manager.cfg.Estimate = fetchFunc(func(ctx context.Context, to peer.ID, sealed []byte,
			r store.FetchRequest) (store.FetchReport, error) {
			doubt(true)
			return connect.Connect(ctx, to, sealed, r)
		})
		c.fail()
		if c.pass(2 * askWait); c.successor() != "" || len(c.pass(askWait)) > 0 {
			t.Errorf("while it is in doubt: goes to %q, asked %v", c.successor(), c.asked)
		}
		c.Manager.cfg.Estimate = connect
		doubt(false)
		if c.pass(time.Second); c.successor() != carol.id.String() {
			t.Errorf("afterwards: asked %v, goes to %q, want carol", c.asked, c.successor())
		}
	})
	t.Run("the others are not reached", func(t *testing.T) {
		c := newCutOff(t)
		c.Manager.cfg.Estimate = fetchFunc(func(context.Context, peer.ID, []byte,
			store.FetchRequest) (store.FetchReport, error) {
			return store.FetchReport{}, estimate.ErrNotSent
		})
		c.fail()
		if c.pass(2 * askWait); c.successor() != "" || len(c.reachability.toAsk(c.now)) > 0 {
			t.Errorf("goes to %q", c.successor())
		}
	})
}

// TestUnreachableSubnetArrives verifies with the real handover that the subnet and its queue
// arrive.
func TestUnreachableSubnetArrives(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	m := p.owner
	m.strategy.next = choose(alice)
	m.Manager.cfg.Reacher = reachFunc(func(context.Context, store.URL, []netip.Addr,
		time.Duration) (netip.Addr, bool) {
		return netip.Addr{}, false
	})
	m.Manager.cfg.Estimate = fetchFunc(func(context.Context, peer.ID, []byte, store.FetchRequest) (
		store.FetchReport, error) {
		return store.FetchReport{Outcome: store.OutcomeOK}, nil
	})
	m.Manager.cfg.Times.Unreachable = 20 * time.Millisecond
	m.Attach(&hostFrontier{fakeFrontier: m.frontier, addrs: map[string]netip.Addr{"a.test": addrA},
		held: map[string]time.Time{}, out: map[string]bool{}})
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 7)
	m.frontier.load(subnetA, 7)
	m.run()
	m.SuspectHost("a.test", store.OutcomeConnect)
	until(t, "it goes", func() bool {
		return !m.Live(subnetA) && p.successor.phase(subnetA) == store.PhaseOwned
	})
	if n := p.successor.queued("a.test"); n != 7 {
		t.Errorf("%d URLs at the successor, want 7", n)
	}
}
