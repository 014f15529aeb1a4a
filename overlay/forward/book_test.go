package forward

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"
)

func testBook() *book {
	return newBook(Config{
		MaxURLs: 100, MaxAge: 5 * time.Second, NurseryURLs: 16, NurseryAge: 5 * time.Second,
		Retry: time.Second, MaxRetry: 30 * time.Second,
	})
}

var start = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// tend resolves everything that is due as fn says.
func tend(b *book, now time.Time, fn func(host string) Resolution) {
	for e := b.lookup(now); e != nil; e = b.lookup(now) {
		b.resolved(e, fn(e.name), now)
	}
}

func owned(owner peer.ID) func(string) Resolution {
	return func(string) Resolution {
		return Resolution{Kind: Foreign, Subnet: subnet(int(owner[0])), Owner: owner}
	}
}

func TestBatchIsDue(t *testing.T) {
	b := testBook()
	b.add("x.test", 99, start, start)
	tend(b, start, owned("a"))
	if _, ok := b.parcel(&b.batches, start.Add(4*time.Second)); ok {
		t.Error("a batch that is neither full nor old")
	}
	if d := b.until(start, true, true, true, true); d != 5*time.Second {
		t.Errorf("due in %v", d)
	}
	b.add("x.test", 1, start, start.Add(time.Second))
	p, ok := b.parcel(&b.batches, start.Add(time.Second))
	if !ok || len(p.parts) != 1 || p.parts[0].most != 100 || !p.whole {
		t.Fatalf("full: %+v, %v", p, ok)
	}
	if _, ok := b.parcel(&b.batches, start.Add(time.Hour)); ok {
		t.Error("two batches at once to one owner")
	}
	b.left("x.test", 100, start)
	b.sent(p, delivered, start)
	if b.total != 0 || len(b.outboxes) != 0 || b.idle.Len() != 1 {
		t.Errorf("after: %d URLs, %d outboxes, %d idle", b.total, len(b.outboxes), b.idle.Len())
	}
	b.add("x.test", 1, start, start)
	if b.hosts["x.test"].state != foreign {
		t.Error("the owner is forgotten")
	}
	b.left("x.test", 1, start)
	b.tidy(start.Add(keepIdle + time.Second))
	if len(b.hosts) != 0 || len(b.subnets) != 0 {
		t.Error("an idle host is kept for ever")
	}
}

// What came while a batch was under way waits for its own time; what did not
// fit does not.
func TestNextBatch(t *testing.T) {
	for _, test := range []struct {
		n    int
		wait time.Duration
	}{{100, 5 * time.Second}, {150, 0}} {
		b := testBook()
		b.add("x.test", test.n, start, start)
		tend(b, start, owned("a"))
		p, ok := b.parcel(&b.batches, start.Add(time.Second))
		if !ok {
			t.Fatal("no batch")
		}
		b.add("x.test", 1, start.Add(time.Second), start.Add(time.Second))
		b.left("x.test", 100, start.Add(time.Second))
		b.sent(p, delivered, start.Add(6*time.Second))
		if d := b.until(start.Add(time.Second), true, true, true, true); d != test.wait && (test.wait > 0 || d > 4*time.Second) {
			t.Errorf("of %d: the next in %v, want %v", test.n, d, test.wait)
		}
	}
}

func TestHostsShareABatch(t *testing.T) {
	b := testBook()
	b.add("big.test", 1_000_000, start, start)
	for i := range 60 {
		b.add(fmt.Sprintf("h%d.test", i), 1, start, start)
	}
	tend(b, start, owned("a"))
	p, ok := b.parcel(&b.batches, start)
	if !ok {
		t.Fatal("no batch")
	}
	sum := 0
	for _, x := range p.parts {
		sum += x.most
	}
	if len(p.parts) != 61 || sum != 100 || p.parts[60].name != "big.test" || p.parts[60].most != 40 {
		t.Errorf("%d hosts, %d URLs: %+v", len(p.parts), sum, p.parts)
	}
}

// Of more hosts than a batch has room for, all get their turn.
func TestHostsTakeTurns(t *testing.T) {
	b := testBook()
	for i := range 1000 {
		b.add(fmt.Sprintf("h%d.test", i), 1000, start, start)
	}
	tend(b, start, owned("a"))
	seen := map[string]bool{}
	for range 10 {
		p, ok := b.parcel(&b.batches, start)
		if !ok {
			t.Fatal("no batch")
		}
		for _, x := range p.parts {
			seen[x.name] = true
			b.left(x.name, x.most, start)
		}
		b.sent(p, delivered, start)
	}
	if len(seen) != 1000 {
		t.Errorf("%d hosts of 1000 had a turn", len(seen))
	}
}

