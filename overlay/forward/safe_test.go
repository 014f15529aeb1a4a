package forward

import (
	"bufio"
	"context"
	"encoding/binary"
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

// What only this peer has is not acknowledged.
func TestReceiveUnsafe(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	p.own["x.test"] = true
	var asked []netip.Prefix
	unsafe := []netip.Prefix{subnet(2)}
	c := p.config()
	c.Safe = func(_ context.Context, ps []netip.Prefix) []netip.Prefix {
		if got := p.queued("x.test"); got != 1 {
			t.Errorf("asked with %d URLs in the store", got)
		}
		asked = ps
		return unsafe
	}
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p.f = f
	b := batch{Groups: []group{
		{Host: "x.test", Subnet: subnet(1), URLs: []item{{URL: "http://x.test/a"}}},
		{Host: "x.test", Subnet: subnet(2), URLs: []item{{URL: "http://x.test/a"}}},
		{Host: "new.test", Subnet: subnet(1), URLs: []item{{URL: "http://new.test/a"}}},
		{Host: "away.test", Subnet: subnet(1), URLs: []item{{URL: "http://away.test/a"}}},
	}}
	p.away = func(h string, _ netip.Prefix) bool { return h == "away.test" }
	see := func(want ...verdict) {
		t.Helper()
		r, err := f.receive(t.Context(), b)
		if err != nil || !slices.Equal(r.Verdicts, want) {
			t.Errorf("verdicts %v, %v, want %v", r.Verdicts, err, want)
		}
	}
	see(accepted, later, later, astray)
	if !slices.Equal(asked, []netip.Prefix{subnet(1), subnet(2)}) {
		t.Errorf("asked for %v", asked)
	}
	if p.waiting() != 1 {
		t.Errorf("%d URLs wait", p.waiting())
	}
	unsafe = nil
	p.own["new.test"] = true
	if _, _, err := p.Enqueue("new.test"); err != nil {
		t.Fatal(err)
	}
	see(accepted, accepted, accepted, astray)
	if got := p.queued("new.test"); got != 1 {
		t.Errorf("%d queued", got)
	}
}

// A URL that the receiver drops is acknowledged in the end.
func TestGoneAtAGuardedOwner(t *testing.T) {
	a, b := two(t)
	c := b.config()
	c.Safe = func(context.Context, []netip.Prefix) []netip.Prefix { return nil }
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	b.f = f
	b.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{}, ErrGone }
	s := b.f.Serve()
	defer s.Close()
	a.resolve = foreignTo(b.host.ID(), 1)
	a.give("x.test", 5)
	a.run()
	b.run()
	eventually(t, "all delivered", func() bool { return a.idle() && b.idle() })
	if n := b.db.Counters().Failed; n != 5 {
		t.Errorf("%d failed", n)
	}
}

// A host that has moved is looked for where it is now.
func TestAstray(t *testing.T) {
	a, b := two(t)
	c := newPeer(t, listen(t), open(t, ""))
	know(a.host, c.host)
	c.own["x.test"] = true
	b.away = func(string, netip.Prefix) bool { return true }
	a.resolve = foreignTo(b.host.ID(), 1)
	a.astray = func(string) error { a.resolve = foreignTo(c.host.ID(), 2); return nil }
	for _, p := range []*testPeer{b, c} {
		s := p.f.Serve()
		defer s.Close()
	}
	a.give("x.test", 20)
	a.run()
	eventually(t, "all delivered", a.idle)
	if got := c.queued("x.test"); got != 20 || b.waiting() != 0 {
		t.Errorf("%d queued, want 20; %d went astray", got, b.waiting())
	}
}

// Who passes a host's URLs on to another has the finder look there itself, or it would
// bring them for ever: they are acknowledged only where they are queued.
func TestPassedOn(t *testing.T) {
	a, b := two(t)
	c := newPeer(t, listen(t), open(t, ""))
	know(a.host, c.host)
	know(b.host, c.host)
	c.own["x.test"] = true
	cfg := b.config()
	cfg.Safe = func(context.Context, []netip.Prefix) []netip.Prefix { return nil }
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.f = f
	a.resolve = foreignTo(b.host.ID(), 1)
	b.resolve = foreignTo(c.host.ID(), 2)
	a.astray = func(string) error { a.resolve = foreignTo(c.host.ID(), 2); return nil }
	for _, p := range []*testPeer{b, c} {
		s := p.f.Serve()
		defer s.Close()
	}
	b.run()
	a.give("x.test", 20)
	a.run()
	eventually(t, "all delivered", func() bool { return a.idle() && b.idle() })
	if got := c.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

// A host that is nobody's yet, and that each peer finds at the next one's address, is not
// sent round in a circle: one of them makes it its own.
func TestCircle(t *testing.T) {
	var ring []*testPeer
	for range 3 {
		p := newPeer(t, listen(t), open(t, ""))
		for _, q := range ring {
			know(p.host, q.host)
		}
		ring = append(ring, p)
	}
	var settled atomic.Int64 // 1 + the index of who has made it its own
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
			return Resolution{Kind: Foreign, Owner: ring[at].host.ID(), Subnet: subnet(at), Addr: addr(at)}, nil
		}
		c := p.config()
		c.Safe = func(context.Context, []netip.Prefix) []netip.Prefix { return nil }
		f, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		p.f = f
		s := f.Serve()
		defer s.Close()
	}
	for _, p := range ring {
		p.give("x.test", 3)
		p.run()
	}
	eventually(t, "all delivered", func() bool { return ring[0].idle() && ring[1].idle() && ring[2].idle() })
	if s := settled.Load(); s == 0 || ring[s-1].queued("x.test") != 3 {
		t.Errorf("settled at %d", s)
	}
}

