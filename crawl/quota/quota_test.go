package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// disk is what a Quota stores.
type disk struct {
	mu    sync.Mutex
	at    time.Time
	saves int
	err   error // of Save
}

func (d *disk) Load() (time.Time, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, !d.at.IsZero(), nil
}

// saveTime is how long Save takes. A request waits for it, and may so be sent after the hours.
const saveTime = 3 * time.Millisecond

func (d *disk) Save(at time.Time) error {
	time.Sleep(saveTime)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at.Round(0)
	d.saves++
	return d.err
}

// daily returns a Config.UntilOpen with one open period per day, from 22:00.
func daily(open time.Duration) func(time.Time) time.Duration {
	return func(now time.Time) time.Duration {
		if open == 0 {
			return 0
		}
		begin := time.Date(now.Year(), now.Month(), now.Day(), 22, 0, 0, 0, now.Location())
		if now.Sub(begin.AddDate(0, 0, -1)) < open || !now.Before(begin) && now.Sub(begin) < open {
			return 0
		}
		if now.After(begin) {
			begin = begin.AddDate(0, 0, 1)
		}
		return begin.Sub(now)
	}
}

// most returns the largest number of times within 24 hours.
func most(times []time.Time) (n int) {
	from := 0
	for i, at := range times {
		for at.Sub(times[from]) >= day {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}

// However greedily requests are made, and however often the peer is killed, no 24 hours
// have more requests than allowed, none is outside the hours, and most of the allowed ones
// are made.
func TestDailyLimit(t *testing.T) {
	for _, c := range []struct {
		requests int64
		open     time.Duration
		kills    bool
	}{
		{1, 0, false}, {1, 8 * time.Hour, false}, {2, 8 * time.Hour, true}, {23, 0, true},
		{24, time.Hour, true}, {48, 0, false},
		{100, 20 * time.Minute, true}, {500, 0, true}, {500, 8 * time.Hour, true},
		{5000, 23 * time.Hour, false},
	} {
		t.Run(fmt.Sprintf("%d in %v, kills %v", c.requests, c.open, c.kills), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []time.Time
				rng := rand.New(rand.NewPCG(uint64(c.requests), 7))
				kept := &disk{}
				cfg := Config{Requests: c.requests, OpenPerDay: c.open, UntilOpen: daily(c.open),
					Store: kept}
				begin, runs := time.Now(), 0
				for time.Since(begin) < 6*day {
					runs++
					q, err := New(cfg, time.Now())
					if err != nil {
						t.Fatal(err)
					}
					life := 7 * day
					if c.kills {
						life = time.Duration(rng.Float64() * float64(12*time.Hour))
					}
					sent = append(sent, take(t, q, min(life, 6*day-time.Since(begin)),
						rng.Uint64())...)
				}
				for _, at := range sent {
					if cfg.UntilOpen(at) > 0 && cfg.UntilOpen(at.Add(-saveTime)) > 0 {
						t.Fatalf("request at %v, outside the hours", at)
					}
				}
				if n := most(sent); int64(n) > c.requests {
					t.Errorf("%d requests in 24 hours, want at most %d", n, c.requests)
				}
				least := float64(c.requests) * 6 * 0.75
				if c.requests < 24 || c.kills {
					// each kill costs up to an hour's worth
					least = float64(c.requests) * 6 * 0.4
				}
				if float64(len(sent)) < least-1 {
					t.Errorf("%d requests in 6 days and %d runs, want at least %.0f",
						len(sent), runs, least)
				}
				if kept.saves > len(sent)+runs {
					t.Errorf("%d writes for %d requests, want fewer", kept.saves, len(sent))
				}
			})
		})
	}
}

// take runs workers that send as fast as they can for the given time; sometimes all of them
// pause for hours.
func take(t *testing.T, q *Quota, life time.Duration, seed uint64) (sent []time.Time) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(life)
	for w := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			for time.Now().Before(end) {
				ticket, ok, err := q.Acquire(time.Now())
				if err != nil {
					t.Error(err)
				}
				if !ok {
					time.Sleep(min(max(q.Wait(time.Now()), time.Millisecond), time.Until(end)+1))
					continue
				}
				mu.Lock()
				sent = append(sent, time.Now())
				mu.Unlock()
				time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
				ticket.Done(int64(rng.IntN(100_000)))
				if rng.IntN(300) == 0 {
					time.Sleep(min(time.Duration(rng.IntN(9))*time.Hour, time.Until(end)+1))
				}
			}
		})
	}
	wg.Wait()
	return sent
}

