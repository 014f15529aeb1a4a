package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

func newTestTable() *hostTable {
	return newHostTable(Config{
		MaxURLs: 100, MaxAge: 5 * time.Second, UnclaimedURLs: 16, UnclaimedAge: 5 * time.Second,
		Retry: time.Second, MaxRetry: 30 * time.Second,
	})
}

var start = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// resolveAll resolves all hosts that are due with fn.
func resolveAll(tab *hostTable, now time.Time, fn func(host string) Resolution) {
	for e := tab.nextLookup(now); e != nil; e = tab.nextLookup(now) {
		tab.resolved(e, fn(e.name), now)
	}
}

func owned(owner peer.ID) func(string) Resolution {
	return func(string) Resolution {
		return Resolution{Kind: Foreign, Subnet: subnet(int(owner[0])), Owner: owner}
	}
}

func TestBatchIsDue(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.add("x.test", 99, start, start)
	resolveAll(tab, start, owned("a"))
	if _, ok := tab.nextBatch(&tab.batches, start.Add(4*time.Second)); ok {
		t.Error("nextBatch returned a batch that is neither full nor old")
	}
	if d := tab.untilDue(start, true, true, true, true); d != 5*time.Second {
		t.Errorf("untilDue = %v, want 5s", d)
	}
	tab.add("x.test", 1, start, start.Add(time.Second))
	p, ok := tab.nextBatch(&tab.batches, start.Add(time.Second))
	if !ok || len(p.shares) != 1 || p.shares[0].limit != 100 || !p.takesAll {
		t.Fatalf("nextBatch of a full batch = %+v, %v", p, ok)
	}
	if _, ok := tab.nextBatch(&tab.batches, start.Add(time.Hour)); ok {
		t.Error("nextBatch returned a second batch for the owner")
	}
	tab.removed("x.test", 100, start)
	tab.batchDone(p, delivered, start)
	if tab.total != 0 || len(tab.outboxes) != 0 || tab.idle.Len() != 1 {
		t.Errorf("after delivery: %d URLs, %d outboxes, %d idle hosts, want 0, 0, 1",
			tab.total, len(tab.outboxes), tab.idle.Len())
	}
	tab.add("x.test", 1, start, start)
	if tab.hosts["x.test"].state != foreign {
		t.Error("the owner of the idle host was forgotten")
	}
	tab.removed("x.test", 1, start)
	tab.evictIdle(start.Add(keepIdle + time.Second))
	if len(tab.hosts) != 0 || len(tab.subnets) != 0 {
		t.Error("an idle host was not evicted")
	}
}

// URLs added while a batch is in progress wait for their own time. URLs that did not fit do not
// wait.
func TestNextBatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n    int
		wait time.Duration
	}{{100, 5 * time.Second}, {150, 0}} {
		tab := newTestTable()
		tab.add("x.test", test.n, start, start)
		resolveAll(tab, start, owned("a"))
		p, ok := tab.nextBatch(&tab.batches, start.Add(time.Second))
		if !ok {
			t.Fatal("nextBatch returned no batch")
		}
		tab.add("x.test", 1, start.Add(time.Second), start.Add(time.Second))
		tab.removed("x.test", 100, start.Add(time.Second))
		tab.batchDone(p, delivered, start.Add(6*time.Second))
		if d := tab.untilDue(start.Add(time.Second), true, true, true, true); d != test.wait &&
			(test.wait > 0 || d > 4*time.Second) {
			t.Errorf("with %d URLs the next batch is due in %v, want %v", test.n, d, test.wait)
		}
	}
}

func TestHostsShareABatch(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.add("big.test", 1_000_000, start, start)
	for i := range 60 {
		tab.add(fmt.Sprintf("h%d.test", i), 1, start, start)
	}
	resolveAll(tab, start, owned("a"))
	p, ok := tab.nextBatch(&tab.batches, start)
	if !ok {
		t.Fatal("nextBatch returned no batch")
	}
	sum := 0
	for _, x := range p.shares {
		sum += x.limit
	}
	if len(p.shares) != 61 || sum != 100 || p.shares[60].name != "big.test" ||
		p.shares[60].limit != 40 {
		t.Errorf("%d hosts with %d URLs in a batch, want 61 with 100: %+v",
			len(p.shares), sum, p.shares)
	}
}

// If an owner has more hosts than fit into a batch, they take turns.
func TestHostsTakeTurns(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	for i := range 1000 {
		tab.add(fmt.Sprintf("h%d.test", i), 1000, start, start)
	}
	resolveAll(tab, start, owned("a"))
	seen := map[string]bool{}
	for range 10 {
		p, ok := tab.nextBatch(&tab.batches, start)
		if !ok {
			t.Fatal("nextBatch returned no batch")
		}
		for _, x := range p.shares {
			seen[x.name] = true
			tab.removed(x.name, x.limit, start)
		}
		tab.batchDone(p, delivered, start)
	}
	if len(seen) != 1000 {
		t.Errorf("%d hosts of 1000 had a turn, want all", len(seen))
	}
}

