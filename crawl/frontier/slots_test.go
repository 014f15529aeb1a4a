package frontier_test

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"peerd/crawl/frontier"
	"peerd/store"
)

// domain is host i of its own registrable domain.
func domain(i int) string { return fmt.Sprintf("www.site%d.example", i) }

// sharedWorld is a world in which an address may get most requests at a time, and one has hosts in
// so many domains, with a hundred URLs each.
func sharedWorld(t *testing.T, w world, most, hosts int) world {
	t.Helper()
	w = newWorld(t, w.db, frontier.Config{Gap: gap, AddrRequests: most})
	for i := range hosts {
		w.add(domain(i), addr(1, 1), 100)
	}
	return w
}

// atOnce returns how many jobs at one address can be taken at once. They are returned.
func (w world) atOnce() int {
	w.t.Helper()
	pass(time.Minute) // no gap is left
	var jobs []frontier.Job
	for {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Millisecond)
		j, err := w.Next(ctx)
		cancel()
		if err != nil {
			break
		}
		jobs = append(jobs, j)
	}
	for _, j := range jobs {
		w.Return(j, false)
	}
	return len(jobs)
}

// steady takes n jobs, one after the other, with steady answers.
func (w world) steady(n int) {
	w.t.Helper()
	for range n {
		j, _ := w.next()
		w.Observe(j, frontier.LoadSteady)
		w.finish(j)
	}
}

// strain has an address show a sign of strain.
func (w world) strain() {
	w.t.Helper()
	j, _ := w.next()
	w.Observe(j, frontier.LoadStrained)
	w.Release(j, false, 0, 0)
}

func (w world) wantAtOnce(n int) {
	w.t.Helper()
	if got := w.atOnce(); got != n {
		w.t.Fatalf("%d jobs at once, want %d", got, n)
	}
}

// TestSlotsGrow verifies that the requests at a time grow with the domains that the address serves,
// by addition, and fall to a half.
func TestSlotsGrow(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 8, 100)
		w.wantAtOnce(1)
		w.steady(3)
		w.wantAtOnce(1)
		w.steady(1) // the fourth domain
		w.wantAtOnce(2)
		w.steady(6)
		w.wantAtOnce(2)
		w.steady(1) // one slot more takes as many answers as there are
		w.wantAtOnce(3)
		w.steady(89)
		w.wantAtOnce(8)
		w.strain()
		w.wantAtOnce(4)
		w.steady(4)
		w.wantAtOnce(4)
		w.steady(1)
		w.wantAtOnce(5)
		w.Strained(addr(1, 1))
		w.wantAtOnce(2)
		w.strain()
		w.wantAtOnce(1)
		w.strain()
		w.wantAtOnce(1)
	})
}

// TestSignsOfOneStrain verifies that signs within a gap count once, and that nothing grows then.
func TestSignsOfOneStrain(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 4, 20)
		w.steady(40)
		w.wantAtOnce(4)
		var jobs []frontier.Job
		for range 4 {
			j, _ := w.next()
			jobs = append(jobs, j)
		}
		for i, j := range jobs {
			w.Observe(j, []frontier.Load{frontier.LoadStrained, frontier.LoadSteady}[i%2])
			w.Release(j, false, 0, 0)
		}
		w.wantAtOnce(2)
	})
}

// TestRestAfterStrain verifies that the slots that are left rest for the whole gap.
func TestRestAfterStrain(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 2, 4)
		w.steady(10)
		pass(time.Minute)
		a, _ := w.next()
		b, _ := w.next()
		w.Release(a, false, 0, 0)
		pass(gap / 2)
		w.Release(b, false, 0, 0)
		a, took := w.next()
		if took != gap/2 {
			t.Errorf("the first slot rested for %v more, want %v", took, gap/2)
		}
		b, _ = w.next()
		w.Release(a, false, 0, 0)
		pass(gap / 2)
		w.Release(b, false, 0, 0)
		w.Strained(addr(1, 1))
		if _, took := w.next(); took != gap {
			t.Errorf("next request after %v, want %v", took, gap)
		}
		w.none(time.Minute)
	})
}