// A bandwidth limit holds over a minute, whatever the sizes and the number of concurrent
// answers.
func TestBandwidth(t *testing.T) {
	for _, rate := range []float64{2e3, 1e5, 5e6} {
		synctest.Test(t, func(t *testing.T) {
			q, err := New(Config{Bytes: rate}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var wg sync.WaitGroup
			sum, largest := 0.0, 0.0
			begin := time.Now()
			for w := range 16 {
				rng := rand.New(rand.NewPCG(uint64(w), 3))
				wg.Go(func() {
					for time.Since(begin) < 2*time.Hour {
						ticket, ok, _ := q.Acquire(time.Now())
						if !ok {
							time.Sleep(q.Wait(time.Now()))
							continue
						}
						size := 1000 + rng.ExpFloat64()*60e3
						time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
						ticket.Done(int64(size))
						mu.Lock()
						sum, largest = sum+size, max(largest, size)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			took := time.Since(begin).Seconds()
			if high := rate*(took+bandwidthBurst.Seconds()) + 16*largest; sum > high {
				t.Errorf("%.0f bytes in %.0f s at %.0f a second", sum, took, rate)
			}
			if could := 16 * 60e3 / 1.5; sum < 0.9*min(rate, could)*took {
				t.Errorf("only %.0f bytes in %.0f s at %.0f a second", sum, took, rate)
			}
		})
	}
}

// Borrowed requests are paid back before any other is allowed.
func TestBorrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := New(Config{Requests: 240}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, ok, _ := q.Acquire(time.Now()); !ok {
				t.Fatal("burst of an hour's worth refused")
			}
		}
		for range 5 {
			if _, err := q.Borrow(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if wait := q.Wait(time.Now()); wait != 6*q.interval || q.RequestWait(time.Now()) != wait {
			t.Errorf("next request in %v, want %v", wait, 6*q.interval)
		}
	})
}

func TestSaveFails(t *testing.T) {
	full := errors.New("full")
	q, err := New(Config{Requests: 10, Store: &disk{err: full}}, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := q.Acquire(time.Unix(1e9, 0)); ok || !errors.Is(err, full) {
		t.Errorf("Acquire() = %v, %v, want the error of Save", ok, err)
	}
	if wait := q.Wait(time.Unix(1e9, 0)); wait != 0 {
		t.Errorf("refused request was charged: Wait() = %v", wait)
	}
}

// A clock that was years ahead does not stop the peer for years.
func TestStoredTimeInFuture(t *testing.T) {
	now := time.Unix(1e9, 0)
	q, err := New(Config{Requests: 240, Store: &disk{at: now.AddDate(3, 0, 0)}}, now)
	if err != nil {
		t.Fatal(err)
	}
	if wait := q.Wait(now); wait <= 0 || wait > maxStoredAhead {
		t.Errorf("Wait() = %v", wait)
	}
}

func TestNoLimits(t *testing.T) {
	now := time.Unix(1e9, 0)
	empty, err := New(Config{}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]*Quota{"nil": nil, "zero": empty} {
		for range 1000 {
			ticket, ok, err := q.Acquire(now)
			if !ok || err != nil || q.Wait(now) != 0 || q.RequestWait(now) != 0 {
				t.Fatalf("%s: refused without limits", name)
			}
			ticket.Done(1 << 40)
		}
		if _, err := q.Borrow(now); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []Config{{Requests: -1}, {Bytes: -1}, {OpenPerDay: -1},
		{OpenPerDay: 25 * time.Hour}} {
		if _, err := New(c, now); err == nil {
			t.Errorf("New(%+v) succeeded, want an error", c)
		}
	}
}

// New limits hold from the change on, and what was used up under the old ones is not granted again.
func TestChange(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	q, err := New(Config{Requests: 24}, now)
	if err != nil {
		t.Fatal(err)
	}
	take := func(want bool) {
		t.Helper()
		if _, ok, err := q.Acquire(now); ok != want || err != nil {
			t.Errorf("Acquire() = %v, %v, want %v", ok, err, want)
		}
	}
	take(true)
	take(false)
	if err := q.Change(-1, 0, 0, now); err == nil {
		t.Error("Change(-1) = nil")
	}
	if err := q.Change(24*60, 0, 0, now); err != nil { // a minute each, and a burst of 60
		t.Fatal(err)
	}
	used := 0
	for ok := true; ok; used++ {
		if _, ok, err = q.Acquire(now); err != nil {
			t.Fatal(err)
		}
	}
	if used > 4 { // of the burst of 60
		t.Errorf("%d requests at once after the change, want few", used)
	}
	now = now.Add(2 * time.Minute)
	take(true)
	if err := q.Change(0, 0, 0, now); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		take(true)
	}
	if err := q.Change(24, 0, 0, now); err != nil {
		t.Fatal(err)
	}
	take(true)
	take(false)
}

// The limits may change while requests are sent. The race detector finds what is not guarded.
func TestChangeWhileUsed(t *testing.T) {
	now := time.Unix(1e9, 0)
	q, err := New(Config{Requests: 1000, Bytes: 1e6, UntilOpen: daily(0), Store: &disk{}}, now)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 50 {
				ticket, _, err := q.Acquire(now)
				if err != nil {
					t.Error(err)
				}
				ticket.Done(1000)
			}
		})
	}
	for i := range 50 {
		if err := q.Change(1000+int64(i), 1e6, 0, now); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}