// An owner with very many URLs and an owner that fails delay no other.
func TestOwnersTakeTurns(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.add("busy.test", 1_000_000, start, start)
	tab.add("down.test", 1_000_000, start, start)
	tab.add("late.test", 1, start, start)
	resolveAll(tab, start, func(h string) Resolution { return owned(peer.ID(h[:1]))(h) })
	served := map[peer.ID]int{}
	for i := range 100 {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		for _, line := range []*timeline[*hostQueue]{&tab.batches, &tab.retries} {
			p, ok := tab.nextBatch(line, now)
			if !ok {
				continue
			}
			served[p.owner]++
			if p.owner == "d" {
				tab.batchDone(p, failed, now)
				continue
			}
			for _, x := range p.shares {
				tab.removed(x.name, x.limit, now)
			}
			tab.batchDone(p, delivered, now)
		}
	}
	if served["l"] != 1 || served["b"] < 90 || served["d"] < 3 || served["d"] > 6 {
		t.Errorf("batches by owner = %v", served)
	}
}

func TestClaimBacksOff(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.add("x.test", 16, start, start)
	resolveAll(tab, start, func(string) Resolution {
		return Resolution{Kind: Unowned, Subnet: subnet(1)}
	})
	now := start
	var waits []time.Duration
	for range 4 {
		p, ok := tab.nextClaim(now)
		if !ok || p != subnet(1) {
			t.Fatalf("nextClaim = %v, %v, want subnet 1", p, ok)
		}
		tab.add("x.test", 1, now, now)
		if _, ok := tab.nextClaim(now); ok {
			t.Fatal("nextClaim returned a subnet that is being claimed")
		}
		tab.claimDone(p, false, now)
		d := tab.untilDue(now, true, true, true, true)
		waits = append(waits, d)
		now = now.Add(d)
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	p, _ := tab.nextClaim(now)
	tab.claimDone(p, true, now)
	if e := tab.nextLookup(now); e == nil || len(tab.claiming) != 0 || tab.unclaimedTotal != 0 {
		t.Error("the host of a claimed subnet is not due for a lookup")
	}
}

// If a host has a new owner, the other hosts of its subnet are looked up again.
func TestSubnetOwnerChanges(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	for i := range 10 {
		tab.add(fmt.Sprintf("h%d.test", i), 1, start, start)
	}
	resolveAll(tab, start, owned("a"))
	tab.add("new.test", 1, start, start)
	e := tab.nextLookup(start)
	tab.resolved(e, Resolution{Kind: Foreign, Subnet: subnet('a'), Owner: "b"}, start)
	if n := len(tab.names.items); n != 10 {
		t.Errorf("%d hosts are looked up again, want 10", n)
	}
	e = tab.nextLookup(start)
	tab.resolveAgain(subnet('a'), start)
	tab.resolved(e, Resolution{Kind: Foreign, Subnet: subnet('a'), Owner: "a"}, start)
	if e.state != unresolved {
		t.Error("a result from before the change was used")
	}
}

// check verifies the invariants of the table.
func (tab *hostTable) check(t *rapid.T) {
	var total, unclaimedTotal int64
	for name, e := range tab.hosts {
		total += int64(e.count)
		if e.name != name || e.count < 0 {
			t.Fatalf("entry %s is inconsistent: %+v", name, e)
		}
		_, in := tab.subnets[e.res.Subnet][e]
		inNames := e.index > 0
		switch e.state {
		case working:
			if in || inNames || e.queue != nil {
				t.Fatalf("working host %s is in a queue", name)
			}
			continue
		case unresolved:
			if in || !inNames || e.queue != nil || e.count == 0 {
				t.Fatalf("unresolved host %s is not in names only", name)
			}
			continue
		case unclaimed:
			unclaimedTotal += int64(e.count)
		}
		if !in || inNames || (e.queue == nil) != (e.count == 0) || e.elem == nil {
			t.Fatalf("host %s is in the wrong structure: %+v", name, e)
		}
	}
	received := int64(0)
	for name, e := range tab.hosts {
		if e.received < 0 || e.received > e.count {
			t.Fatalf("host %s has %d received URLs of %d", name, e.received, e.count)
		}
		received += int64(e.received)
	}
	if received != tab.received {
		t.Fatalf("%d received URLs, want %d", tab.received, received)
	}
	if total != tab.total || unclaimedTotal != tab.unclaimedTotal {
		t.Fatalf("totals %d, %d, want %d, %d", tab.total, tab.unclaimedTotal, total, unclaimedTotal)
	}
	lots := 0
	for _, l := range tab.outboxes {
		tab.checkQueue(t, l, tab.sending[l.owner])
		lots++
	}
	for _, l := range tab.unclaimed {
		r, in := tab.claiming[l.subnet]
		tab.checkQueue(t, l, in && r.until.IsZero())
	}
	for _, line := range []*timeline[*hostQueue]{&tab.batches, &tab.retries, &tab.claims} {
		for i, l := range line.items {
			if l.index != i+1 || l.timeline != line {
				t.Fatalf("a queue is at the wrong position of its timeline")
			}
		}
	}
}

func (tab *hostTable) checkQueue(t *rapid.T, q *hostQueue, busy bool) {
	n := 0
	for x := q.hosts.Front(); x != nil; x = x.Next() {
		n += x.Value.(*entry).count
	}
	if n != q.count || n == 0 || (q.timeline == nil) != busy {
		t.Fatalf("queue %+v has %d URLs, busy %v", q, n, busy)
	}
}

func TestTableModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tab := newTestTable()
		now := start
		store := map[string]int{}
		var work []*entry
		var under []batchPlan
		host := rapid.SampledFrom([]string{"a1", "a2", "b1", "b2", "c1"})
		wait := func() {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "s")) * time.Second)
		}
		finish := func(e *entry, kind Kind) {
			if kind == Own {
				tab.resolved(e, Resolution{Kind: Own, Subnet: subnet(int(e.name[0]))}, now)
				adds := e.adds
				n := store[e.name]
				delete(store, e.name)
				tab.removed(e.name, n, now)
				tab.setCount(e.name, adds, 0, now)
				tab.resolveAfter(e, 0, now)
				return
			}
			tab.resolved(e, Resolution{Kind: kind, Subnet: subnet(int(e.name[0])),
				Owner: peer.ID(rapid.SampledFrom([]string{"p", "q"}).Draw(t, "owner"))}, now)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { tab.check(t) },
			"add": func(t *rapid.T) {
				h, n := host.Draw(t, "host"), rapid.IntRange(1, 150).Draw(t, "n")
				store[h] += n
				tab.add(h, n, now, now)
			},
			"received": func(t *rapid.T) {
				tab.addReceived(host.Draw(t, "host"), rapid.IntRange(1, 150).Draw(t, "n"))
			},
			"lookup": func(*rapid.T) {
				wait()
				if e := tab.nextLookup(now); e != nil {
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
					tab.resolveAfter(e, time.Second, now)
				default:
					finish(e, Kind(k))
				}
			},
			"parcel": func(*rapid.T) {
				wait()
				for _, line := range []*timeline[*hostQueue]{&tab.batches, &tab.retries} {
					if p, ok := tab.nextBatch(line, now); ok {
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
				how := outcome(rapid.IntRange(0, 2).Draw(t, "fate"))
				for _, x := range p.shares {
					if how == delivered {
						n := min(x.limit, store[x.name])
						store[x.name] -= n
						tab.removed(x.name, n, now)
					}
				}
				tab.batchDone(p, how, now)
			},
			"claim": func(t *rapid.T) {
				wait()
				if p, ok := tab.nextClaim(now); ok {
					tab.claimDone(p, rapid.Bool().Draw(t, "ok"), now)
				}
			},
			"moved": func(t *rapid.T) {
				tab.resolveAgain(subnet(int(host.Draw(t, "host")[0])), now)
			},
			"tidy": func(*rapid.T) { tab.evictIdle(now) },
		})
		// In the end all URLs leave.
		for _, p := range under {
			tab.batchDone(p, failed, now)
		}
		for _, e := range work {
			tab.resolveAfter(e, 0, now)
		}
		for round := 0; tab.total > 0; round++ {
			if round > 1000 {
				t.Fatalf("%d URLs did not leave", tab.total)
			}
			for e := tab.nextLookup(now); e != nil; e = tab.nextLookup(now) {
				finish(e, Foreign)
			}
			if p, ok := tab.nextClaim(now); ok {
				tab.claimDone(p, true, now)
			}
			for _, line := range []*timeline[*hostQueue]{&tab.batches, &tab.retries} {
				for p, ok := tab.nextBatch(line, now); ok; p, ok = tab.nextBatch(line, now) {
					for _, x := range p.shares {
						n := min(x.limit, store[x.name])
						store[x.name] -= n
						tab.removed(x.name, n, now)
					}
					tab.batchDone(p, delivered, now)
				}
			}
			now = now.Add(tab.untilDue(now, true, true, true, true))
			tab.check(t)
		}
		for h, n := range store {
			if n > 0 {
				t.Fatalf("%d URLs of %s were lost", n, h)
			}
		}
	})
}
