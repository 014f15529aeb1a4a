package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"peerd/internal/backoff"
	_ "peerd/internal/rapidtest"
)

var durations = rapid.Map(rapid.Int64Range(0, math.MaxInt64),
	func(n int64) time.Duration { return time.Duration(n) })

func TestDouble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, longest := durations.Draw(t, "first"), durations.Draw(t, "longest")
		n := rapid.IntRange(-1, 100).Draw(t, "n")
		got, next := backoff.Double(first, longest, n), backoff.Double(first, longest, n+1)
		switch {
		case got < min(first, longest) || got > longest:
			t.Fatalf("%v is out of bounds", got)
		case n <= 0 && got != min(first, longest):
			t.Fatalf("%v is not the first", got)
		case n >= 0 && got < longest/2 && next != 2*got:
			t.Fatalf("%v does not double to %v", got, next)
		case next < got:
			t.Fatalf("%v decreases to %v", got, next)
		case n > 63 && first > 0 && got != longest:
			t.Fatalf("%v is not the longest", got)
		}
	})
}

func TestDoubleDoesNotOverflow(t *testing.T) {
	if got := backoff.Double(1<<62, math.MaxInt64, 9); got != math.MaxInt64 {
		t.Errorf("Double() = %d", got)
	}
}

// Random durations keep their bounds, and reach all parts of the range.
func TestJitter(t *testing.T) {
	for name, c := range map[string]struct {
		f     func(time.Duration) time.Duration
		least float64
		most  float64
	}{
		"Jitter": {backoff.Jitter, 0.75, 1.25},
		"Later":  {backoff.Later, 1, 1.25},
	} {
		rapid.Check(t, func(t *rapid.T) {
			d := durations.Draw(t, "d") / 2
			if got := c.f(d); float64(got) < c.least*float64(d)-1 ||
				float64(got) > c.most*float64(d)+1 {
				t.Fatalf("%s(%v) = %v", name, d, got)
			}
		})
		low, high := math.Inf(1), 0.0
		for range 10000 {
			got := c.f(time.Hour).Hours()
			low, high = min(low, got), max(high, got)
		}
		if low > c.least+0.01 || high < c.most-0.01 {
			t.Errorf("%s gives %.3f to %.3f of an hour", name, low, high)
		}
	}
}

// A signal ends a Sleep, or the next one; several before it are one.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := backoff.NewWake(), time.Now()
		go func() {
			time.Sleep(time.Minute)
			w.Signal()
		}()
		if err := w.Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Sleep() = %v after %v, want nil after a minute", err, time.Since(began))
		}
		w.Signal()
		w.Signal()
		began = time.Now()
		for _, want := range []time.Duration{0, time.Hour} {
			if err := w.Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != want {
				t.Errorf("Sleep() = %v after %v, want nil after %v", err, time.Since(began), want)
			}
		}
	})
}

// Sleep waits for the whole time, and no longer than its context.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := backoff.Sleep(ctx, time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Sleep() = %v after %v, want nil after a minute", err, time.Since(began))
		}
		err := backoff.Sleep(ctx, 2*time.Hour)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("Sleep() = %v after %v, want the error of ctx after an hour", err,
				time.Since(began))
		}
	})
}