// An owner with endless URLs, and one that fails, hold up no other.
func TestOwnersTakeTurns(t *testing.T) {
	b := testBook()
	b.add("busy.test", 1_000_000, start, start)
	b.add("dead.test", 1_000_000, start, start)
	b.add("late.test", 1, start, start)
	tend(b, start, func(h string) Resolution { return owned(peer.ID(h[:1]))(h) })
	served := map[peer.ID]int{}
	for i := range 100 {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		for _, line := range []*timeline[*lot]{&b.batches, &b.retries} {
			p, ok := b.parcel(line, now)
			if !ok {
				continue
			}
			served[p.owner]++
			if p.owner == "d" {
				b.sent(p, failed, now)
				continue
			}
			for _, x := range p.parts {
				b.left(x.name, x.most, now)
			}
			b.sent(p, delivered, now)
		}
	}
	if served["l"] != 1 || served["b"] < 90 || served["d"] < 3 || served["d"] > 6 {
		t.Errorf("served %v", served)
	}
}

func TestClaimBacksOff(t *testing.T) {
	b := testBook()
	b.add("x.test", 16, start, start)
	tend(b, start, func(string) Resolution { return Resolution{Kind: Unowned, Subnet: subnet(1)} })
	now := start
	var waits []time.Duration
	for range 4 {
		p, ok := b.claim(now)
		if !ok || p != subnet(1) {
			t.Fatalf("claim: %v, %v", p, ok)
		}
		b.add("x.test", 1, now, now)
		if _, ok := b.claim(now); ok {
			t.Fatal("two claims at once")
		}
		b.claimed(p, false, now)
		d := b.until(now, true, true, true, true)
		waits = append(waits, d)
		now = now.Add(d)
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	p, _ := b.claim(now)
	b.claimed(p, true, now)
	if e := b.lookup(now); e == nil || len(b.claiming) != 0 || b.nursed != 0 {
		t.Error("a claimed subnet's host is not resolved")
	}
}

// A new owner seen at one host is looked up for the others of its subnet too.
func TestSubnetChangesAtOnce(t *testing.T) {
	b := testBook()
	for i := range 10 {
		b.add(fmt.Sprintf("h%d.test", i), 1, start, start)
	}
	tend(b, start, owned("a"))
	b.add("new.test", 1, start, start)
	e := b.lookup(start)
	b.resolved(e, Resolution{Kind: Foreign, Subnet: subnet('a'), Owner: "b"}, start)
	if n := len(b.names.items); n != 10 {
		t.Errorf("%d hosts are looked up again, want 10", n)
	}
	e = b.lookup(start)
	b.reconsider(subnet('a'), start)
	b.resolved(e, Resolution{Kind: Foreign, Subnet: subnet('a'), Owner: "a"}, start)
	if e.state != unresolved {
		t.Error("what was found before the change counts after it")
	}
}

// check holds the book against a plain count of what it should be.
func (b *book) check(t *rapid.T) {
	var total, nursed int64
	for name, e := range b.hosts {
		total += int64(e.count)
		if e.name != name || e.count < 0 {
			t.Fatalf("entry %s: %+v", name, e)
		}
		_, in := b.subnets[e.res.Subnet][e]
		_, work := b.working[e]
		inNames := e.index > 0
		switch e.state {
		case working:
			if !work || in || inNames || e.lot != nil {
				t.Fatalf("working %s is elsewhere", name)
			}
			continue
		case unresolved:
			if work || in || !inNames || e.lot != nil || e.count == 0 {
				t.Fatalf("unresolved %s is elsewhere", name)
			}
			continue
		case nursery:
			nursed += int64(e.count)
		}
		if work || !in || inNames || (e.lot == nil) != (e.count == 0) || e.elem == nil {
			t.Fatalf("%s is elsewhere: %+v", name, e)
		}
	}
	if total != b.total || nursed != b.nursed {
		t.Fatalf("sums %d, %d, want %d, %d", b.total, b.nursed, total, nursed)
	}
	lots := 0
	for _, l := range b.outboxes {
		b.checkLot(t, l, b.sending[l.owner])
		lots++
	}
	for _, l := range b.nurseries {
		r, in := b.claiming[l.subnet]
		b.checkLot(t, l, in && r.until.IsZero())
	}
	for _, line := range []*timeline[*lot]{&b.batches, &b.retries, &b.claims} {
		for i, l := range line.items {
			if l.index != i+1 || l.line != line {
				t.Fatalf("a lot is lost in its line")
			}
		}
	}
}

func (b *book) checkLot(t *rapid.T, l *lot, busy bool) {
	n := 0
	for x := l.hosts.Front(); x != nil; x = x.Next() {
		n += x.Value.(*entry).count
	}
	if n != l.count || n == 0 || (l.line == nil) != busy {
		t.Fatalf("lot %+v holds %d, busy %v", l, n, busy)
	}
}

func TestBookModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := testBook()
		now := start
		store := map[string]int{}
		var work []*entry
		var under []parcel
		host := rapid.SampledFrom([]string{"a1", "a2", "b1", "b2", "c1"})
		wait := func() { now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "s")) * time.Second) }
		finish := func(e *entry, kind Kind) {
			if kind == Own {
				b.resolved(e, Resolution{Kind: Own, Subnet: subnet(int(e.name[0]))}, now)
				news := e.news
				n := store[e.name]
				delete(store, e.name)
				b.left(e.name, n, now)
				b.counted(e.name, news, 0, now)
				b.again(e, 0, now)
				return
			}
			b.resolved(e, Resolution{Kind: kind, Subnet: subnet(int(e.name[0])), Owner: peer.ID(rapid.SampledFrom([]string{"p", "q"}).Draw(t, "owner"))}, now)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { b.check(t) },
			"add": func(t *rapid.T) {
				h, n := host.Draw(t, "host"), rapid.IntRange(1, 150).Draw(t, "n")
				store[h] += n
				b.add(h, n, now, now)
			},
			"lookup": func(*rapid.T) {
				wait()
				if e := b.lookup(now); e != nil {
					work = append(work, e)
				}
			},
			"resolved": func(t *rapid.T) {
				if len(work) == 0 {
					t.Skip()
				}
				e := work[0]
				work = work[1:]
				switch k := rapid.IntRange(0, 3).Draw(t, "kind"); k {
				case 0:
					b.again(e, time.Second, now)
				default:
					finish(e, Kind(k))
				}
			},
			"parcel": func(*rapid.T) {
				wait()
				for _, line := range []*timeline[*lot]{&b.batches, &b.retries} {
					if p, ok := b.parcel(line, now); ok {
						under = append(under, p)
					}
				}
			},
			"sent": func(t *rapid.T) {
				if len(under) == 0 {
					t.Skip()
				}
				p := under[0]
				under = under[1:]
				how := fate(rapid.IntRange(0, 2).Draw(t, "fate"))
				for _, x := range p.parts {
					if how == delivered {
						n := min(x.most, store[x.name])
						store[x.name] -= n
						b.left(x.name, n, now)
					}
				}
				b.sent(p, how, now)
			},
			"claim": func(t *rapid.T) {
				wait()
				if p, ok := b.claim(now); ok {
					b.claimed(p, rapid.Bool().Draw(t, "ok"), now)
				}
			},
			"moved": func(t *rapid.T) { b.reconsider(subnet(int(host.Draw(t, "host")[0])), now) },
			"tidy":  func(*rapid.T) { b.tidy(now) },
		})
		// Whatever happened, everything gets out in the end.
		for _, p := range under {
			b.sent(p, failed, now)
		}
		for _, e := range work {
			b.again(e, 0, now)
		}
		for round := 0; b.total > 0; round++ {
			if round > 1000 {
				t.Fatalf("%d URLs are stuck", b.total)
			}
			for e := b.lookup(now); e != nil; e = b.lookup(now) {
				finish(e, Foreign)
			}
			if p, ok := b.claim(now); ok {
				b.claimed(p, true, now)
			}
			for _, line := range []*timeline[*lot]{&b.batches, &b.retries} {
				for p, ok := b.parcel(line, now); ok; p, ok = b.parcel(line, now) {
					for _, x := range p.parts {
						n := min(x.most, store[x.name])
						store[x.name] -= n
						b.left(x.name, n, now)
					}
					b.sent(p, delivered, now)
				}
			}
			now = now.Add(b.until(now, true, true, true, true))
			b.check(t)
		}
		for h, n := range store {
			if n > 0 {
				t.Fatalf("%d URLs of %s are forgotten", n, h)
			}
		}
	})
}
