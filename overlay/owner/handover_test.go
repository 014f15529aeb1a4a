package owner

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/lease/register/registertest"
	"peerd/overlay/overlaytest"
	"peerd/overlay/shadow"
	"peerd/store"
)

const proto = "/owner-test/handover/1"

// listen starts a host on loopback that knows the others, and they it.
func listen(t *testing.T, me someone, others ...host.Host) host.Host {
	t.Helper()
	h := overlaytest.Host(t, libp2p.Identity(me.key))
	overlaytest.Introduce(append(others, h)...)
	return h
}

// frailHeir is an heir whose Adopt may fail, before or after it is done.
type frailHeir struct {
	*Manager
	before, after atomic.Int32 // how often still
}

var errFrail = errors.New("a fault of the test")

func (f *frailHeir) Adopt(ctx context.Context, from peer.ID, o handover.Offer, grant []byte, hosts []store.Host) ([]byte, error) {
	if f.before.Add(-1) >= 0 {
		return nil, errFrail
	}
	sealed, err := f.Manager.Adopt(ctx, from, o, grant, hosts)
	if err == nil && f.after.Add(-1) >= 0 {
		return nil, errFrail
	}
	return sealed, err
}

// pair is an owner and its heir, with the real protocol between them.
type pair struct {
	dht     *registertest.DHT
	owner   *member
	heir    *member
	frail   *frailHeir
	restart func() // the owner, on the same store
}

// copiesOf makes a peer's half of package shadow.
func copiesOf(t *testing.T, h host.Host, db *store.DB) *shadow.Service {
	t.Helper()
	s, err := shadow.New(shadow.Config{
		Host: h, Protocol: proto + "/shadow", Asking: proto + "/copies", DB: db, Check: func(store.URL) error { return nil },
		Beat: 20 * time.Millisecond, Gather: time.Millisecond, Redial: 5 * time.Millisecond, Retry: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runCopies runs it until the returned function or the test's end.
func runCopies(t *testing.T, s *shadow.Service, k shadow.Keeper) (stop func()) {
	t.Helper()
	s.Attach(k)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func newPair(t *testing.T, heirChange func(*Config)) *pair {
	t.Helper()
	p := &pair{dht: newDHT()}
	a := listen(t, alice)
	b := listen(t, bob, a)
	heirDB := openStore(t)
	copies := copiesOf(t, b, heirDB)
	p.heir = join(t, bob, p.dht, heirDB, func(c *Config) {
		c.Replicas = copies
		if heirChange != nil {
			heirChange(c)
		}
	})
	runCopies(t, copies, p.heir.Manager)
	p.frail = &frailHeir{Manager: p.heir.Manager}
	r := &handover.Receiver{DB: heirDB, Heir: p.frail, Copies: copies}
	server := r.Serve(b, proto, nil)
	t.Cleanup(server.Close)
	db := openStore(t)
	end := func() {}
	p.restart = func() {
		end()
		followers := copiesOf(t, a, db)
		p.owner = join(t, alice, p.dht, db, func(c *Config) {
			c.Directory, c.Replicas = directory{alice, bob}, followers
			c.Sender = &handover.Sender{Host: a, Protocol: proto, DB: db, Shadows: followers}
		})
		end = runCopies(t, followers, p.owner.Manager)
		p.owner.strategy.next = probeFirst(bob)
	}
	p.restart()
	return p
}

// decide claims a subnet with n URLs for the owner and estimates until it is to
// leave.
func (p *pair) decide(t *testing.T, n int) {
	t.Helper()
	m := p.owner
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, n)
	m.plant("b.test", subnetA, addrA, 1)
	err := m.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutRobots("http://a.test", []byte("rules")) })
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		who, hold := m.Where(subnetA)
		if hold {
			t.Fatal("held")
		}
		m.Observe(subnetA, who, store.FetchReport{Outcome: store.OutcomeOK, Timing: store.Timing{FirstByte: time.Millisecond}}, nil)
	}
	if _, hold := m.Where(subnetA); !hold {
		t.Fatal("not decided")
	}
}

