package frontier_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// A host with a new address keeps its queue and its clock.
func TestSetHostAddr(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 3)
		w.add("b", addr(1, 1), 1)
		w.add("c", addr(1, 2), 1)
		pass(gap)
		j := w.want("a", 0)
		if ok, err := w.SetHostAddr("a", addr(1, 2)); ok || err != nil {
			t.Errorf("SetHostAddr() during a job = %v, %v; want false", ok, err)
		}
		w.finish(j)
		if _, err := w.SetHostAddr("a", addr(2, 1)); err == nil {
			t.Error("SetHostAddr() out of the subnet succeeded")
		}
		if _, err := w.SetHostAddr("unknown", addr(1, 1)); !errors.Is(err,
			frontier.ErrUnknownHost) {
			t.Errorf("SetHostAddr() of an unknown host: %v, want ErrUnknownHost", err)
		}
		if ok, err := w.SetHostAddr("a", addr(1, 2)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if p, a, ok := w.HostAddr("a"); !ok || p != subnet(1) || a != addr(1, 2) {
			t.Errorf("HostAddr() = %v, %v", p, a)
		}
		w.finish(w.want("c", 0)) // the other host there goes first: the gap of a applies
		w.finish(w.want("b", gap))
		j = w.want("a", 0)
		if j.Addr != addr(1, 2) {
			t.Errorf("job at %v", j.Addr)
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
			t.Errorf("stored host is %+v, %v", h, err)
		}
		w.wantStats(3, 1, 0)
	})
}

// Leaving tells when a host accepts no more URLs, for each reason.
func TestLeaving(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, w world){
		"pause": func(_ *testing.T, w world) { w.BeginPause(subnet(1)) },
		"evict": func(t *testing.T, w world) {
			if _, err := w.EvictHost(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		},
		"drop": func(_ *testing.T, w world) { w.Drop(subnet(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w world) {
				w.add("a", addr(1, 1), 1)
				w.add("z", addr(2, 1), 1)
				left := func(name string) bool {
					select {
					case <-w.Leaving(name):
						return true
					default:
						return false
					}
				}
				before := w.Leaving("a")
				if left("a") || left("z") {
					t.Fatal("left at the beginning")
				}
				leave(t, w)
				select {
				case <-before:
				default:
					t.Error("the channel of before is open")
				}
				if !left("a") || left("z") {
					t.Errorf("a left: %v, z left: %v; want only a", left("a"), left("z"))
				}
			})
		})
	}
}

// What this peer requests of a host that has left, for its next owner, waits as long as the host
// has asked for.
func TestEvictedHostRests(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		w.Release(w.want("a", 0), false, 0, time.Minute)
		if _, err := w.EvictHost(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		w.refuse("a", addr(2, 1), time.Minute-1)
		w.reserve("a", addr(2, 1), time.Minute).Cancel()
	})
}

// A host leaves when jobs and pushes have ended, and can be added elsewhere.
func TestEvictHost(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.add("b", addr(1, 1), 2)
		pass(gap)
		j := w.want("a", 0)
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.EvictHost(short, "a"); !errors.Is(err, context.DeadlineExceeded) ||
			!w.Owns("a") {
			t.Errorf("EvictHost() during a job: %v, want DeadlineExceeded", err)
		}
		type result struct {
			at  time.Time
			err error
		}
		done := make(chan result)
		go func() {
			at, err := w.EvictHost(t.Context(), "a")
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
			t.Errorf("EvictHost() = now+%v, %v", time.Until(r.at), r.err)
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
		w.AdoptHost(h, r.at.Add(time.Minute))
		w.wantStats(2, 3, 0)
		if _, pending, _, _ := w.SubnetLoad(subnet(2)); pending != 1 {
			t.Errorf("%d URLs in the new subnet", pending)
		}
		w.finish(w.want("b", gap))
		w.finish(w.want("b", gap))
		w.finish(w.want("a", time.Minute-gap))
		if at, err := w.EvictHost(t.Context(), "unknown"); err != nil || !at.IsZero() {
			t.Errorf("EvictHost() of an unknown host = %v, %v", at, err)
		}
	})
}

