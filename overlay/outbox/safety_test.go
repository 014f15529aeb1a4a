package outbox

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// URLs that only this peer has are not acknowledged.
func TestReceiveUnsafe(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.own["x.test"] = true
	var asked []netip.Prefix
	unsafe := []netip.Prefix{subnet(2)}
	p.safe = func(ps []netip.Prefix) []netip.Prefix {
		if got := p.queued("x.test"); got != 1 {
			t.Errorf("Safe was called with %d URLs in the store, want 1", got)
		}
		asked = ps
		return unsafe
	}
	b := batch{Groups: []group{
		{Host: "x.test", Subnet: subnet(1), URLs: []item{{URL: "http://x.test/a"}}},
		{Host: "x.test", Subnet: subnet(2), URLs: []item{{URL: "http://x.test/a"}}},
		{Host: "new.test", Subnet: subnet(1), URLs: []item{{URL: "http://new.test/a"}}},
		{Host: "away.test", Subnet: subnet(1), URLs: []item{{URL: "http://away.test/a"}}},
	}}
	p.homeElsewhere = func(h string, _ netip.Prefix) bool { return h == "away.test" }
	see := func(want ...result) {
		t.Helper()
		r, err := p.f.receive(t.Context(), b)
		if err != nil || !slices.Equal(r.Results, want) {
			t.Errorf("results %v, %v, want %v", r.Results, err, want)
		}
	}
	see(accepted, retryLater, retryLater, wrongHome)
	if !slices.Equal(asked, []netip.Prefix{subnet(1), subnet(2)}) {
		t.Errorf("Safe was called with %v, want subnets 1 and 2", asked)
	}
	if p.pendingURLs() != 1 {
		t.Errorf("%d URLs pending, want 1", p.pendingURLs())
	}
	unsafe = nil
	p.own["new.test"] = true
	if _, _, err := p.Enqueue("new.test"); err != nil {
		t.Fatal(err)
	}
	see(accepted, accepted, accepted, wrongHome)
	if got := p.queued("new.test"); got != 1 {
		t.Errorf("%d queued, want 1", got)
	}
}

// The replicas that count are those of the subnet in which the URLs are queued, also if the sender
// has found the host in another subnet of this peer. A copy of another peer's host does not count.
func TestReceiveUnsafeHome(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.own["x.test"] = true
	err := p.db.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: "x.test", Subnet: subnet(2), Addr: addr(2)})
		tx.PutHost(store.Host{Name: "copy.test", Subnet: subnet(3), Addr: addr(3)})
		return errors.Join(
			tx.PutSubnet(store.Subnet{Prefix: subnet(2), Phase: store.PhaseOwned}),
			tx.PutSubnet(store.Subnet{Prefix: subnet(3), Phase: store.PhaseReplica}))
	})
	if err != nil {
		t.Fatal(err)
	}
	unsafe := []netip.Prefix{subnet(2), subnet(3)}
	p.safe = func(ps []netip.Prefix) []netip.Prefix {
		return slices.DeleteFunc(ps, func(s netip.Prefix) bool {
			return !slices.Contains(unsafe, s)
		})
	}
	p.check = func(u store.URL) error {
		if u.Host() == "copy.test" {
			return errors.New("bad")
		}
		return nil
	}
	b := batch{Groups: []group{
		{Host: "x.test", Subnet: subnet(1), URLs: []item{{URL: "http://x.test/a"}}},
		{Host: "copy.test", Subnet: subnet(1), URLs: []item{{URL: "http://copy.test/a"}}},
	}}
	for _, want := range []result{retryLater, accepted} {
		r, err := p.f.receive(t.Context(), b)
		if err != nil || !slices.Equal(r.Results, []result{want, accepted}) {
			t.Errorf("results %v, %v, want %v for the host here", r.Results, err, want)
		}
		unsafe = nil
	}
	if got := p.queued("x.test"); got != 1 {
		t.Errorf("%d queued, want 1", got)
	}
}

