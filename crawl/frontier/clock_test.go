package frontier_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"peerd/crawl/frontier"
)

// reserve takes a reservation that is possible after exactly d.
func (w world) reserve(host string, at netip.Addr, d time.Duration) *frontier.Reservation {
	w.t.Helper()
	began := time.Now()
	r, err := w.Reserve(w.t.Context(), frontier.Job{}, host, at, began.Add(time.Hour))
	if took := time.Since(began); err != nil || took != d {
		w.t.Fatalf("reserved %s at %v after %v, %v; want after %v", host, at, took, err, d)
	}
	return r
}

// refuse fails the test unless a reservation within d is refused.
func (w world) refuse(host string, at netip.Addr, d time.Duration) {
	w.t.Helper()
	_, err := w.Reserve(w.t.Context(), frontier.Job{}, host, at, time.Now().Add(d))
	wantErr(w.t, err, frontier.ErrNotYet)
}

// TestReserve verifies that reservations and jobs wait for each other by host and by address.
func TestReserve(t *testing.T) {
	bubble(t, func(_ *testing.T, w world) {
		r := w.reserve("a", addr(1, 1), 0)
		w.refuse("a", addr(2, 1), gap)
		w.refuse("b", addr(1, 1), gap)
		w.add("b", addr(1, 1), 2) // the same address, as a host of ours
		w.none(time.Minute)
		r.Release(0, 3*gap)
		j := w.want("b", gap)
		w.refuse("c", addr(1, 1), time.Minute)
		w.refuse("b", addr(3, 1), time.Minute)
		w.finish(j)
		pass(gap)
		r = w.reserve("a", addr(1, 1), 0)
		w.none(time.Minute)
		r.Cancel()
		w.finish(w.want("b", 0))
		w.reserve("b", addr(1, 1), gap).Release(4*gap, 0)
		w.push("b", 10, 1)
		w.finish(w.want("b", 4*gap))
	})
}

// TestTakeAddr verifies that a connection that does not wait for the clocks moves them: what comes
// after it waits as long as after a request, or longer if it had to.
func TestTakeAddr(t *testing.T) {
	bubble(t, func(_ *testing.T, w world) {
		w.add("a", addr(1, 1), 3)
		j := w.want("a", 0)
		r := w.TakeAddr(addr(1, 1)) // beside a request
		w.finish(j)
		w.none(time.Minute)
		r.Release(0, 0)
		w.finish(w.want("a", gap))
		w.reserve("b", addr(2, 1), 0).Release(5*gap, 0)
		w.TakeAddr(addr(2, 1)).Release(0, 0)       // in the pause after one
		w.reserve("c", addr(2, 1), 5*gap).Cancel() // of another host
		w.TakeAddr(addr(3, 1)).Cancel()
		w.reserve("b", addr(3, 1), 0).Cancel()
	})
}

// TestReserveElsewhere verifies that a host gets one request at a time although a reservation is
// for another address of it, and that the wait that it then asks for is not shortened.
func TestReserveElsewhere(t *testing.T) {
	bubble(t, func(_ *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		r := w.reserve("a", addr(2, 1), 0)
		w.none(time.Minute)
		r.Release(0, 3*gap)
		w.finish(w.want("a", 3*gap))
		r = w.reserve("b", addr(2, 1), 0)
		w.add("b", addr(1, 2), 1) // while it is reserved
		w.finish(w.want("a", gap))
		w.none(time.Minute)
		r.Cancel()
		w.finish(w.want("b", 0))
	})
}

// TestReserveBeside verifies that a reservation beside a job waits for the clocks of the other host
// and address, and not for the job, although that has the address, or all that the network may get.
func TestReserveBeside(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = newWorld(t, w.db, frontier.Config{Gap: gap, NetworkRequests: 1})
		w.SetSerial(subnet(1), true)
		w.add("a", addr(1, 1), 2)
		j := w.want("a", 0)
		beside := func(host string, at netip.Addr, d time.Duration) *frontier.Reservation {
			t.Helper()
			began := time.Now()
			r, err := w.Reserve(t.Context(), j, host, at, began.Add(time.Hour))
			if took := time.Since(began); err != nil || took != d {
				t.Fatalf("reserved %s at %v after %v, %v; want after %v", host, at, took, err, d)
			}
			return r
		}
		w.DelayHost("b", time.Now().Add(3*gap))
		beside("b", addr(1, 1), 3*gap).Release(0, 2*gap)
		beside("c", addr(1, 2), 0).Release(0, 0)
		beside("d", addr(1, 2), gap).Release(0, 0)
		beside("b", addr(1, 3), gap).Release(0, 0)
		w.add("e", addr(1, 4), 1)
		r := beside("e", addr(1, 4), 0)
		_, err := w.Reserve(t.Context(), j, "f", addr(1, 4), time.Now().Add(gap))
		wantErr(t, err, frontier.ErrNotYet)
		w.refuse("g", addr(1, 5), gap)
		r.Release(0, 0)
		w.finish(j)
		w.finish(w.want("a", gap))
		w.finish(w.want("e", 0))
	})
}

// TestReserveCanceled verifies that the end of a context ends the wait.
func TestReserveCanceled(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		r := w.reserve("a", addr(1, 1), 0)
		defer r.Cancel()
		ctx, cancel := context.WithTimeout(t.Context(), gap)
		defer cancel()
		_, err := w.Reserve(ctx, frontier.Job{}, "a", addr(1, 1), time.Now().Add(time.Hour))
		wantErr(t, err, context.DeadlineExceeded)
	})
}