// The last host of a subnet may leave and come back.
func TestEvictLastHost(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		if _, err := w.EvictHost(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		w.none(time.Hour)
		w.add("b", addr(1, 1), 1)
		w.finish(w.want("b", 0))
		w.Drop(subnet(1))
		w.wantStats(0, 0, 0)
	})
}

func TestDelayHost(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		w.DelayHost("a", time.Now().Add(time.Hour))
		w.DelayHost("a", time.Now())
		w.DelayHost("unknown", time.Now())
		w.finish(w.want("a", time.Hour))
	})
}

// Each host with work is returned once per interval.
func TestStaleHosts(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		for i := range byte(50) {
			w.add(string(rune('a'+i)), addr(i, 1), 1)
		}
		w.add("idle", addr(99, 1), 0)
		if got := w.StaleHosts(time.Now().Add(-time.Hour), 4); len(got) != 0 {
			t.Errorf("%q were returned just after they were added", got)
		}
		pass(2 * time.Hour)
		named := map[string]int{}
		for range 30 {
			for _, h := range w.StaleHosts(time.Now().Add(-time.Hour), 4) {
				named[h]++
			}
		}
		if len(named) != 50 || named["idle"] != 0 {
			t.Errorf("StaleHosts() returned %d hosts", len(named))
		}
		for h, n := range named {
			if n != 1 {
				t.Errorf("%s returned %d times, want 1", h, n)
			}
		}
		pass(2 * time.Hour)
		if got := w.StaleHosts(time.Now().Add(-time.Hour), 4); len(got) != 4 {
			t.Errorf("%d hosts returned again", len(got))
		}
	})
}

// TestRedirect verifies that a host that has answered at another address waits for that address's
// clock, and that nothing of its queue is lost.
func TestRedirect(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.add("b", addr(1, 2), 1)
		pass(gap)
		first, second := w.want("a", 0), w.want("b", 0)
		if first.Host != "a" {
			first, second = second, first
		}
		wantErr(t, w.Redirect(first, addr(1, 2)), nil)
		if _, a, ok := w.HostAddr("a"); !ok || a != addr(1, 2) {
			t.Errorf("HostAddr() = %v, %v, want %v", a, ok, addr(1, 2))
		}
		w.none(gap) // the address is being asked
		w.finish(second)
		j := w.want("a", gap)
		if j.Addr != addr(1, 2) || j.Entry.URL != first.Entry.URL {
			t.Errorf("got %s at %v, want %s at %v",
				j.Entry.URL, j.Addr, first.Entry.URL, addr(1, 2))
		}
		if err := w.Redirect(j, addr(2, 2)); err == nil {
			t.Error("Redirect() out of the subnet succeeded")
		}
		w.finish(w.want("a", 0)) // no request was sent
		w.finish(w.want("a", gap))
		w.wantStats(2, 0, 0)
	})
}

// TestRedirectOfLeavingHost verifies that a host that is being evicted keeps its address.
func TestRedirectOfLeavingHost(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		pass(gap)
		j := w.want("a", 0)
		gone := make(chan error)
		go func() {
			_, err := w.EvictHost(t.Context(), "a")
			gone <- err
		}()
		synctest.Wait()
		wantErr(t, w.Redirect(j, addr(1, 2)), nil)
		wantErr(t, <-gone, nil)
		err := w.db.View(func(tx *store.Tx) error {
			h, err := tx.Host("a")
			if err == nil && h.Addr != addr(1, 1) {
				t.Errorf("the stored address is %v, want %v", h.Addr, addr(1, 1))
			}
			return err
		})
		wantErr(t, err, nil)
	})
}
