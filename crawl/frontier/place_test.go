package frontier_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// A host with a new address keeps its queue and its clock.
func TestReaddress(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 3)
		w.add("b", addr(1, 1), 1)
		w.add("c", addr(1, 2), 1)
		pass(gap)
		j := w.want("a", 0)
		if ok, err := w.Readdress("a", addr(1, 2)); ok || err != nil {
			t.Errorf("moved while it is asked: %v, %v", ok, err)
		}
		w.finish(j)
		if _, err := w.Readdress("a", addr(2, 1)); err == nil {
			t.Error("moved out of its home")
		}
		if _, err := w.Readdress("nobody", addr(1, 1)); !errors.Is(err, frontier.ErrUnknownHost) {
			t.Errorf("nobody: %v", err)
		}
		if ok, err := w.Readdress("a", addr(1, 2)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if p, a, ok := w.Place("a"); !ok || p != subnet(1) || a != addr(1, 2) {
			t.Errorf("in %v at %v", p, a)
		}
		w.finish(w.want("c", 0)) // the other host there goes first: the gap of a holds
		w.finish(w.want("b", gap))
		j = w.want("a", 0)
		if j.Addr != addr(1, 2) {
			t.Errorf("asked at %v", j.Addr)
		}
		w.finish(j)
		w.push("a", 10, 1)
		w.finish(w.want("a", gap))
		var h store.Host
		err := w.db.View(func(tx *store.Tx) error {
			rec, err := tx.Host("a")
			if err == nil {
				h = *rec
			}
			return err
		})
		if err != nil || h.Addr != addr(1, 2) {
			t.Errorf("stored %+v, %v", h, err)
		}
		w.wantStats(3, 1, 0)
	})
}

// A host leaves when what is under way has ended, and comes in again elsewhere.
func TestEvict(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.add("b", addr(1, 1), 2)
		pass(gap)
		j := w.want("a", 0)
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.Evict(short, "a"); !errors.Is(err, context.DeadlineExceeded) || !w.Owns("a") {
			t.Errorf("evicted while it is asked: %v", err)
		}
		type result struct {
			at  time.Time
			err error
		}
		done := make(chan result)
		go func() {
			at, err := w.Evict(t.Context(), "a")
			done <- result{at, err}
		}()
		pass(time.Second)
		if w.Owns("a") {
			t.Error("takes URLs while it leaves")
		}
		wantErr(t, w.tryPush("a", 20, 1), frontier.ErrPaused)
		w.finish(j)
		r := <-done
		if r.err != nil || time.Until(r.at) != gap {
			t.Errorf("out, asked again after %v, %v", time.Until(r.at), r.err)
		}
		w.wantStats(1, 2, 0)
		wantErr(t, w.tryPush("a", 20, 1), frontier.ErrUnknownHost)
		var h store.Host
		err := w.db.Update(func(tx *store.Tx) error {
			if err := tx.MoveHost("a", subnet(2), addr(2, 1)); err != nil {
				return err
			}
			rec, err := tx.Host("a")
			if err == nil {
				h = *rec
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Enter(h, r.at.Add(time.Minute))
		w.wantStats(2, 3, 0)
		if _, pending, _, _ := w.Load(subnet(2)); pending != 1 {
			t.Errorf("%d in the new home", pending)
		}
		w.finish(w.want("b", gap))
		w.finish(w.want("b", gap))
		w.finish(w.want("a", time.Minute-gap))
		if at, err := w.Evict(t.Context(), "nobody"); err != nil || !at.IsZero() {
			t.Errorf("nobody: %v, %v", at, err)
		}
	})
}

// The last host of a subnet may leave and come back.
func TestEvictLast(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		if _, err := w.Evict(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		w.none(time.Hour)
		w.add("b", addr(1, 1), 1)
		w.finish(w.want("b", 0))
		w.Drop(subnet(1))
		w.wantStats(0, 0, 0)
	})
}

func TestHold(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		w.Hold("a", time.Now().Add(time.Hour))
		w.Hold("a", time.Now())
		w.Hold("nobody", time.Now())
		w.finish(w.want("a", time.Hour))
	})
}

// Each host with work is named once in an interval.
func TestStale(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		for i := range byte(50) {
			w.add(string(rune('a'+i)), addr(i, 1), 1)
		}
		w.add("idle", addr(99, 1), 0)
		pass(2 * time.Hour)
		named := map[string]int{}
		for range 30 {
			for _, h := range w.Stale(time.Now().Add(-time.Hour), 4) {
				named[h]++
			}
		}
		if len(named) != 50 || named["idle"] != 0 {
			t.Errorf("%d hosts named", len(named))
		}
		for h, n := range named {
			if n != 1 {
				t.Errorf("%s named %d times", h, n)
			}
		}
		pass(2 * time.Hour)
		if got := w.Stale(time.Now().Add(-time.Hour), 4); len(got) != 4 {
			t.Errorf("%d named again", len(got))
		}
		if got := w.Some(3); len(got) != 3 {
			t.Errorf("some: %v", got)
		}
	})
}