// TestSlotsOfOneDomain verifies that a site with many names at an address gets one request at a
// time there.
func TestSlotsOfOneDomain(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 8, 0)
		for i := range 200 {
			w.add(fmt.Sprintf("n%d.evil.example.co.uk", i), addr(1, 1), 5)
			w.add(fmt.Sprintf("n%d.example.com", i), addr(1, 1), 5)
		}
		w.steady(600)
		w.wantAtOnce(1)
	})
}

// TestSlotsNeedAnswers verifies that domains of which an address has no pages do not count,
// although a site that it does serve answers steadily.
func TestSlotsNeedAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 8, 0)
		w.add("victim.example", addr(1, 1), 1000)
		for i := range 100 {
			w.add(domain(i), addr(1, 1), 10)
		}
		for range 400 {
			j, _ := w.next()
			if j.Host == "victim.example" {
				w.Observe(j, frontier.LoadSteady)
			} else {
				w.Observe(j, frontier.LoadUnknown) // 404 or 421
			}
			w.finish(j)
		}
		w.wantAtOnce(1)
	})
}

// TestSlotsOfHostsThatLeave verifies that hosts without URLs, and those that have left, do not
// count.
func TestSlotsOfHostsThatLeave(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 8, 0)
		for i := range 36 {
			w.add(domain(i), addr(1, 1), 3)
			if i >= 27 {
				w.push(domain(i), 3, 100)
			}
		}
		w.steady(72)
		w.wantAtOnce(6)
		for i := range 20 {
			if _, err := w.EvictHost(t.Context(), domain(i)); err != nil {
				t.Fatal(err)
			}
		}
		w.wantAtOnce(4)
		w.steady(30) // seven hosts run out of URLs
		w.wantAtOnce(3)
	})
}

// TestSlotsAndReservations verifies that a request outside the queues takes one of the slots.
func TestSlotsAndReservations(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 2, 4)
		w.steady(10)
		w.wantAtOnce(2)
		r := w.reserve("other.example", addr(1, 1), 0)
		j, _ := w.next()
		w.none(time.Minute)
		w.refuse("third.example", addr(1, 1), gap)
		r.Release(2*gap, 0)
		w.none(gap)
		w.Release(j, false, 0, 0)
		if _, took := w.next(); took != gap {
			t.Errorf("the reserved slot, and the one of the job, rested for %v, want %v", took, gap)
		}
		if _, took := w.next(); took != 0 {
			t.Errorf("the other one rested for %v more, want none", took)
		}
	})
}

// TestReservationTakesTheRestedSlot verifies that a job waits for the slot that rests while a
// request outside the queues has the other one.
func TestReservationTakesTheRestedSlot(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = sharedWorld(t, w, 2, 4)
		w.steady(10)
		w.wantAtOnce(2)
		pass(time.Minute)
		j, _ := w.next()
		w.Release(j, false, 0, 0)
		r := w.reserve("other.example", addr(1, 1), 0)
		if _, took := w.next(); took != gap {
			t.Errorf("a job came after %v beside a reservation, want %v", took, gap)
		}
		r.Release(0, 0)
	})
}

// TestVisitsOfSlots verifies that each slot goes on with its host, for which a connection is kept
// open, after the hosts of the address were tested.
func TestVisitsOfSlots(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		left := 0
		w = newWorld(t, w.db, frontier.Config{Gap: gap, AddrRequests: 3, VisitLength: 64,
			MaxVisits: 9, Node: node{left: func(string) { left++ }}})
		const hosts, pages = 60, 20
		for i := range hosts {
			w.add(domain(i), addr(1, 1), pages)
		}
		began := time.Now()
		w.crawl(3, 100*time.Millisecond, func(frontier.Job) frontier.Load {
			return frontier.LoadSteady
		})
		if most := hosts + 2*3*3 + 3; left > most {
			t.Errorf("%d hosts were left, want at most %d", left, most)
		}
		if took := time.Since(began); took > hosts*pages*1100*time.Millisecond*10/27 {
			t.Errorf("the pages took %v, want about a third of the time of one slot", took)
		}
	})
}