// arrived checks that the heir has all and the owner nothing.
func (p *pair) arrived(t *testing.T, n int) {
	t.Helper()
	until(t, "the subnet has left", func() bool { return !p.owner.Live(subnetA) })
	if p.heir.phase(subnetA) != store.PhaseOwned || p.heir.epoch(subnetA) != 2 {
		t.Errorf("at the heir: %v, epoch %d", p.heir.phase(subnetA), p.heir.epoch(subnetA))
	}
	if got := p.heir.queued("a.test"); got != n || p.heir.queued("b.test") != 1 || !p.heir.frontier.Owns("b.test") {
		t.Errorf("the heir has %d URLs queued, want %d", got, n)
	}
	if p.owner.frontier.Owns("a.test") || p.owner.routedURLs() != 0 {
		t.Errorf("the owner has the host, or %d URLs routed", p.owner.routedURLs())
	}
	if rec, ok := p.owner.stored(subnetA); !ok || rec.Phase != store.PhaseShadow || rec.Epoch != 2 || p.owner.queued("a.test") != n {
		t.Errorf("the old owner is no shadow: %v, %v, epoch %d, %d URLs", ok, rec.Phase, rec.Epoch, p.owner.queued("a.test"))
	}
	// The heir publishes its lease after it has answered: an owner that was
	// restarted meanwhile, and remembers none, has to wait for it.
	until(t, "the owner finds the heir's lease", func() bool {
		l, _, err := p.owner.cfg.Leases.Refresh(t.Context(), subnetA)
		return err == nil && l.Owner == bob.id && l.Epoch == 2
	})
	if out, in := p.owner.cfg.DB.Counters().HandoversOut, p.heir.cfg.DB.Counters().HandoversIn; out != 1 || in != 1 {
		t.Errorf("%d handovers out, %d in", out, in)
	}
}