// A dead owner of many subnets makes no storm: one batch at a time, and the reads
// keep to their pace.
func TestDoubtsArePaced(t *testing.T) {
	b := testBook()
	b.cfg.RefreshRate = 10
	now := start
	const subnets = 500
	for i := range subnets {
		h := url("h", i).String()
		b.add(h, 1, now, now)
	}
	n := 0
	tend(b, now, func(string) Resolution {
		n++
		return Resolution{Kind: Foreign, Subnet: subnet(n), Owner: "dead"}
	})
	reads, tries := 0, 0
	seen := map[netip.Prefix]bool{}
	end := start.Add(2 * time.Minute)
	for ; now.Before(end); now = now.Add(10 * time.Millisecond) {
		for _, line := range []*timeline[*lot]{&b.batches, &b.retries} {
			for p, ok := b.parcel(line, now); ok; p, ok = b.parcel(line, now) {
				tries++
				b.sent(p, failed, now)
			}
		}
		for _, p, ok := b.doubted(now); ok; _, p, ok = b.doubted(now) {
			reads++
			seen[p] = true
		}
	}
	if tries > 12 {
		t.Errorf("%d batches in two minutes", tries)
	}
	if most := 10*int(end.Sub(start).Seconds()) + 1; reads > most || len(seen) != subnets {
		t.Errorf("%d reads, at most %d; of %d subnets, want %d", reads, most, len(seen), subnets)
	}
	b.trust("dead")
	if _, _, ok := b.doubted(now.Add(time.Hour)); ok || len(b.suspects) != 0 {
		t.Error("still in doubt")
	}
}

// One dead owner must not keep another's subnets from being read anew.
func TestSuspectsTakeTurns(t *testing.T) {
	b := testBook()
	b.cfg.RefreshRate = 1000
	for i := range 50 {
		b.add(url("a", i).String(), 1, start, start)
	}
	b.add("b", 1, start, start)
	n := 0
	tend(b, start, func(h string) Resolution {
		if n++; h == "b" {
			return Resolution{Kind: Foreign, Subnet: subnet(1000), Owner: "two"}
		}
		return Resolution{Kind: Foreign, Subnet: subnet(n), Owner: "one"}
	})
	for _, o := range []peer.ID{"one", "two"} {
		b.doubt(o, start)
	}
	now := start
	for i := range 3 {
		owner, _, ok := b.doubted(now)
		if !ok {
			t.Fatal("nothing to read")
		}
		if owner == "two" {
			return
		}
		now = now.Add(time.Duration(i+1) * time.Millisecond)
	}
	t.Error("the second owner waits for the first")
}

// Too many URLs: every nursery is claimed, the oldest first, until there is room.
func TestCrowded(t *testing.T) {
	b := testBook()
	b.cfg.MaxWaiting = 100
	b.cfg.NurseryURLs, b.cfg.NurseryAge = 1000, time.Hour
	now := start
	for i := range 10 {
		h := string(rune('a' + i))
		b.add(h, 10, start.Add(time.Duration(-i)*time.Second), now)
	}
	tend(b, now, func(h string) Resolution { return Resolution{Kind: Unowned, Subnet: subnet(int(h[0]))} })
	if _, ok := b.claim(now); ok || b.crowded {
		t.Fatal("claimed, though there is room")
	}
	b.add("a", 1, now, now)
	if !b.crowded {
		t.Fatal("not crowded")
	}
	if p, ok := b.claim(now); !ok || p != subnet('j') {
		t.Errorf("claims %v first", p)
	}
	if p, ok := b.claim(now); !ok || p != subnet('i') {
		t.Errorf("then %v", p)
	}
	b.left("a", 10, now)
	if !b.crowded {
		t.Error("no longer crowded at once")
	}
	b.left("b", 10, now)
	if b.crowded {
		t.Error("still crowded")
	}
	if p, ok := b.claim(now); ok {
		t.Errorf("claims %v, though there is room", p)
	}
}

// When no name can be looked up at all nothing is dropped, whatever is said of
// each.
func TestOwnResolverFails(t *testing.T) {
	for name, failure := range map[string]error{"temporary": ErrUnresolved, "no such host": ErrGone} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, listen(t), open(t, ""))
			p.alive = false
			p.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{}, failure }
			p.f.cfg.NameTries = 2
			p.give("x.test", 3)
			p.run()
			asked := func() (n int) { p.set(func() { n = p.asked["x.test"] }); return n }
			eventually(t, "many tries", func() bool { return asked() > 8 })
			if p.waiting() != 3 {
				t.Fatalf("%d URLs wait, want 3", p.waiting())
			}
			p.set(func() { // it works again, and the host is there
				p.alive = true
				p.own["x.test"] = true
				p.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{Kind: Own}, nil }
			})
			eventually(t, "queued", p.idle)
			if got := p.queued("x.test"); got != 3 {
				t.Errorf("%d queued", got)
			}
		})
	}
}

// A batch is compressed: page after page of one site takes a fraction.
func TestBatchIsCompressed(t *testing.T) {
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
		u := store.URL(fmt.Sprintf("http://x.test/articles/2031/category-of-things/page.html?number=%d", i))
		size += len(u)
		g.URLs = append(g.URLs, item{URL: u})
	}
	if _, err := a.f.deliver(t.Context(), b.host.ID(), batch{Groups: []group{g}}); err == nil {
		t.Error("acknowledged by nobody")
	}
	if got := <-sizes; got > uint64(size)/4 {
		t.Errorf("%d bytes sent for URLs of %d", got, size)
	}
}