// Made-up URLs of other peers do not bring a peer over its limit, and do not keep others from
// sending URLs of its hosts. That is so after a restart, too.
func TestReceiveCrowded(t *testing.T) {
	t.Parallel()
	const limit = 1000
	p := newPeer(t, listen(t), open(t, ""))
	p.own["x.test"] = true
	err := p.db.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: "x.test", Subnet: subnet(1), Addr: addr(1)})
		return tx.PutSubnet(store.Subnet{Prefix: subnet(1), Phase: store.PhaseOwned})
	})
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	send := func() []result {
		t.Helper()
		b := batch{from: 1}
		for range 30 {
			next++
			h := fmt.Sprintf("h%d.test", next)
			b.Groups = append(b.Groups, group{Host: h, Subnet: subnet(1),
				URLs: []item{{URL: url(h, 0)}}})
		}
		b.Groups = append(b.Groups, group{Host: "x.test", Subnet: subnet(1),
			URLs: []item{{URL: url("x.test", next)}}})
		r, err := p.f.receive(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return r.Results
	}
	start := func() {
		p.restart(p.db)
		p.f.cfg.MaxPending, p.f.table.cfg.MaxPending = limit, limit
	}
	start()
	for i := range 80 {
		if i == 40 {
			start()
		}
		got := send()
		if last := len(got) - 1; got[0] != retryLater || got[last] != accepted {
			t.Fatalf("batch %d: results %v, want URLs that are pending sent later", i, got)
		}
	}
	if n := p.pendingURLs(); n < limit/maxReceived || n >= limit/maxReceived+30 || p.f.OverLimit() {
		t.Errorf("%d URLs pending, over the limit: %v; want about %d", n, p.f.OverLimit(),
			limit/maxReceived)
	}
	if got := p.queued("x.test"); got != 80 {
		t.Errorf("%d queued, want 80", got)
	}
	p.resolve = func(string, netip.Addr) (Resolution, error) {
		return Resolution{Kind: Own, Subnet: subnet(1)}, nil
	}
	for i := range next + 1 {
		p.own[fmt.Sprintf("h%d.test", i)] = true
	}
	stop := p.run()
	defer stop()
	eventually(t, "nothing is pending", p.idle) // what leaves makes room
	p.f.withTable(func(tab *hostTable) {
		if tab.received != 0 || tab.crowded() {
			t.Errorf("%d received URLs are counted, want none", tab.received)
		}
	})
}

// A URL that the receiver drops is acknowledged in the end.
func TestDroppedURLIsAcknowledged(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	b.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{}, ErrGone }
	s := b.f.Serve()
	defer s.Close()
	a.resolve = ownedBy(b.host.ID(), 1)
	a.addPending("x.test", 5)
	a.run()
	b.run()
	eventually(t, "all URLs are delivered", func() bool { return a.idle() && b.idle() })
	if n := b.db.Counters().Failed; n != 5 {
		t.Errorf("%d failed, want 5", n)
	}
}

// The home record of a host that has moved is read again.
func TestWrongHome(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	c := newPeer(t, listen(t), open(t, ""))
	introduce(a.host, c.host)
	c.own["x.test"] = true
	b.homeElsewhere = func(string, netip.Prefix) bool { return true }
	a.resolve = ownedBy(b.host.ID(), 1)
	a.refreshHome = func(string) error { a.resolve = ownedBy(c.host.ID(), 2); return nil }
	for _, p := range []*testPeer{b, c} {
		s := p.f.Serve()
		defer s.Close()
	}
	a.addPending("x.test", 20)
	a.run()
	eventually(t, "all URLs are delivered", a.idle)
	if got := c.queued("x.test"); got != 20 || b.pendingURLs() != 0 {
		t.Errorf("%d queued, want 20; %d pending at the wrong home, want 0", got, b.pendingURLs())
	}
}

