package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/overlay/record/recordtest"
	"peerd/overlay/replica"
	"peerd/store"
)

const proto = "/owner-test/handover/1"

// listen starts a host on loopback that knows the others, and they it.
func listen(t *testing.T, me someone, others ...host.Host) host.Host {
	t.Helper()
	h := overlaytest.HostOf(t, me.key)
	overlaytest.Introduce(append(others, h)...)
	return h
}

// failingReceiver is a successor that may fail to take ownership, before or after it has done so.
type failingReceiver struct {
	*arrivals
	before, after atomic.Int32 // how often still
}

var errInjected = errors.New("a fault of the test")

func (f *failingReceiver) TakeOwnership(
	ctx context.Context, from peer.ID, o handover.Offer, grant []byte,
) ([]byte, error) {
	if f.before.Add(-1) >= 0 {
		return nil, errInjected
	}
	sealed, err := f.arrivals.TakeOwnership(ctx, from, o, grant)
	if err == nil && f.after.Add(-1) >= 0 {
		return nil, errInjected
	}
	return sealed, err
}

// pair is an owner and its successor, with the real protocol between them.
type pair struct {
	dht       *recordtest.DHT
	owner     *member
	successor *member
	failing   *failingReceiver
	later     *laterPolicy // the successor's
	restart   func()       // the owner, on the same store
}