func TestHandover(t *testing.T) {
	const n = 1200
	p := newPair(t, nil)
	p.decide(t, n)
	p.owner.run()
	p.arrived(t, n)
	s, ok := p.heir.stored(subnetA)
	if !ok || s.Phase != store.PhaseOwned || s.Epoch != 2 || s.Estimations != 1 {
		t.Errorf("the heir's record: %+v", s)
	}
	l, err := lease.OpenLease(s.Lease)
	if err != nil || l.Proxy == nil || l.Proxy.Samples != 2 {
		t.Errorf("the proxy coordinate is lost: %+v, %v", l, err)
	}
	if got := p.heir.subnets[subnetA].samples; len(got) != 2 || got[0].Peer == got[1].Peer {
		t.Errorf("samples %+v", got)
	}
	err = p.heir.cfg.DB.View(func(tx *store.Tx) error {
		v, err := tx.Robots("http://a.test")
		if string(v) != "rules" {
			t.Errorf("robots.txt is %q", v)
		}
		if seen, err := tx.Seen("http://a.test/3"); err != nil || !seen {
			t.Error("the seen-set is lost")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, m := range []*member{p.owner, p.heir} {
		until(t, "it is told", func() bool { return len(m.told()) > 0 })
		if told := m.told(); len(told) != 1 || told[0] != subnetA {
			t.Errorf("%v was told of %v", m.me.id, told)
		}
	}
	p.owner.say("a.test", addrA)
	if r, err := p.owner.Resolve(t.Context(), "a.test", netip.Addr{}); err != nil || r.Owner != bob.id {
		t.Errorf("resolved to %+v, %v", r, err)
	}
}

// A stream that breaks around the commit is mended by asking again, also after
// a restart of the owner.
func TestHandoverInDoubt(t *testing.T) {
	for name, break_ := range map[string]func(f *frailHeir, times int32){
		"before it was adopted": func(f *frailHeir, n int32) { f.before.Store(n) },
		"after it was adopted":  func(f *frailHeir, n int32) { f.after.Store(n) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, nil)
			p.decide(t, 10)
			break_(p.frail, 2)
			p.owner.run()
			p.arrived(t, 10)
		})
		t.Run(name+", owner restarted", func(t *testing.T) {
			p := newPair(t, nil)
			p.decide(t, 10)
			break_(p.frail, 1)
			stop := p.owner.run()
			until(t, "it is committed", func() bool {
				s, ok := p.owner.stored(subnetA)
				return !ok || s.Phase == store.PhaseCommitting || s.Phase == store.PhaseShadow // handed over already
			})
			stop()
			gone := !p.owner.Live(subnetA) // it was quick
			p.restart()
			if p.owner.Live(subnetA) == gone {
				t.Fatal("the restart brought it back, or lost it")
			}
			p.owner.run()
			p.arrived(t, 10)
		})
	}
}

// A real heir that declines leaves everything as it was.
func TestHandoverRefused(t *testing.T) {
	p := newPair(t, func(c *Config) { c.Allowed = func(netip.Addr) error { return errors.New("not from here") } })
	p.decide(t, 10)
	p.owner.run()
	until(t, "it stays", func() bool { return !p.owner.frontier.is(p.owner.frontier.shut, subnetA) })
	if who, hold := p.owner.Where(subnetA); who != "" || hold || p.owner.phase(subnetA) != store.PhaseOwned {
		t.Errorf("fetched by %q, held %v, phase %v", who, hold, p.owner.phase(subnetA))
	}
	if _, ok := p.heir.stored(subnetA); ok || p.owner.queued("a.test") != 10 {
		t.Errorf("the heir has a record: %v; %d URLs", ok, p.owner.queued("a.test"))
	}
}

// Without the DHT the heir's lease is as good, is shown to others, and gets
// there later.
func TestAdoptWithoutDHT(t *testing.T) {
	p := newPair(t, nil)
	p.decide(t, 3)
	var cut atomic.Bool
	cut.Store(true)
	p.dht.Cut = func(who, _ int) bool { return cut.Load() && who == 0 } // the heir came first
	p.owner.run()
	p.arrived(t, 3)
	if sealed, ok := p.heir.cfg.Leases.Sealed(subnetA); !ok || len(sealed) == 0 {
		t.Error("the heir's Registry does not know its lease")
	}
	if l, ok := p.heir.cfg.Leases.Cached(subnetA); !ok || l.Owner != bob.id || l.Epoch != 2 {
		t.Errorf("the heir's Registry has %+v", l)
	}
	cut.Store(false)
	p.heir.run()
	until(t, "the lease is in the DHT", func() bool {
		for _, raw := range p.dht.Held(lease.Key(subnetA)) {
			if l, err := lease.OpenLease(raw); err != nil || l.Epoch != 2 {
				return false
			}
		}
		return true
	})
}

// A heir that is killed right after it has adopted must find the queue where
// the lease is: nothing is in the DHT before it is on the disk.
func TestAdoptIsOnDiskFirst(t *testing.T) {
	p := newPair(t, nil)
	p.decide(t, 3)
	p.owner.run()
	p.arrived(t, 3) // the heir does not run, so it has not published
	if s, ok := p.heir.stored(subnetA); !ok || s.Phase != store.PhaseOwned || s.Epoch != 2 {
		t.Fatalf("on the heir's disk: %+v", s)
	}
	for _, raw := range p.dht.Held(lease.Key(subnetA)) {
		if l, err := lease.OpenLease(raw); err != nil || l.Epoch != 1 {
			t.Fatalf("in the DHT: epoch %d, %v", l.Epoch, err)
		}
	}
	again := join(t, bob, p.dht, p.heir.cfg.DB, nil)
	if again.phase(subnetA) != store.PhaseOwned || again.queued("a.test") != 3 {
		t.Fatalf("after a restart: %v, %d URLs", again.phase(subnetA), again.queued("a.test"))
	}
	again.run()
	until(t, "the lease is in the DHT", func() bool {
		for _, raw := range p.dht.Held(lease.Key(subnetA)) {
			if l, err := lease.OpenLease(raw); err != nil || l.Epoch != 2 {
				return false
			}
		}
		return true
	})
}

func TestConsider(t *testing.T) {
	now := time.Now()
	seal := func(by someone, p netip.Prefix, epoch uint64, grant []byte) []byte {
		b, err := lease.SealLease(lease.Lease{
			Subnet: p, Owner: by.id, Epoch: epoch, Issued: now, Expires: now.Add(time.Minute), Grant: grant,
		}, by.key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	grant, err := lease.SealGrant(lease.Grant{Subnet: subnetA, From: alice.id, To: carol.id, Epoch: 2, Issued: now}, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		offer  handover.Offer
		learnt []byte // before
		ok     bool
		done   bool
	}{
		"good":            {offer: handover.Offer{Subnet: subnetA, Epoch: 2, Lease: seal(alice, subnetA, 1, nil)}, ok: true},
		"other subnet":    {offer: handover.Offer{Subnet: subnetB, Epoch: 2, Lease: seal(alice, subnetA, 1, nil)}},
		"other owner":     {offer: handover.Offer{Subnet: subnetA, Epoch: 2, Lease: seal(carol, subnetA, 1, nil)}},
		"epoch too high":  {offer: handover.Offer{Subnet: subnetA, Epoch: 3, Lease: seal(alice, subnetA, 1, nil)}},
		"epoch overflows": {offer: handover.Offer{Subnet: subnetA, Epoch: 0, Lease: seal(alice, subnetA, 1, nil)}},
		"rubbish":         {offer: handover.Offer{Subnet: subnetA, Epoch: 2, Lease: []byte("rubbish")}},
		"no subnet":       {offer: handover.Offer{Epoch: 2, Lease: seal(alice, subnetA, 1, nil)}},
		"gone on from here": {
			offer:  handover.Offer{Subnet: subnetA, Epoch: 2, Lease: seal(alice, subnetA, 1, nil)},
			learnt: seal(carol, subnetA, 2, grant), ok: true, done: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := join(t, bob, newDHT(), nil, nil)
			if tc.learnt != nil {
				m.Learn(tc.learnt)
			}
			have, err := m.Consider(alice.id, tc.offer)
			if (err == nil) != tc.ok || (have != nil) != tc.done {
				t.Errorf("lease %v, error %v", have != nil, err)
			}
			if _, err := m.Adopt(t.Context(), alice.id, tc.offer, grant, nil); err == nil || m.Live(subnetA) {
				t.Errorf("adopted by a grant for somebody else: %v", err)
			}
		})
	}
}

// An offer of what is ours by a worse lease makes us yield; the next one is
// taken.
func TestConsiderWhatIsLost(t *testing.T) {
	by, sealed := rival(t, subnetA, alice)
	m := join(t, alice, newDHT(), nil, nil)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 2)
	o := handover.Offer{Subnet: subnetA, Epoch: 2, Lease: sealed}
	if _, err := m.Consider(by.id, o); err == nil {
		t.Error("taken while it is still here")
	}
	m.run()
	until(t, "it is gone", func() bool { return !m.Live(subnetA) })
	if have, err := m.Consider(by.id, o); err != nil || have != nil || m.routedURLs() != 2 {
		t.Errorf("lease %v, error %v, %d routed", have != nil, err, m.routedURLs())
	}
}

// What foreign offers say of the past is bounded.
func TestAdoptBounds(t *testing.T) {
	m := join(t, bob, newDHT(), nil, nil)
	now := time.Now()
	sealed, err := lease.SealLease(lease.Lease{
		Subnet: subnetA, Owner: alice.id, Epoch: 1, Issued: now, Expires: now.Add(time.Minute),
		Proxy: &coords.Proxy{At: coords.Coordinate{Vec: []float64{1}}, Scale: 1},
	}, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := lease.SealGrant(lease.Grant{Subnet: subnetA, From: alice.id, To: bob.id, Epoch: 2, Issued: now}, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	o := handover.Offer{
		Subnet: subnetA, Epoch: 2, Lease: sealed, Evidence: []byte{0xff, 0x00}, Estimations: -5, Wait: 1000 * time.Hour,
	}
	if _, err := m.Adopt(t.Context(), alice.id, o, grant, nil); err != nil {
		t.Fatal(err)
	}
	if i := m.List()[0]; i.Estimations != 0 || i.Proxy == nil {
		t.Errorf("adopted %+v", i)
	}
	if wait := time.Until(m.frontier.adopts[subnetA]); wait > time.Hour {
		t.Errorf("it waits for %v", wait)
	}
	have, err := m.Consider(alice.id, o) // asked again
	if err != nil || have == nil {
		t.Errorf("asked again: lease %v, %v", have != nil, err)
	}
	if _, err := m.Adopt(t.Context(), alice.id, o, grant, nil); err == nil {
		t.Error("adopted twice")
	}
}
