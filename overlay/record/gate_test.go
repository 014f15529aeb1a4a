package record

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

func enterGate(ctx context.Context, g *semaphore.Weighted) (*Turn, error) {
	t := &Turn{gate: g}
	return t, t.enter(ctx)
}

// Only so many writers are inside, and those that pause are not.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := semaphore.NewWeighted(2)
		var mu sync.Mutex
		inside, most, ended := 0, 0, 0
		enter := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			inside += n
			most = max(most, inside)
		}
		work := func() {
			enter(1)
			time.Sleep(time.Second)
			enter(-1)
		}
		for range 10 {
			go func() {
				turn, err := enterGate(t.Context(), g)
				if err != nil {
					t.Error(err)
					return
				}
				defer turn.Leave()
				work()
				if err := turn.pause(t.Context(), 20*time.Second); err != nil {
					t.Error(err)
				}
				work()
				mu.Lock()
				defer mu.Unlock()
				ended++
			}()
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if most != 2 || ended != 10 || !g.TryAcquire(2) {
			t.Errorf("%d inside at once, %d ended, want 2 and 10, and none left", most, ended)
		}
	})
}

func TestGateEndsWithContext(t *testing.T) {
	g := semaphore.NewWeighted(1)
	turn, err := enterGate(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late, err := enterGate(ctx, g)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("enter() = %v, want Canceled", err)
	}
	late.Leave()
	if g.TryAcquire(1) {
		t.Error("a writer that had not entered has left")
	}
	if err := turn.pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("pause() = %v, want Canceled", err)
	}
	turn.Leave()
	if !g.TryAcquire(1) {
		t.Error("a writer is left inside")
	}
}
