package outbox

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// two returns a finder and the owner of all subnets, which has the given hosts.
func two(t *testing.T, hosts ...string) (finder, owner *testPeer) {
	t.Helper()
	a, b := listen(t), listen(t)
	introduce(a, b)
	finder, owner = newPeer(t, a, open(t, "")), newPeer(t, b, open(t, ""))
	finder.resolve = ownedBy(b.ID(), 1)
	for _, h := range hosts {
		owner.own[h] = true
	}
	return finder, owner
}

func TestBatchesReachTheOwner(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test", "y.test")
	s := b.f.Serve()
	defer s.Close()
	a.addPending("x.test", 1234)
	a.addPending("y.test", 3)
	if got := a.f.Stats(); got != (Stats{Outbox: 1237}) {
		t.Fatalf("Stats() before Run = %+v, want 1237 in the outbox", got)
	}
	stop := a.run()
	eventually(t, "all URLs are delivered", a.idle)
	stop()
	if x, y := b.queued("x.test"), b.queued("y.test"); x != 1234 || y != 3 {
		t.Errorf("queued %d and %d, want 1234 and 3", x, y)
	}
	err := b.db.View(func(tx *store.Tx) error {
		e, err := tx.Peek("x.test")
		place, _ := e.Position()
		if by := b.f.finders.number(a.host.ID()); by < 1 || by >= store.Finders ||
			place != by*store.FinderPlaces {
			t.Errorf("queued at place %d, want the first one of finder %d", place, by)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if !a.f.Sent(url("x.test", 7)) || a.f.Sent(url("x.test", 9999)) {
		t.Error("Sent: want true for a delivered URL and false for another")
	}
	c := a.db.Counters()
	if c.URLsSent != 1237 || c.BatchesSent < 12 || c.BatchesSent > 40 {
		t.Errorf("counted %d URLs sent in %d batches, want 1237 in 12 to 40",
			c.URLsSent, c.BatchesSent)
	}
	if c := b.db.Counters(); c.URLsReceived != 1237 {
		t.Errorf("counted %d URLs received, want 1237", c.URLsReceived)
	}
}

// What a peer has of others is not counted as found by it.
func TestRelayedURLs(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test")
	s := b.f.Serve()
	defer s.Close()
	err := a.db.Update(func(tx *store.Tx) error {
		for i, finder := range []int{0, 7, store.FinderRelayed} {
			_, err := tx.AddPending(store.Pending{URL: url("x.test", i), Finder: finder,
				Found: time.Now()})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.f.PendingAdded(map[string]int{"x.test": 3})
	stop := a.run()
	eventually(t, "all URLs are delivered", a.idle)
	stop()
	places := map[int]int{}
	err = b.db.View(func(tx *store.Tx) error {
		return tx.Queue("x.test", nil, func(e store.Entry) (bool, error) {
			place, _ := e.Position()
			places[place/store.FinderPlaces]++
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if by := b.f.finders.number(a.host.ID()); places[by] != 1 || places[store.FinderRelayed] != 2 {
		t.Errorf("URLs by finder: %v, want one of %d and two of %d", places, by,
			store.FinderRelayed)
	}
}

func TestOwnerHasChanged(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	c := newPeer(t, listen(t), open(t, ""))
	introduce(a.host, c.host)
	c.own["x.test"] = true
	b.accepts = func(netip.Prefix) (bool, bool, []byte) { return false, false, []byte("it is c's") }
	a.learn = func(l []byte) {
		if string(l) == "it is c's" {
			a.resolve = ownedBy(c.host.ID(), 1)
		}
	}
	for _, p := range []*testPeer{b, c} {
		s := p.f.Serve()
		defer s.Close()
	}
	a.addPending("x.test", 20)
	a.run()
	eventually(t, "all URLs are delivered", a.idle)
	if got := c.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

func TestUnreachableOwnerIsReadAgain(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test")
	closed := listen(t)
	introduce(a.host, closed)
	id := closed.ID()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	a.resolve = ownedBy(id, 1)
	reads := 0
	a.refreshOwner = func(p netip.Prefix, owner peer.ID) (bool, error) {
		if reads++; reads < 3 || p != subnet(1) || owner != id {
			return false, nil
		}
		a.resolve = ownedBy(b.host.ID(), 1)
		return true, nil
	}
	s := b.f.Serve()
	defer s.Close()
	a.addPending("x.test", 20)
	a.run()
	eventually(t, "all URLs are delivered", a.idle)
	if got := b.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

func TestMovingSubnetIsRetried(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test", "y.test")
	moving := 5
	b.accepts = func(p netip.Prefix) (bool, bool, []byte) {
		if p == subnet(1) && moving > 0 {
			moving--
			return false, true, nil
		}
		return true, false, nil
	}
	a.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if h == "x.test" {
			return ownedBy(b.host.ID(), 1)(h, netip.Addr{})
		}
		return ownedBy(b.host.ID(), 2)(h, netip.Addr{})
	}
	s := b.f.Serve()
	defer s.Close()
	a.addPending("x.test", 20)
	a.addPending("y.test", 20)
	a.run()
	eventually(t, "all URLs are delivered", a.idle)
	if x, y := b.queued("x.test"), b.queued("y.test"); x != 20 || y != 20 || moving != 0 {
		t.Errorf("queued %d and %d, want 20 and 20", x, y)
	}
}

func TestUnclaimedSubnetIsClaimed(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	claims := 0
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if claims == 3 {
			p.own[h] = true
			return Resolution{Kind: Own, Subnet: subnet(1)}, nil
		}
		return Resolution{Kind: Unowned, Subnet: subnet(1)}, nil
	}
	p.claim = func(s netip.Prefix) error {
		if claims++; claims < 3 {
			return errors.New("alone")
		}
		return nil
	}
	p.run()
	p.addPending("x.test", 2)
	p.addPending("y.test", 1)
	eventually(t, "all URLs are unclaimed", func() bool {
		return p.f.Stats() == Stats{Unclaimed: 3}
	})
	x, ok := p.f.Row("x.test")
	_, other := p.f.Row("z.test")
	if rows := p.f.Rows(); len(rows) != 2 || rows[0] != x || !ok || other ||
		x.State != "unclaimed" || x.Subnet != subnet(1) || x.Count != 2 {
		t.Errorf("Rows() = %+v, want two unclaimed hosts, and Row() = %+v the first", rows, x)
	}
	p.addPending("z.test", 1)
	eventually(t, "all URLs are enqueued", p.idle)
	for h, want := range map[string]int{"x.test": 2, "y.test": 1, "z.test": 1} {
		if got := p.queued(h); got != want {
			t.Errorf("%s: %d queued, want %d", h, got, want)
		}
	}
}

// URLs may be moved before the crawler reports them.
func TestLateNotification(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		p.own[h] = true
		return Resolution{Kind: Own, Subnet: subnet(1)}, nil
	}
	p.afterCommit = func() {
		p.set(func() { p.own["x.test"] = true })
		for more := true; more; {
			var err error
			if _, more, err = p.Enqueue("x.test"); err != nil {
				t.Error(err)
			}
		}
	}
	p.addPending("x.test", 20)
	if got := p.f.Stats(); got.Outbox != 20 {
		t.Fatalf("Stats() = %+v, want 20 in the outbox", got)
	}
	p.run()
	eventually(t, "the count is corrected", p.idle)
	if asked := p.asked["x.test"]; asked > 2 {
		t.Errorf("host was resolved %d times, want at most 2", asked)
	}
	if got := p.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

func TestGoneHostIsDropped(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(string, netip.Addr) (Resolution, error) {
		return Resolution{}, fmt.Errorf("%w: x", ErrGone)
	}
	p.addPending(strings.Repeat("a", 63)+"."+strings.Repeat("b", 63)+".test", 2300)
	p.run()
	eventually(t, "all URLs are dropped", p.idle)
	if got := p.db.Counters().Failed; got != 2300 {
		t.Errorf("%d failed, want 2300", got)
	}
}

// What the names of hosts fail with decides when their URLs are given up, and leaves a record.
func TestNameIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, noHost{}, memoryStore(t))
		start := time.Now()
		servfail, nxdomain := errors.New("SERVFAIL"), errors.New("NXDOMAIN")
		p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
			now := time.Now()
			switch h {
			case "failing.test":
				return Resolution{}, &NameError{Began: now, Err: servfail}
			case "missing.test":
				return Resolution{}, &NameError{NotFound: true, Began: now, Err: nxdomain}
			case "cached.test":
				return Resolution{}, &NameError{NotFound: true, Began: start, Err: nxdomain}
			case "back.test":
				if now.Sub(start) < time.Hour {
					return Resolution{}, &NameError{Began: now, Err: servfail}
				}
				p.own[h] = true
				return Resolution{Kind: Own, Subnet: subnet(1)}, nil
			}
			return Resolution{}, errors.New("the DHT is slow")
		}
		c := p.config()
		c.Retry, c.MaxRetry = time.Second, 30*time.Second
		c.NamePatience, c.NotFoundSpan = 3*time.Hour, 2*time.Hour
		f, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		p.f = f
		hosts := []string{"failing.test", "missing.test", "cached.test", "back.test", "other.test"}
		for _, h := range hosts {
			p.addPending(h, 3)
		}
		stop := p.run()
		time.Sleep(2*time.Hour - time.Second)
		if n := p.db.Counters().Failed; n != 0 {
			t.Errorf("%d URLs were given up early", n)
		}
		time.Sleep(10 * time.Hour)
		stop()
		given := map[string]store.GivenUp{}
		err = p.db.View(func(tx *store.Tx) error {
			return tx.EachGivenUp("", nil, func(g store.GivenUp) (bool, error) {
				given[g.URL.Host()] = g
				return true, nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		for h, want := range map[string]struct {
			text  string
			tries int
			after time.Duration
		}{
			"failing.test": {"SERVFAIL", 0, 3 * time.Hour},
			"missing.test": {"NXDOMAIN", 3, 2 * time.Hour},
		} {
			g := given[h]
			after := g.At.Sub(start)
			if g.Outcome != store.OutcomeDNS || g.Error != want.text ||
				want.tries > 0 && g.Tries != want.tries || after < want.after ||
				after > want.after+time.Hour ||
				!g.First.Equal(start.Round(0)) && g.First.Sub(start) > time.Second {
				t.Errorf("%s: %+v after %v, want %+v", h, g, after, want)
			}
		}
		if len(given) != 2 || p.db.Counters().Failed != 6 || p.queued("back.test") != 3 {
			t.Errorf("given up %v, failed %d, queued %d, want 2 hosts, 6, 3", given,
				p.db.Counters().Failed, p.queued("back.test"))
		}
	})
}

// noHost is a host for tests in which nothing is sent.
type noHost struct{ host.Host }

// memoryStore opens a store that a bubble of synctest can contain.
func memoryStore(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open("", store.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// A lookup that began before the network came back does not count.
func TestLookupBeforeNetworkIsBack(t *testing.T) {
	t.Parallel()
	c := Config{Retry: time.Second, NamePatience: time.Minute, NotFoundSpan: time.Minute,
		MaxNameRetry: time.Minute}
	back := time.Now()
	for _, notFound := range []bool{false, true} {
		var s nameState
		for i := range 10 {
			err := &NameError{NotFound: notFound, Began: back.Add(-time.Duration(i+1) * time.Hour),
				Err: errors.New("x")}
			if v := s.failed(err, back, back.Add(time.Hour), c); v.giveUp || s != (nameState{}) {
				t.Errorf("not found %v: %+v, %+v, want no effect", notFound, v, s)
			}
		}
	}
}

// Hosts and subnets that wait for name servers or rivals do not delay many others.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, noHost{}, memoryStore(t))
		r := &slowResolver{testPeer: p, claimed: map[netip.Prefix]bool{}}
		c := p.config()
		c.Resolver, c.UnclaimedURLs = r, 1
		f, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		p.f = f
		for i := range 200 {
			p.addPending(fmt.Sprintf("h%d.test", i), 1)
		}
		start := time.Now()
		stop := p.run()
		for p.pendingURLs() > 0 && time.Since(start) < time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("200 hosts in 200 subnets took %v, want about 3s", took)
		}
		stop()
	})
}

// slowResolver takes a second for each claim and each host of its own.
type slowResolver struct {
	*testPeer
	claimed map[netip.Prefix]bool
}

func (r *slowResolver) Resolve(
	_ context.Context, host string, _ netip.Addr,
) (Resolution, error) {
	var i int
	if _, err := fmt.Sscanf(host, "h%d.test", &i); err != nil {
		return Resolution{}, err
	}
	p := subnet(i)
	owned := false
	r.set(func() { owned = r.claimed[p] })
	if !owned {
		return Resolution{Kind: Unowned, Subnet: p}, nil
	}
	time.Sleep(time.Second)
	r.set(func() { r.own[host] = true })
	return Resolution{Kind: Own, Subnet: p}, nil
}

func (r *slowResolver) Claim(_ context.Context, p netip.Prefix) error {
	time.Sleep(time.Second)
	r.set(func() { r.claimed[p] = true })
	return nil
}

func TestHintIsPassedOn(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	got := make(chan netip.Addr, 1)
	b.resolve = func(_ string, hint netip.Addr) (Resolution, error) {
		select {
		case got <- hint:
		default:
		}
		return Resolution{}, errors.New("enough")
	}
	s := b.f.Serve()
	defer s.Close()
	a.addPending("x.test", 1)
	a.run()
	b.run()
	if h := <-got; h != addr(1) {
		t.Errorf("hint %v, want %v", h, addr(1))
	}
}

func TestStoreErrorEndsRun(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.addPending("x.test", 1)
	if err := p.db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.f.Run(t.Context()); err == nil {
		t.Error("Run with a closed store = nil, want an error")
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	err := Config{NotFoundSpan: -1, MaxAge: -1}.Validate()
	for _, want := range []string{"DB", "Host", "Protocol", "Resolver", "Node", "MaxURLs",
		"MaxAge", "UnclaimedURLs", "Retry", "NotFoundSpan"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate does not mention %s: %v", want, err)
		}
	}
	if err := p.config().Validate(); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New with an empty Config = nil, want an error")
	}
}

// If a subnet's owner changes, as reported by ResolveAgain, its URLs follow.
func TestResolveAgain(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(string, netip.Addr) (Resolution, error) {
		return Resolution{Kind: Unowned, Subnet: subnet(1)}, nil
	}
	p.run()
	p.addPending("x.test", 3)
	eventually(t, "all URLs are unclaimed", func() bool {
		return p.f.Stats() == Stats{Unclaimed: 3}
	})
	p.set(func() {
		p.own["x.test"] = true
		p.resolve = func(string, netip.Addr) (Resolution, error) {
			return Resolution{Kind: Own, Subnet: subnet(1)}, nil
		}
	})
	p.f.ResolveAgain(subnet(2))
	p.f.ResolveAgain(subnet(1))
	eventually(t, "all URLs are enqueued", p.idle)
	if got := p.queued("x.test"); got != 3 {
		t.Errorf("%d queued, want 3", got)
	}
}

// A host of this peer that cannot take URLs now gets them later.
func TestEnqueueFails(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if p.asked[h] == 4 {
			p.own[h] = true
		}
		return Resolution{Kind: Own, Subnet: subnet(1)}, nil
	}
	p.run()
	p.addPending("x.test", 20)
	eventually(t, "all URLs are enqueued", p.idle)
	if got := p.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

// If a host becomes this peer's while a batch with its URLs is in progress, no URL is counted
// or deleted twice.
func TestOwnerChangesDuringBatch(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test")
	arrived, answer := make(chan struct{}), make(chan struct{})
	s := wire.Serve(b.host, proto, batchLimits, nil, func(_ context.Context, c *wire.Conn) error {
		var m batch
		if err := c.RecvZ(&m); err != nil {
			return err
		}
		r, err := b.f.receive(context.Background(), m)
		if err != nil {
			return err
		}
		close(arrived)
		<-answer
		return c.Send(r)
	})
	defer s.Close()
	a.addPending("x.test", 30)
	a.run()
	<-arrived
	a.set(func() {
		a.own["x.test"] = true
		a.resolve = func(string, netip.Addr) (Resolution, error) {
			return Resolution{Kind: Own, Subnet: subnet(1)}, nil
		}
	})
	a.f.ResolveAgain(subnet(1))
	eventually(t, "all URLs are enqueued", func() bool { return a.queued("x.test") == 30 })
	a.set(func() { a.own["x.test"] = false })
	a.set(func() {
		a.resolve = func(string, netip.Addr) (Resolution, error) {
			return Resolution{}, errors.New("not yet")
		}
	})
	if err := a.Route([]store.Pending{{URL: "http://x.test/new"}}); err != nil {
		t.Fatal(err)
	}
	close(answer)
	eventually(t, "the receipt has arrived", func() bool {
		return a.db.Counters().BatchesSent == 1
	})
	if got := a.f.Stats(); got != (Stats{Outbox: 1}) || a.pendingURLs() != 1 {
		t.Errorf("Stats() = %+v with %d URLs in the store, want only the new one",
			got, a.pendingURLs())
	}
	if c := a.db.Counters(); c.URLsSent != 0 {
		t.Errorf("counted %d URLs sent, want 0", c.URLsSent)
	}
}

var (
	_ Node     = (*testPeer)(nil)
	_ Resolver = (*testPeer)(nil)
)
