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

// disk is what a Quota writes down.
type disk struct {
	mu    sync.Mutex
	at    time.Time
	saves int
}

func (d *disk) load() (time.Time, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, !d.at.IsZero(), nil
}

func (d *disk) save(at time.Time) error {
	time.Sleep(3 * time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at.Round(0)
	d.saves++
	return nil
}

// daily is Config.Wait of one span a day, from 22:00 on.
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

// most returns the most of times that are within 24 hours.
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

// Whoever asks, however greedily, and however often the peer is killed: no 24 hours
// have more requests than the bound, none is outside the hours, and most of
// what is allowed is had.
func TestAnyDayKeepsTheBound(t *testing.T) {
	for _, c := range []struct {
		requests int64
		open     time.Duration
		kills    bool
	}{
		{1, 0, false}, {1, 8 * time.Hour, false}, {2, 8 * time.Hour, true}, {23, 0, true}, {24, time.Hour, true}, {48, 0, false},
		{100, 20 * time.Minute, true}, {500, 0, true}, {500, 8 * time.Hour, true}, {5000, 23 * time.Hour, false},
	} {
		t.Run(fmt.Sprintf("%d in %v, kills %v", c.requests, c.open, c.kills), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []time.Time
				rng := rand.New(rand.NewPCG(uint64(c.requests), 7))
				kept := &disk{}
				cfg := Config{Requests: c.requests, Open: c.open, Wait: daily(c.open), Load: kept.load, Save: kept.save}
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
					sent = append(sent, take(t, q, min(life, 6*day-time.Since(begin)), rng.Uint64())...)
				}
				for _, at := range sent {
					if cfg.Wait(at) > 0 {
						t.Fatalf("a request at %v", at)
					}
				}
				if n := most(sent); int64(n) > c.requests {
					t.Errorf("%d requests in 24 hours, want at most %d", n, c.requests)
				}
				least := float64(c.requests) * 6 * 0.75
				if c.requests < 24 || c.kills {
					least = float64(c.requests) * 6 * 0.4 // each kill costs one, and an hour may be one
				}
				if float64(len(sent)) < least-1 {
					t.Errorf("%d requests in 6 days and %d runs, want %.0f", len(sent), runs, least)
				}
				if kept.saves > len(sent)+runs {
					t.Errorf("%d writes for %d requests", kept.saves, len(sent))
				}
			})
		})
	}
}

// take has workers ask as fast as they can for so long; sometimes all rest for hours.
func take(t *testing.T, q *Quota, life time.Duration, seed uint64) (sent []time.Time) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(life)
	for w := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			for time.Now().Before(end) {
				ticket, ok, err := q.Take(time.Now())
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

// A bandwidth holds over a minute, whatever the sizes are and however many
// answers are under way.
func TestBandwidthHolds(t *testing.T) {
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
						ticket, ok, _ := q.Take(time.Now())
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
			if high := rate*(took+bytesBurst.Seconds()) + 16*largest; sum > high {
				t.Errorf("%.0f bytes in %.0f s at %.0f a second", sum, took, rate)
			}
			if could := 16 * 60e3 / 1.5; sum < 0.9*min(rate, could)*took {
				t.Errorf("only %.0f bytes in %.0f s at %.0f a second", sum, took, rate)
			}
		})
	}
}

// What is borrowed is paid back before anything else is let in.
func TestBorrowedIsPaidBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := New(Config{Requests: 240}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, ok, _ := q.Take(time.Now()); !ok {
				t.Fatal("an hour's worth is not there")
			}
		}
		for range 5 {
			if _, err := q.Borrow(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if wait := q.Wait(time.Now()); wait != 6*q.step || q.Spent(time.Now()) != wait {
			t.Errorf("the next one in %v, want %v", wait, 6*q.step)
		}
	})
}

func TestWhatIsNotKeptIsNotSent(t *testing.T) {
	full := errors.New("full")
	q, err := New(Config{Requests: 10, Save: func(time.Time) error { return full }}, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := q.Take(time.Unix(1e9, 0)); ok || !errors.Is(err, full) {
		t.Errorf("%v, %v", ok, err)
	}
	if wait := q.Wait(time.Unix(1e9, 0)); wait != 0 {
		t.Errorf("what was not sent counts: wait %v", wait)
	}
}

// A clock that was years ahead does not stop the peer for years.
func TestClockThatWasWrong(t *testing.T) {
	now := time.Unix(1e9, 0)
	q, err := New(Config{Requests: 240, Load: func() (time.Time, bool, error) { return now.AddDate(3, 0, 0), true, nil }}, now)
	if err != nil {
		t.Fatal(err)
	}
	if wait := q.Wait(now); wait <= 0 || wait > farthest {
		t.Errorf("wait %v", wait)
	}
}

func TestNoBounds(t *testing.T) {
	now := time.Unix(1e9, 0)
	empty, err := New(Config{}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]*Quota{"nil": nil, "zero": empty} {
		for range 1000 {
			ticket, ok, err := q.Take(now)
			if !ok || err != nil || q.Wait(now) != 0 || q.Spent(now) != 0 {
				t.Fatalf("%s: a bound where there is none", name)
			}
			ticket.Done(1 << 40)
		}
		if _, err := q.Borrow(now); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []Config{{Requests: -1}, {Bytes: -1}, {Open: -1}, {Open: 25 * time.Hour}} {
		if _, err := New(c, now); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