// A receiver that would forward a host's URLs to another peer makes the finder read the home
// record. Otherwise the finder would send them again without end, because only URLs in a queue
// are acknowledged.
func TestForwardedHost(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	c := newPeer(t, listen(t), open(t, ""))
	introduce(a.host, c.host)
	introduce(b.host, c.host)
	c.own["x.test"] = true
	a.resolve = ownedBy(b.host.ID(), 1)
	b.resolve = ownedBy(c.host.ID(), 2)
	a.refreshHome = func(string) error { a.resolve = ownedBy(c.host.ID(), 2); return nil }
	for _, p := range []*testPeer{b, c} {
		s := p.f.Serve()
		defer s.Close()
	}
	b.run()
	a.addPending("x.test", 20)
	a.run()
	eventually(t, "all URLs are delivered", func() bool { return a.idle() && b.idle() })
	if got := c.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

// The URLs of a host without a home record, which each peer finds at an address of the next,
// are not forwarded in a circle: one of the peers becomes its owner.
func TestCircle(t *testing.T) {
	t.Parallel()
	var ring []*testPeer
	for range 3 {
		p := newPeer(t, listen(t), open(t, ""))
		for _, q := range ring {
			introduce(p.host, q.host)
		}
		ring = append(ring, p)
	}
	var settled atomic.Int64 // 1 + the index of the owner
	for i, p := range ring {
		next := (i + 1) % len(ring)
		p.resolve = func(_ string, hint netip.Addr) (Resolution, error) {
			if hint == addr(i) {
				settled.CompareAndSwap(0, int64(i+1))
			}
			at := next
			if s := settled.Load(); s != 0 {
				at = int(s - 1)
			}
			if at == i {
				p.own["x.test"] = true
				return Resolution{Kind: Own}, nil
			}
			return Resolution{Kind: Foreign, Owner: ring[at].host.ID(), Subnet: subnet(at),
				Addr: addr(at)}, nil
		}
		s := p.f.Serve()
		defer s.Close()
	}
	for _, p := range ring {
		p.addPending("x.test", 3)
		p.run()
	}
	eventually(t, "all URLs are delivered", func() bool {
		return ring[0].idle() && ring[1].idle() && ring[2].idle()
	})
	if s := settled.Load(); s == 0 || ring[s-1].queued("x.test") != 3 {
		t.Errorf("owner is %d, want one with 3 URLs", s)
	}
}

// The failure of an owner of many subnets does not cause a burst: it gets one batch at a time,
// and owners are read at the configured rate.
func TestRefreshRate(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.cfg.RefreshRate = 10
	now := start
	const subnets = 500
	for i := range subnets {
		h := url("h", i).String()
		tab.add(h, 1, now, now)
	}
	n := 0
	resolveAll(tab, now, func(string) Resolution {
		n++
		return Resolution{Kind: Foreign, Subnet: subnet(n), Owner: "down"}
	})
	reads, tries := 0, 0
	seen := map[netip.Prefix]bool{}
	end := start.Add(2 * time.Minute)
	for ; now.Before(end); now = now.Add(10 * time.Millisecond) {
		for _, line := range []*timeline[*hostQueue]{&tab.batches, &tab.retries} {
			for p, ok := tab.nextBatch(line, now); ok; p, ok = tab.nextBatch(line, now) {
				tries++
				tab.batchDone(p, failed, now)
			}
		}
		for {
			d, ok := tab.reads.next(tab.outboxes, now)
			if !ok {
				break
			}
			reads++
			seen[d.subnet] = true
		}
	}
	if tries > 12 {
		t.Errorf("%d batches in two minutes, want at most 12", tries)
	}
	if most := 10*int(end.Sub(start).Seconds()) + 1; reads > most || len(seen) != subnets {
		t.Errorf("%d reads, want at most %d; of %d subnets, want %d",
			reads, most, len(seen), subnets)
	}
	tab.reads.clear("down")
	_, ok := tab.reads.next(tab.outboxes, now.Add(time.Hour))
	if ok || len(tab.reads.suspects) != 0 {
		t.Error("the owner is still suspect")
	}
}

// A failed owner does not delay reading the owners of another's subnets.
func TestSuspectsTakeTurns(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.cfg.RefreshRate = 1000
	for i := range 50 {
		tab.add(url("a", i).String(), 1, start, start)
	}
	tab.add("b", 1, start, start)
	n := 0
	resolveAll(tab, start, func(h string) Resolution {
		if n++; h == "b" {
			return Resolution{Kind: Foreign, Subnet: subnet(1000), Owner: "two"}
		}
		return Resolution{Kind: Foreign, Subnet: subnet(n), Owner: "one"}
	})
	for _, o := range []peer.ID{"one", "two"} {
		tab.reads.suspect(o, start)
	}
	now := start
	for i := range 3 {
		d, ok := tab.reads.next(tab.outboxes, now)
		if !ok {
			t.Fatal("next returned nothing")
		}
		if d.owner == "two" {
			return
		}
		now = now.Add(time.Duration(i+1) * time.Millisecond)
	}
	t.Error("nextOwnerRead does not return the second owner's subnet")
}

// If another peer says that it owns a subnet of an owner that does not answer, the owner is read
// again at once. What is said of owners that answer changes nothing.
func TestAnnouncedOwnerIsReadAtOnce(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.add("x.test", 1, start, start)
	resolveAll(tab, start, owned("old"))
	now, p := start, subnet('o')
	tab.announced(p, "new")
	if _, ok := tab.reads.next(tab.outboxes, now); ok {
		t.Fatal("an owner that answers is read again")
	}
	tab.reads.suspect("old", now)
	for range 6 { // 1, 2, 4, 8 and 16 s apart
		if _, ok := tab.reads.next(tab.outboxes, now); !ok {
			t.Fatalf("the owner is not read again after %v", now.Sub(start))
		}
		now = now.Add(tab.reads.until(now, time.Minute))
	}
	now = now.Add(-time.Second)
	tab.announced(p, "old")
	tab.announced(subnet(1), "new")
	if _, ok := tab.reads.next(tab.outboxes, now); ok {
		t.Error("the owner is read again, although it says itself that it is")
	}
	tab.announced(p, "new")
	if d := tab.reads.until(now, time.Minute); d != 0 {
		t.Errorf("the owner is read again after %v, want at once", d)
	}
	d, ok := tab.reads.next(tab.outboxes, now)
	if !ok || d.owner != "old" || d.subnet != p {
		t.Errorf("next() = %v, %v, want that owner and subnet", d, ok)
	}
}

// Above the limit, all unowned subnets are claimed, those with the oldest URLs first, until
// enough URLs have left.
func TestOverLimit(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.cfg.MaxPending = 100
	tab.cfg.UnclaimedURLs, tab.cfg.UnclaimedAge = 1000, time.Hour
	now := start
	for i := range 10 {
		h := string(rune('a' + i))
		tab.add(h, 10, start.Add(time.Duration(-i)*time.Second), now)
	}
	resolveAll(tab, now, func(h string) Resolution {
		return Resolution{Kind: Unowned, Subnet: subnet(int(h[0]))}
	})
	if _, ok := tab.nextClaim(now); ok || tab.overLimit {
		t.Fatal("nextClaim returned a subnet below the limit")
	}
	tab.add("a", 1, now, now)
	if !tab.overLimit {
		t.Fatal("overLimit = false above the limit")
	}
	if p, ok := tab.nextClaim(now); !ok || p != subnet('j') {
		t.Errorf("nextClaim = %v, want that of the oldest URL", p)
	}
	if p, ok := tab.nextClaim(now); !ok || p != subnet('i') {
		t.Errorf("nextClaim = %v, want that of the second oldest URL", p)
	}
	tab.removed("a", 10, now)
	if !tab.overLimit {
		t.Error("overLimit = false just below the limit, want true")
	}
	tab.removed("b", 10, now)
	if tab.overLimit {
		t.Error("overLimit = true below nine tenths of the limit")
	}
	if p, ok := tab.nextClaim(now); ok {
		t.Errorf("nextClaim = %v below the limit, want none", p)
	}
}

// While the network of this peer is down, nothing is resolved and nothing is dropped, and a lookup
// that was in progress does not count. When it is back, all hosts are resolved at once.
func TestOffline(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"temporary":    &NameError{Err: errors.New("SERVFAIL")},
		"no such host": &NameError{NotFound: true, Err: errors.New("NXDOMAIN")},
		"refused":      ErrGone,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, listen(t), open(t, ""))
			p.resolve = func(string, netip.Addr) (Resolution, error) {
				p.online = false // during the first lookup
				return Resolution{}, failure
			}
			p.addPending("x.test", 3)
			p.run()
			asked := func() (n int) { p.set(func() { n = p.asked["x.test"] }); return n }
			eventually(t, "the host is resolved", func() bool { return asked() == 1 })
			p.f.wakeup.Signal()
			p.addPending("y.test", 2)
			p.f.PendingAdded(map[string]int{"y.test": 2})
			eventually(t, "the lookup has ended", func() bool {
				p.f.mu.Lock()
				defer p.f.mu.Unlock()
				return p.f.running[names] == 0
			})
			if p.pendingURLs() != 5 || asked() != 1 || p.asked["y.test"] != 0 {
				t.Fatalf("%d URLs pending, want 5; lookups %v", p.pendingURLs(), p.asked)
			}
			p.set(func() {
				p.online = true
				p.own["x.test"], p.own["y.test"] = true, true
				p.resolve = func(string, netip.Addr) (Resolution, error) {
					return Resolution{Kind: Own}, nil
				}
			})
			p.f.RetryNow()
			eventually(t, "all URLs are queued", p.idle)
			if got := p.queued("x.test") + p.queued("y.test"); got != 5 {
				t.Errorf("%d queued, want 5", got)
			}
		})
	}
}