// TestVisitsOfTestedHosts verifies that visits end at an address with many hosts, too, of all of
// which a page was requested.
func TestVisitsOfTestedHosts(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		const length = 3
		w = newWorld(t, w.db, frontier.Config{Gap: gap, AddrRequests: 8, VisitLength: length,
			MaxVisits: 9})
		for i := range 5 {
			w.add(domain(i), addr(1, 1), 20)
		}
		asked := map[string]int{}
		for range 60 {
			j, _ := w.next()
			asked[j.Host]++
			w.Observe(j, frontier.LoadSteady)
			w.finish(j)
			time.Sleep(gap)
		}
		for i := range 5 {
			if n := asked[domain(i)]; n < 12-length || n > 12+length {
				t.Errorf("%s was asked %d times of 60, want about 12", domain(i), n)
			}
		}
	})
}

// crawl fetches everything with some workers. Each request takes some time.
func (w world) crawl(workers int, took time.Duration, answer func(frontier.Job) frontier.Load) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				j, err := w.Next(ctx)
				if err != nil {
					return
				}
				pass(took)
				w.Observe(j, answer(j))
				w.finish(j)
				if s := w.Stats(); s.Pending == 0 && s.InFlight == 0 {
					stop()
				}
			}
		})
	}
	all.Wait()
}

// A visitor is what a server sees of requests, independently of the frontier.
type visitor struct {
	t      *rapid.T
	most   int
	active map[netip.Addr]int
	ended  map[netip.Addr][]time.Time
	busy   map[string]bool
	next   map[string]time.Time
	asked  map[netip.Addr]map[int]bool // domains that may have been served
}

// begin verifies that a request to a host is allowed: one at a time with a gap after each, and for
// the address as many in progress or within the gap as its domains permit.
func (v *visitor) begin(host string, at netip.Addr) {
	now := time.Now()
	if v.busy[host] || now.Before(v.next[host]) {
		v.t.Fatalf("request to %s during another or %v too early", host, v.next[host].Sub(now))
	}
	v.ended[at] = slices.DeleteFunc(v.ended[at], func(e time.Time) bool {
		return !now.Before(e.Add(gap))
	})
	allowed := max(1, min(v.most, int(math.Sqrt(float64(len(v.asked[at]))))))
	if n := v.active[at] + len(v.ended[at]) + 1; n > allowed {
		v.t.Fatalf("%d requests to %v of %d domains, want %d", n, at, len(v.asked[at]), allowed)
	}
	v.busy[host] = true
	v.active[at]++
}

func (v *visitor) end(host string, at netip.Addr, sent bool, gap, hostWait time.Duration) {
	v.busy[host] = false
	v.active[at]--
	if sent {
		v.ended[at] = append(v.ended[at], time.Now())
		v.next[host] = time.Now().Add(max(gap, hostWait))
	}
}

var loads = append(slices.Repeat([]frontier.Load{frontier.LoadSteady}, 7), frontier.LoadUnknown,
	frontier.LoadStrained)

// TestSlotsRandom verifies what servers see, whatever happens: hosts of a few domains at a few
// addresses, of which some are shared by domains, answer in any way, move, leave and come back.
func TestSlotsRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) { slotsRandomly(rt, t) })
	})
}