// TestClocksSurviveDrop verifies that a subnet that was given away is not asked too early for
// its new owner.
func TestClocksSurviveDrop(t *testing.T) {
	bubble(t, func(_ *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.add("b", addr(1, 2), 2)
		a, b := w.want("a", 0), w.want("b", 0)
		w.remove(a)
		w.Release(a, true, 0, 5*gap)
		w.BeginPause(subnet(1))
		w.Drop(subnet(1))
		w.refuse("a", addr(1, 3), 4*gap)
		w.Release(b, false, 0, 0)
		w.reserve("b", addr(1, 2), gap).Cancel()
		w.reserve("c", addr(1, 1), 0).Cancel()
		w.reserve("a", addr(1, 3), 4*gap).Cancel()
	})
}

// load is what a network gets.
type load struct {
	mu       sync.Mutex
	now, max int
	starts   []time.Time
}

func (l *load) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	l.max = max(l.max, l.now)
	l.starts = append(l.starts, time.Now())
}

func (l *load) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now--
}

// TestNetworkLimits verifies the limits on a network that many jobs and reservations want to ask,
// and that it gets as much as they allow.
func TestNetworkLimits(t *testing.T) {
	v6 := func(i int) netip.Addr {
		a := netip.MustParseAddr("2001:db8:1::").As16()
		a[7], a[15] = byte(i>>8), byte(i) // another /64 for each 256
		return netip.AddrFrom16(a)
	}
	v4 := func(i int) netip.Addr { return addr(7, byte(i)) }
	for _, test := range []struct {
		name          string
		addr          func(i int) netip.Addr
		jobs, orders  int
		limit         int
		rate          float64
		took          time.Duration // of each request
		atOnce        int
		least, atMost time.Duration
	}{
		{"rate, orders", v4, 0, 40, 0, 10, 0, 1, 39 * 100 * time.Millisecond, 4 * time.Second},
		{"rate, both", v4, 40, 40, 0, 10, 0, 1, 79 * 100 * time.Millisecond, 9 * time.Second},
		{"requests, jobs", v4, 20, 0, 4, 0, time.Second, 4, 5 * time.Second, 5 * time.Second},
		{"requests, both", v4, 20, 20, 4, 0, time.Second, 4, 10 * time.Second, 10 * time.Second},
		{"IPv6", v6, 300, 300, 4, 10, 500 * time.Millisecond, 4, 75 * time.Second, 76 * time.Second},
		{"none", v4, 40, 40, 0, 0, time.Second, 80, time.Second, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w world) {
				w = newWorld(t, w.db, frontier.Config{
					Gap: gap, NetworkRequests: test.limit, NetworkRate: test.rate,
				})
				for i := range test.jobs {
					w.add(fmt.Sprintf("job%d", i), test.addr(i), 1)
				}
				var l load
				began := time.Now()
				var wg sync.WaitGroup
				for i := range test.orders {
					wg.Go(func() {
						r, err := w.Reserve(t.Context(), frontier.Job{}, fmt.Sprint(i),
							test.addr(test.jobs+i), began.Add(time.Hour))
						if err != nil {
							t.Error(err)
							return
						}
						l.begin()
						time.Sleep(test.took)
						l.end()
						r.Release(0, 0)
					})
				}
				for range test.jobs {
					wg.Go(func() {
						j, err := w.Next(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						l.begin()
						time.Sleep(test.took)
						l.end()
						w.finish(j)
					})
				}
				wg.Wait()
				if took := time.Since(began); took < test.least || took > test.atMost ||
					l.max > test.atOnce || len(l.starts) != test.jobs+test.orders {
					t.Errorf("%d requests in %v, %d at once; want %d in %v to %v, at most %d",
						len(l.starts), took, l.max, test.jobs+test.orders, test.least, test.atMost,
						test.atOnce)
				}
				for i := 1; i < len(l.starts) && test.rate > 0; i++ {
					if d := l.starts[i].Sub(l.starts[i-1]); d < 100*time.Millisecond {
						t.Fatalf("%v between two requests, want at least 100ms", d)
					}
				}
			})
		})
	}
}

// TestNetworkLimitsAreShared verifies that what is returned without a request delays no other, and
// that a short gap raises the rate.
func TestNetworkLimitsAreShared(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = newWorld(t, w.db, frontier.Config{Gap: gap, NetworkRequests: 1, NetworkRate: 2})
		for i := range byte(3) {
			w.add(fmt.Sprint(i), addr(1, i), 1)
		}
		for range 2 {
			j, took := w.next()
			if took != 0 {
				t.Errorf("job after %v, want none", took)
			}
			w.remove(j)
			w.Return(j, true)
		}
		r := w.reserve("a", addr(1, 9), 0)
		w.none(gap)
		r.Cancel()
		w.next()

		fast := newWorld(t, w.db, frontier.Config{Gap: time.Millisecond, NetworkRate: 10})
		fast.reserve("b", addr(2, 1), 0).Release(0, 0)
		fast.reserve("c", addr(2, 2), time.Millisecond).Release(0, 0)
	})
}

// TestClocksAreRemoved verifies that clocks of what is no longer asked take no memory.
func TestClocksAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		for i := range 5000 {
			a := netip.AddrFrom4([4]byte{11, byte(i >> 8), byte(i), 1})
			w.reserve(fmt.Sprint("h", i), a, 0).Release(0, 0)
			if i%100 == 99 {
				pass(gap)
			}
			if n := w.Clocks(); n > 3*300 {
				t.Fatalf("%d clocks after %d requests, want at most 900", n, i+1)
			}
		}
	})
}

// TestReserveMapped verifies that both forms of an address have one clock.
func TestReserveMapped(t *testing.T) {
	bubble(t, func(_ *testing.T, w world) {
		r := w.reserve("a", addr(1, 1), 0)
		defer r.Cancel()
		w.refuse("b", netip.AddrFrom16(addr(1, 1).As16()), gap)
	})
}
