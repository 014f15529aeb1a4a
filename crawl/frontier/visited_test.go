package frontier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"peerd/crawl/frontier"
)

// A host that is being visited precedes the others at its address, and its server those that are
// not being visited, until the visit ends. A visit that nothing waits for goes on.
func TestVisits(t *testing.T) {
	for _, tt := range []struct {
		name string
		max  int
		want string
	}{
		{"no visits", 0, "acbcacbcaaaaaad"},
		{"one visit", 1, "aaacccbbacaaaad"},
		{"all", 9, "acacacbcbaaaaad"}, // b does not wait for the end of a
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w world) {
				w = newWorld(t, w.db, frontier.Config{Gap: gap, VisitLength: 3, MaxVisits: tt.max})
				w.add("a", addr(1, 1), 8)
				w.add("b", addr(1, 1), 2)
				w.add("c", addr(2, 1), 4)
				w.add("d", addr(3, 1), 1)
				w.DelayHost("d", time.Now().Add(time.Hour))
				var order strings.Builder
				for range 15 {
					j, _ := w.next()
					order.WriteString(j.Host)
					w.finish(j)
					time.Sleep(gap) // all are ready: there is one worker
				}
				if order.String() != tt.want {
					t.Errorf("order is %s, want %s", order.String(), tt.want)
				}
				w.wantStats(4, 0, 0)
			})
		})
	}
}

// Beyond the maximum of visits no server is asked, also if nothing else is to be done. A visit ends
// when its server has nothing to do, pauses for long or is dropped.
func TestMaxVisits(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		var left []string
		w = newWorld(t, w.db, frontier.Config{Gap: gap, VisitLength: 9, MaxVisits: 1,
			Node: node{left: func(host string) { left = append(left, host) }}})
		w.add("a", addr(1, 1), 9)
		w.add("b", addr(2, 1), 2)
		j := w.want("a", 0)
		w.none(time.Minute)
		w.Release(j, false, frontier.MaxVisitPause, 0)
		j = w.want("a", frontier.MaxVisitPause)
		w.Release(j, false, frontier.MaxVisitPause+1, 0) // the visit ends
		w.finish(w.want("b", 0))
		w.finish(w.want("b", gap)) // b is empty
		w.add("c", addr(3, 1), 9)
		w.finish(w.want("c", 0))
		w.add("d", addr(4, 1), 9)
		w.finish(w.want("c", gap))
		w.BeginPause(subnet(3))
		w.Drop(subnet(3))
		w.finish(w.want("d", 0))
		w.DelayHost("d", time.Now().Add(time.Hour))
		w.finish(w.want("a", frontier.MaxVisitPause+1-2*gap))
		if got := strings.Join(left, ""); got != "abcd" {
			t.Errorf("left %s, want abcd", got)
		}
	})
}

// A visit goes on although the server has to wait for another one of its subnet.
func TestSerialVisits(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = newWorld(t, w.db, frontier.Config{Gap: gap, VisitLength: 9, MaxVisits: 2,
			Node: node{left: func(host string) { t.Errorf("left %s", host) }}})
		w.SetSerial(subnet(1), true)
		w.add("a", addr(1, 1), 9)
		w.add("b", addr(1, 2), 9)
		for i := range 4 {
			w.finish(w.want("a", 0))
			w.finish(w.want("b", 0))
			if i == 0 {
				w.add("c", addr(2, 1), 9)
			}
			pass(gap)
		}
	})
}

// Whatever happens, at most MaxVisits hosts were begun and not left, and in the end all URLs are
// fetched and all hosts are left.
func TestVisitsRandom(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w world) { visitRandomly(t, w, seed) })
		})
	}
}

func visitRandomly(t *testing.T, w world, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	most := 1 + r.IntN(5)
	begun := map[string]bool{}
	c := frontier.Config{Gap: gap, VisitLength: 1 + r.IntN(5), MaxVisits: most,
		Node: node{left: func(host string) {
			if !begun[host] {
				t.Errorf("left %s, which was not being visited", host)
			}
			delete(begun, host)
		}}}
	servers := 12
	if seed%2 == 1 { // with several slots each
		c.AddrRequests, servers = 3, 2
	}
	w = newWorld(t, w.db, c)
	urls := 0
	for i := range 30 {
		n := r.IntN(9)
		w.add(domain(i), addr(byte(r.IntN(servers)), byte(r.IntN(2))), n)
		urls += n
	}
	serial := subnet(byte(r.IntN(12)))
	w.SetSerial(serial, true)
	var jobs []frontier.Job
	take := func(wait time.Duration) (ok bool) {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		j, err := w.Next(ctx)
		if err != nil {
			return false
		}
		w.Observe(j, frontier.LoadSteady)
		begun[j.Host] = true
		if jobs = append(jobs, j); len(begun) > most {
			t.Fatalf("%d hosts in work, want at most %d", len(begun), most)
		}
		return true
	}
	end := func() {
		i := r.IntN(len(jobs))
		j := jobs[i]
		jobs = append(jobs[:i], jobs[i+1:]...)
		switch r.IntN(8) {
		case 0:
			w.Return(j, false)
		case 1:
			w.Release(j, false, 0, time.Duration(r.IntN(20))*time.Second)
		case 2:
			w.SetSerial(serial, false)
			w.Release(j, false, time.Duration(r.IntN(20))*time.Second, 0)
		default:
			w.finish(j)
			urls--
		}
	}
	for urls > 0 {
		if len(jobs) == 0 && !take(time.Hour) {
			t.Fatalf("no job of %d", urls)
		}
		if r.IntN(3) == 0 || !take(time.Second) {
			end()
		}
	}
	if len(begun) > 0 {
		t.Errorf("%v were not left", begun)
	}
}