func slotsRandomly(t *rapid.T, outer *testing.T) {
	db, err := store.Open("", store.Options{InMemory: true, MemTable: 4 << 20, IndexCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	v := &visitor{t: t, most: rapid.SampledFrom([]int{3, 2, 1}).Draw(t, "most"),
		active: map[netip.Addr]int{},
		ended:  map[netip.Addr][]time.Time{}, busy: map[string]bool{}, next: map[string]time.Time{},
		asked: map[netip.Addr]map[int]bool{}}
	w := newWorld(outer, db, frontier.Config{Gap: gap, AddrRequests: v.most, VisitLength: 3,
		MaxVisits: rapid.IntRange(0, 2).Draw(t, "visits")})
	pass(gap)
	hosts := rapid.SampledFrom([]int{20, 40, 5, 100}).Draw(t, "hosts")
	domains := rapid.SampledFrom([]int{hosts, 8, 1}).Draw(t, "domains")
	name := func(i int) string { return fmt.Sprintf("n%d.site%d.example", i, i%domains) }
	home := func(i int) netip.Addr { return addr(1, byte(i%2)) }
	urls := rapid.SampledFrom([]int{30, 1}).Draw(t, "urls")
	few := urls == 1
	for i := range hosts {
		w.add(name(i), home(i), urls)
	}
	type request struct {
		job  frontier.Job
		r    *frontier.Reservation
		host string
		addr netip.Addr
	}
	var open []request
	begin := func(q request) {
		v.begin(q.host, q.addr)
		open = append(open, q)
	}
	for range 800 {
		i := rapid.IntRange(0, hosts-1).Draw(t, "host")
		ctx, cancel := context.WithTimeout(context.Background(),
			rapid.SampledFrom([]time.Duration{1, gap}).Draw(t, "timeout"))
		switch what := rapid.IntRange(0, 99).Draw(t, "what"); {
		case what == 99:
			at := addr(1, byte(rapid.IntRange(0, 1).Draw(t, "to")))
			_, _ = w.SetHostAddr(name(i), at)
		case what == 98:
			if at, err := w.EvictHost(ctx, name(i)); err == nil {
				if err := w.AddHost(name(i), subnet(1), home(i), at); err != nil {
					t.Fatal(err)
				}
			}
		case what == 97 && rapid.Bool().Draw(t, "drop"):
			_, _, _, next := w.SubnetLoad(subnet(1))
			w.Drop(subnet(1))
			w.Adopt(subnet(1), w.hostsOf(1), next)
		case what == 96:
			_, at, _ := w.HostAddr(name(i))
			r, err := w.Reserve(ctx, frontier.Job{}, name(i), at, time.Now().Add(gap))
			if err == nil {
				begin(request{r: r, host: name(i), addr: at})
			}
		case what == 94:
			w.DelayHost(name(i), time.Now().Add(gap/2))
		case what == 93:
			w.SetRetryAt(name(i), time.Now().Add(rapid.SampledFrom([]time.Duration{0, gap}).
				Draw(t, "retry")))
		case what == 95 || what > 85 && few:
			urls++
			_ = w.tryPush(name(i), urls, 1) // not while it is being evicted
		case what < 50 || len(open) == 0:
			if j, err := w.Next(ctx); err == nil {
				begin(request{job: j, host: j.Host, addr: j.Addr})
			}
		case what < 55:
			pass(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
		default:
			n := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			q := open[n]
			open = slices.Delete(open, n, n+1)
			more := time.Duration(rapid.IntRange(0, 3).Draw(t, "more")) * gap / 2
			wait := time.Duration(rapid.SampledFrom([]int{0, 0, 1, 99}).Draw(t, "wait")) * gap
			sent := rapid.IntRange(0, 9).Draw(t, "sent") > 0
			v.end(q.host, q.addr, sent, max(gap, more), wait)
			switch {
			case q.r != nil && sent:
				q.r.Release(more, wait)
			case q.r != nil:
				q.r.Cancel()
			case sent:
				l := rapid.SampledFrom(loads).Draw(t, "load")
				if l == frontier.LoadSteady {
					if v.asked[q.addr] == nil {
						v.asked[q.addr] = map[int]bool{}
					}
					var k, d int
					_, _ = fmt.Sscanf(q.host, "n%d.site%d.example", &k, &d)
					v.asked[q.addr][d] = true
				}
				w.Observe(q.job, l)
				w.remove(q.job)
				w.Release(q.job, true, more, wait)
			default:
				w.Return(q.job, false)
			}
		}
		cancel()
		for i := range 2 {
			if wrong := w.WrongDomains(home(i)) + w.WrongOrder(home(i)); wrong != "" {
				t.Fatal(wrong)
			}
		}
	}
	for _, q := range open {
		if q.r != nil {
			q.r.Cancel()
		} else {
			w.Return(q.job, false)
		}
	}
}