// What waits after failures is due at once when the network is back.
func TestRetryNow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tab := newHostTable(Config{MaxURLs: 1, UnclaimedURLs: 1, Retry: time.Hour, MaxRetry: time.Hour})
	for _, h := range []string{"lookup", "foreign", "unclaimed"} {
		tab.add(h, 1, now, now)
	}
	tab.resolveAfter(tab.hosts["lookup"], time.Hour, now)
	tab.hosts["lookup"].lookups.fails = 4
	tab.resolved(tab.hosts["foreign"],
		Resolution{Kind: Foreign, Owner: "q", Subnet: netip.MustParsePrefix("192.0.2.0/24")}, now)
	tab.backoffs.Add("q", retry{until: now.Add(time.Hour), fails: 3})
	tab.schedule(tab.outboxes["q"], now)
	claimed := netip.MustParsePrefix("198.51.100.0/24")
	tab.resolved(tab.hosts["unclaimed"], Resolution{Kind: Unowned, Subnet: claimed}, now)
	if p, ok := tab.nextClaim(now); !ok || p != claimed {
		t.Fatalf("nextClaim = %v, %v", p, ok)
	}
	tab.claimDone(claimed, false, now)
	if wait := tab.untilDue(now, true, true, true, true); wait < time.Minute {
		t.Fatalf("something is due in %v, want all after an hour", wait)
	}

	tab.retryNow(now)
	if e := tab.nextLookup(now); e == nil || e.name != "lookup" || e.lookups.fails != 0 {
		t.Errorf("nextLookup = %+v, want the host of the failed lookup", e)
	}
	if q, ok := tab.batches.pop(now); !ok || q.owner != "q" {
		t.Errorf("batch to %+v, want the owner that failed", q)
	}
	if p, ok := tab.nextClaim(now); !ok || p != claimed {
		t.Errorf("nextClaim = %v, %v, want %v", p, ok, claimed)
	}
}

// Batches are compressed: URLs of one site take a fraction of their size.
func TestBatchIsCompressed(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test")
	sizes := make(chan uint64, 1)
	b.host.SetStreamHandler(proto, func(s network.Stream) {
		defer s.Reset()
		n, err := binary.ReadUvarint(bufio.NewReader(s)) // the length of the frame
		if err != nil {
			t.Error(err)
		}
		select {
		case sizes <- n:
		default:
		}
	})
	defer b.host.RemoveStreamHandler(proto)
	size := 0
	g := group{Host: "x.test", Subnet: subnet(1)}
	for i := range 1000 {
		u := store.URL(fmt.Sprintf(
			"http://x.test/articles/2031/category-of-things/page.html?number=%d", i))
		size += len(u)
		g.URLs = append(g.URLs, item{URL: u})
	}
	if _, err := a.f.deliver(t.Context(), b.host.ID(), batch{Groups: []group{g}}); err == nil {
		t.Error("deliver without a receipt = nil, want an error")
	}
	if got := <-sizes; got > uint64(size)/4 {
		t.Errorf("%d bytes sent for URLs of %d bytes, want at most a quarter", got, size)
	}
}