// copiesOf makes a peer's half of package replica.
func copiesOf(t *testing.T, h host.Host, db *store.DB) *replica.Service {
	t.Helper()
	s, err := replica.New(replica.Config{
		Host: h, Protocol: proto + "/replica", QueryProtocol: proto + "/copies", DB: db,
		URLs:      overlaytest.URLs(func(store.URL) error { return nil }),
		Heartbeat: 20 * time.Millisecond, BatchDelay: time.Millisecond,
		Redial: 5 * time.Millisecond, Retry: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runCopies runs it until the returned function or the test's end.
func runCopies(
	t *testing.T, h host.Host, s *replica.Service, k replica.Policy,
) (stop func()) {
	t.Helper()
	s.SetPolicy(k)
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
	until(t, "copies are accepted", func() bool {
		return slices.Contains(h.Mux().Protocols(), proto+"/copies") // the last one to be served
	})
	return stop
}

func newPair(t *testing.T, successorChange func(*Config)) *pair {
	t.Helper()
	p := &pair{dht: newDHT()}
	a := listen(t, alice)
	b := listen(t, bob, a)
	successorDB := openStore(t)
	copies := copiesOf(t, b, successorDB)
	p.successor = join(t, bob, p.dht, successorDB, func(c *Config) {
		c.Replicas = copies
		if successorChange != nil {
			successorChange(c)
		}
	})
	p.later = &laterPolicy{copyPolicy: p.successor.policy}
	runCopies(t, b, copies, p.later)
	p.failing = &failingReceiver{arrivals: p.successor.arrivals}
	r := &handover.Receiver{DB: successorDB, Successor: p.failing, Copies: copies}
	server := r.Serve(b, proto, nil)
	t.Cleanup(server.Close)
	db := openStore(t)
	end := func() {}
	p.restart = func() {
		end()
		followers := copiesOf(t, a, db)
		p.owner = join(t, alice, p.dht, db, func(c *Config) {
			c.Directory, c.Replicas = directory{alice, bob}, followers
			c.Sender = &handover.Sender{Host: a, Protocol: proto, DB: db, Followers: followers}
		})
		end = runCopies(t, a, followers, p.owner.policy)
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
	err := m.cfg.DB.Update(func(tx *store.Tx) error {
		return tx.PutRobots("http://a.test", []byte("rules"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		who, hold := m.placement.Where(subnetA)
		if hold {
			t.Fatal("held")
		}
		m.placement.Observe(subnetA, who, store.FetchReport{Outcome: store.OutcomeOK,
			Timing: store.Timing{FirstByte: time.Millisecond}}, nil)
	}
	if _, hold := m.placement.Where(subnetA); !hold {
		t.Fatal("not decided")
	}
}

// arrived checks that the successor has all and the owner nothing.
func (p *pair) arrived(t *testing.T, n int) {
	t.Helper()
	until(t, "the subnet has left", func() bool { return !p.owner.Live(subnetA) })
	if p.successor.phase(subnetA) != store.PhaseOwned || p.successor.epoch(subnetA) != 2 {
		t.Errorf("at the successor: %v, epoch %d", p.successor.phase(subnetA),
			p.successor.epoch(subnetA))
	}
	if got := p.successor.queued("a.test"); got != n || p.successor.queued("b.test") != 1 ||
		!p.successor.frontier.Owns("b.test") {
		t.Errorf("the successor has %d URLs queued, want %d", got, n)
	}
	if p.owner.frontier.Owns("a.test") || p.owner.routedURLs() != 0 {
		t.Errorf("the owner has the host, or %d URLs routed", p.owner.routedURLs())
	}
	if rec, ok := p.owner.stored(subnetA); !ok || rec.Phase != store.PhaseReplica ||
		rec.Epoch != 2 || p.owner.queued("a.test") != n {
		t.Errorf("the old owner is no replica: %v, %v, epoch %d, %d URLs", ok, rec.Phase, rec.Epoch,
			p.owner.queued("a.test"))
	}
	// The successor publishes its lease after it has answered: an owner that was
	// restarted meanwhile, and remembers none, has to wait for it.
	until(t, "the owner finds the successor's lease", func() bool {
		l, _, err := p.owner.cfg.Leases.Refresh(t.Context(), subnetA)
		return err == nil && l.Owner == bob.id && l.Epoch == 2
	})
	if out, in := p.owner.cfg.DB.Counters().HandoversOut,
		p.successor.cfg.DB.Counters().HandoversIn; out != 1 || in != 1 {
		t.Errorf("%d handovers out, %d in", out, in)
	}
}

func TestHandover(t *testing.T) {
	t.Parallel()
	const n = 1200
	p := newPair(t, nil)
	p.decide(t, n)
	p.owner.run()
	p.arrived(t, n)
	s, ok := p.successor.stored(subnetA)
	if !ok || s.Phase != store.PhaseOwned || s.Epoch != 2 || s.Estimations != 1 {
		t.Errorf("the successor's record: %+v", s)
	}
	l, err := lease.OpenLease(s.Lease)
	if err != nil || l.Proxy == nil || l.Proxy.Samples != 2 {
		t.Errorf("the proxy coordinate is lost: %+v, %v", l, err)
	}
	got := p.successor.table.subnets[subnetA].history
	if len(got) != 2 || got[0].peer == got[1].peer {
		t.Errorf("samples %+v", got)
	}
	err = p.successor.cfg.DB.View(func(tx *store.Tx) error {
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
	for _, m := range []*member{p.owner, p.successor} {
		until(t, "it is told", func() bool { return len(m.told()) > 0 })
		if told := m.told(); len(told) != 1 || told[0] != subnetA {
			t.Errorf("%v was told of %v", m.me.id, told)
		}
	}
	p.owner.say("a.test", addrA)
	if r, err := p.owner.resolver.Resolve(t.Context(), "a.test", netip.Addr{}); err != nil ||
		r.Owner != bob.id {
		t.Errorf("resolved to %+v, %v", r, err)
	}
}

// A stream that breaks around the commit is mended by asking again, also after
// a restart of the owner.
func TestHandoverUnconfirmed(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(f *failingReceiver, times int32){
		"before it was adopted": func(f *failingReceiver, n int32) { f.before.Store(n) },
		"after it was adopted":  func(f *failingReceiver, n int32) { f.after.Store(n) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, nil)
			p.decide(t, 10)
			break_(p.failing, 2)
			p.owner.run()
			p.arrived(t, 10)
		})
		t.Run(name+", owner restarted", func(t *testing.T) {
			p := newPair(t, nil)
			p.decide(t, 10)
			break_(p.failing, 1)
			stop := p.owner.run()
			until(t, "it is committed", func() bool {
				s, ok := p.owner.stored(subnetA)
				// handed over already
				return !ok || s.Phase == store.PhaseCommitting || s.Phase == store.PhaseReplica
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

// A real successor that declines leaves everything as it was.
func TestHandoverRefused(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(c *Config) {
		c.Guard.(*guard).check = func(netip.Addr) error {
			return errors.New(
				"not from here")
		}
	})
	p.decide(t, 10)
	p.owner.run()
	until(t, "it stays", func() bool {
		return !p.owner.frontier.is(p.owner.frontier.shut, subnetA)
	})
	if who, hold := p.owner.placement.Where(subnetA); who != "" || hold ||
		p.owner.phase(subnetA) != store.PhaseOwned {
		t.Errorf("fetched by %q, held %v, phase %v", who, hold, p.owner.phase(subnetA))
	}
	if _, ok := p.successor.stored(subnetA); ok || p.owner.queued("a.test") != 10 {
		t.Errorf("the successor has a record: %v; %d URLs", ok, p.owner.queued("a.test"))
	}
}

// Without the DHT the successor's lease is as good, is shown to others, and gets
// there later, if the successor knows who the owner is.
func TestAdoptWithoutDHT(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.decide(t, 3)
	if _, _, err := p.successor.cfg.Leases.Refresh(t.Context(), subnetA); err != nil {
		t.Fatal(err)
	}
	var cut atomic.Bool
	cut.Store(true)
	p.dht.Cut = func(who, _ int) bool { return cut.Load() && who == 0 } // the successor came first
	p.owner.run()
	p.arrived(t, 3)
	if sealed, ok := p.successor.cfg.Leases.Sealed(subnetA); !ok || len(sealed) == 0 {
		t.Error("the successor's Registry does not know its lease")
	}
	if l, ok := p.successor.cfg.Leases.Cached(subnetA); !ok || l.Owner != bob.id || l.Epoch != 2 {
		t.Errorf("the successor's Registry has %+v", l)
	}
	cut.Store(false)
	p.successor.run()
	until(t, "the lease is in the DHT", func() bool {
		for _, raw := range p.dht.Held(lease.Key(subnetA)) {
			if l, err := lease.OpenLease(raw); err != nil || l.Epoch != 2 {
				return false
			}
		}
		return true
	})
}

// A successor that is killed right after it has adopted must find the queue where
// the lease is: nothing is in the DHT before it is on the disk.
func TestAdoptIsOnDiskFirst(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.decide(t, 3)
	p.owner.run()
	p.arrived(t, 3) // the successor does not run, so it has not published
	if s, ok := p.successor.stored(subnetA); !ok || s.Phase != store.PhaseOwned || s.Epoch != 2 {
		t.Fatalf("on the successor's disk: %+v", s)
	}
	for _, raw := range p.dht.Held(lease.Key(subnetA)) {
		if l, err := lease.OpenLease(raw); err != nil || l.Epoch != 1 {
			t.Fatalf("in the DHT: epoch %d, %v", l.Epoch, err)
		}
	}
	again := join(t, bob, p.dht, p.successor.cfg.DB, nil)
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
	t.Parallel()
	now := time.Now()
	seal := func(by someone, l lease.Lease) []byte {
		l.Issued, l.Expires = now, now.Add(time.Minute)
		b, err := lease.SealLease(l, by.key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	claim := func(by someone) lease.Lease {
		return lease.Lease{Subnet: subnetA, Owner: by.id, Epoch: 1}
	}
	grant, err := claim(alice).GrantTo(carol.id, now, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	carols := claim(alice).Next(carol.id)
	carols.Grant = grant
	for name, tc := range map[string]struct {
		offer  handover.Offer
		learnt []byte // before
		ok     bool
		done   bool
	}{
		"good": {offer: handover.Offer{Subnet: subnetA, Epoch: 2,
			Lease: seal(alice, claim(alice))}, ok: true},
		"other subnet": {offer: handover.Offer{Subnet: subnetB, Epoch: 2,
			Lease: seal(alice, claim(alice))}},
		"other owner": {offer: handover.Offer{Subnet: subnetA, Epoch: 2,
			Lease: seal(carol, claim(carol))}},
		"epoch too high": {offer: handover.Offer{Subnet: subnetA, Epoch: 3,
			Lease: seal(alice, claim(alice))}},
		"epoch overflows": {offer: handover.Offer{Subnet: subnetA, Epoch: 0,
			Lease: seal(alice, claim(alice))}},
		"rubbish": {offer: handover.Offer{Subnet: subnetA, Epoch: 2,
			Lease: []byte("rubbish")}},
		"no subnet": {offer: handover.Offer{Epoch: 2, Lease: seal(alice, claim(alice))}},
		"gone on from here": {
			offer:  handover.Offer{Subnet: subnetA, Epoch: 2, Lease: seal(alice, claim(alice))},
			learnt: seal(carol, carols), ok: true, done: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := join(t, bob, newDHT(), nil, nil)
			if tc.learnt != nil {
				m.resolver.Learn(tc.learnt)
			}
			have, err := m.arrivals.AcceptOffer(t.Context(), alice.id, tc.offer)
			if (err == nil) != tc.ok || (have != nil) != tc.done {
				t.Errorf("lease %v, error %v", have != nil, err)
			}
			if _, err := m.arrivals.TakeOwnership(t.Context(), alice.id, tc.offer,
				grant); err == nil || m.Live(subnetA) {
				t.Errorf("accepted a grant for another peer: %v", err)
			}
		})
	}
}

// An offer of what is ours by a worse lease makes us yield; the next one is
// taken.
func TestConsiderWhatIsLost(t *testing.T) {
	t.Parallel()
	by, sealed := rival(t, subnetA, alice)
	m := join(t, alice, newDHT(), nil, nil)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 2)
	o := handover.Offer{Subnet: subnetA, Epoch: 2, Lease: sealed}
	if _, err := m.arrivals.AcceptOffer(t.Context(), by.id, o); err == nil {
		t.Error("taken while it is still here")
	}
	m.run()
	until(t, "it is gone", func() bool { return !m.Live(subnetA) })
	have, err := m.arrivals.AcceptOffer(t.Context(), by.id, o)
	if err != nil || have != nil || m.routedURLs() != 2 {
		t.Errorf("lease %v, error %v, %d routed", have != nil, err, m.routedURLs())
	}
}

// Offers of subnets that were not copied before lead to few reads of the DHT and no promise, and do
// not keep the owner of a copy from offering its subnet.
func TestOffersWithoutCopy(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	m, copies, _ := guardedBy(t, bob, join(t, alice, dht, nil, nil), nil)
	offer := func(i int) handover.Offer {
		now := time.Now()
		l := lease.Lease{Owner: alice.id, Epoch: 1, Issued: now, Expires: now.Add(time.Minute),
			Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), 0}), 24)}
		sealed, err := lease.SealLease(l, alice.key)
		if err != nil {
			t.Fatal(err)
		}
		return handover.Offer{Subnet: l.Subnet, Epoch: 2, Lease: sealed}
	}
	const n = 200
	refused, began := 0, time.Now()
	for i := range n {
		have, err := m.arrivals.AcceptOffer(t.Context(), alice.id, offer(i))
		if errors.Is(err, errTooManyOffers) {
			refused++
		} else if err != nil || have != nil {
			t.Fatalf("offer %d: lease %v, %v", i, have != nil, err)
		}
	}
	most := offerRate.Burst + 1 + int(time.Since(began)/time.Second)*offerRate.PerSecond
	if _, gets := m.values.Calls(); gets > most || n-refused > most {
		t.Errorf("%d reads of the DHT for %d offers, %d refused; want at most %d", gets, n, refused,
			most)
	}
	if k := len(m.balance.balancer.taken); k != 0 {
		t.Errorf("%d subnets are expected, want none", k)
	}
	o := offer(n)
	copies.held[o.Subnet] = replica.LocalCopy{Subnet: o.Subnet, Owner: alice.id, Epoch: 1,
		Lease: o.Lease, Complete: true}
	if _, err := m.arrivals.AcceptOffer(t.Context(), alice.id, o); err != nil {
		t.Errorf("offer with a copy: %v", err)
	}
	if _, ok := m.balance.balancer.taken[o.Subnet]; !ok {
		t.Error("the subnet of which there is a copy is not expected")
	}
}

// What foreign offers say of the past is bounded.
func TestAdoptBounds(t *testing.T) {
	t.Parallel()
	m := join(t, bob, newDHT(), nil, nil)
	now := time.Now()
	l := lease.Lease{
		Subnet: subnetA, Owner: alice.id, Epoch: 1, Issued: now, Expires: now.Add(time.Minute),
		Proxy: &coords.Proxy{At: coords.Coordinate{Vec: []float64{1}}, Scale: 1},
	}
	sealed, err := lease.SealLease(l, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := l.GrantTo(bob.id, now, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	o := handover.Offer{
		Subnet: subnetA, Epoch: 2, Lease: sealed, Evidence: []byte{0xff, 0x00}, Estimations: -5,
		Wait: 1000 * time.Hour,
	}
	if _, err := m.arrivals.TakeOwnership(t.Context(), alice.id, o, grant); err != nil {
		t.Fatal(err)
	}
	if i := m.List()[0]; i.Estimations != 0 || i.Proxy == nil {
		t.Errorf("adopted %+v", i)
	}
	if wait := time.Until(m.frontier.adopts[subnetA]); wait > time.Hour {
		t.Errorf("it waits for %v", wait)
	}
	have, err := m.arrivals.AcceptOffer(t.Context(), alice.id, o) // asked again
	if err != nil || have == nil {
		t.Errorf("asked again: lease %v, %v", have != nil, err)
	}
	if _, err := m.arrivals.TakeOwnership(t.Context(), alice.id, o, grant); err == nil {
		t.Error("adopted twice")
	}
}
