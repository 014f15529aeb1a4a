package frontier_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

func TestGap(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 4)
		j := w.want("a", 0)
		w.none(time.Minute) // however long the request takes
		w.finish(j)
		j = w.want("a", gap)
		w.remove(j)
		w.Release(j, true, 5*gap, 0) // a crawl delay
		j = w.want("a", 5*gap)
		w.remove(j)
		w.Release(j, true, gap/2, 0) // less than the minimum
		w.finish(w.want("a", gap))
		w.none(time.Minute)
		w.wantStats(1, 0, 0)
	})
}

func TestGapIsPartlyOver(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.finish(w.want("a", 0))
		pass(gap / 4)
		w.finish(w.want("a", gap-gap/4))
	})
}

func TestAddressesApart(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		w.add("b", addr(1, 2), 1)
		w.add("c", addr(2, 1), 1)
		jobs := []frontier.Job{}
		for range 3 {
			j, took := w.next()
			if took != 0 {
				t.Errorf("%s came after %s", j.Host, took)
			}
			jobs = append(jobs, j)
		}
		w.wantStats(3, 0, 3)
		for _, j := range jobs {
			w.finish(j)
		}
	})
}

// Hosts at one address take turns, and the gap belongs to the address.
func TestTurns(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		for _, h := range []string{"a", "b", "c"} {
			w.add(h, addr(1, 1), 2)
		}
		w.push("a", 10, 5)
		var order []string
		for i := range 11 {
			j, took := w.next()
			if want := min(gap, time.Duration(i)*gap); took != want {
				t.Errorf("job %d came after %s, want %s", i, took, want)
			}
			w.none(time.Minute) // no other host at this address
			order = append(order, j.Host)
			w.finish(j)
		}
		want := []string{"a", "b", "c", "a", "b", "c", "a", "a", "a", "a", "a"}
		if !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
	})
}

// Two names of one address are one machine, in whatever form the address is written.
func TestMappedAddress(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		w.add("b", netip.AddrFrom16(addr(1, 1).As16()), 1)
		j := w.want("a", 0)
		w.none(time.Minute)
		w.finish(j)
		j = w.want("b", gap)
		if j.Addr != addr(1, 1) || j.Subnet != subnet(1) {
			t.Errorf("job at %s in %s", j.Addr, j.Subnet)
		}
		w.finish(j)
	})
}

func TestHostWait(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.add("b", addr(1, 1), 4)
		w.Release(w.want("a", 0), false, 0, 3*gap)
		w.finish(w.want("b", gap))
		w.finish(w.want("b", gap))
		w.finish(w.want("a", gap)) // over: its turn again
		w.finish(w.want("b", gap))
		w.Release(w.want("a", gap), false, 0, time.Minute)
		w.finish(w.want("b", gap))
		w.finish(w.want("a", time.Minute-gap)) // the only one left
		w.wantStats(2, 0, 0)
	})
}

func TestOrderInHost(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 0)
		depths := []int{2, 0, 1, 0, 2, 1}
		err := w.Update([]string{"a"}, func(_ *store.Tx, push frontier.Push) error {
			for i, d := range depths {
				if ok, err := push("a", store.Entry{URL: page("a", i), Depth: d}); err != nil ||
					!ok {
					return errors.Join(err, errors.New("not new"))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{1, 3, 2, 5, 0, 4} {
			j, _ := w.next()
			if j.Entry.URL != page("a", i) || j.Entry.Depth != depths[i] {
				t.Errorf("got %+v, want %d", j.Entry, i)
			}
			w.finish(j)
		}
	})
}

func TestReturn(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.finish(w.want("a", 0))
		pass(gap)
		j := w.want("a", 0)
		w.Return(j, false)
		w.wantStats(1, 1, 0)
		again := w.want("a", 0) // at once, and the same
		if again.Entry.URL != j.Entry.URL {
			t.Errorf("got %s, want %s", again.Entry.URL, j.Entry.URL)
		}
		w.remove(again)
		w.Return(again, true)
		w.wantStats(1, 0, 0)
		w.push("a", 10, 1)
		w.finish(w.want("a", 0))
	})
}

// A job that is not done comes again, after the others if it was requeued.
func TestNotDone(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		j := w.want("a", 0)
		w.Release(j, false, 0, 0)
		if j = w.want("a", gap); j.Entry.URL != page("a", 0) {
			t.Errorf("got %s", j.Entry.URL)
		}
		if err := w.db.Update(func(tx *store.Tx) error {
			return tx.Requeue("a", j.Entry)
		}); err != nil {
			t.Fatal(err)
		}
		w.Release(j, false, 0, 0)
		for _, i := range []int{1, 0} {
			if j = w.want("a", gap); j.Entry.URL != page("a", i) {
				t.Errorf("got %s, want %d", j.Entry.URL, i)
			}
			w.finish(j)
		}
		w.wantStats(1, 0, 0)
	})
}

// All waiting callers are served, one each, and a push wakes a waiting one.
func TestWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		const n = 64
		for i := range byte(n) {
			w.add(string('a'+rune(i)), addr(i, 1), 0)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan frontier.Job, n)
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				j, err := w.Next(ctx)
				if err == nil {
					got <- j
				}
			})
		}
		synctest.Wait()
		for i := range n / 2 {
			w.push(string('a'+rune(i)), 0, 2)
		}
		synctest.Wait()
		if len(got) != n/2 {
			t.Errorf("%d callers were served, want %d", len(got), n/2)
		}
		cancel()
		wg.Wait()
		w.wantStats(n, n/2, n/2)
		close(got)
		for j := range got {
			w.finish(j)
		}
	})
}

// If the leader gives up, another caller replaces it.
func TestLeaderGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.finish(w.want("a", 0))
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.Next(first)
			wantErr(t, err, context.Canceled)
		})
		synctest.Wait()
		begin := time.Now()
		wg.Go(func() {
			j, err := w.Next(t.Context())
			if err != nil || time.Since(begin) != gap {
				t.Errorf("after %s: %v", time.Since(begin), err)
			}
			w.finish(j)
		})
		synctest.Wait()
		pass(gap / 2)
		cancel()
		wg.Wait()
		_, err := w.Next(first) // ended before it began
		wantErr(t, err, context.Canceled)
	})
}

// A counter that is ahead of the queue does no harm.
func TestCountAhead(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		err := w.db.Update(func(tx *store.Tx) error {
			for range 2 {
				e, err := tx.Peek("a")
				if err != nil {
					return err
				}
				if err := tx.Remove("a", e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.none(time.Minute)
		w.wantStats(1, 0, 0)
		w.push("a", 10, 1)
		w.finish(w.want("a", 0))
	})
}

func TestStoreFails(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 1)
		if err := w.db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Next(t.Context()); err == nil {
			t.Error("a job from a closed store")
		}
		w.none(gap / 2) // not needed now
		if err := w.tryPush("a", 1, 1); err == nil {
			t.Error("pushed into a closed store")
		}
		w.wantStats(1, 1, 0)
		if _, err := frontier.New(frontier.Config{DB: w.db}, func(netip.Prefix) bool {
			return true
		}); err == nil {
			t.Error("a frontier over a closed store")
		}
		if err := w.AddHost("b", subnet(1), addr(1, 1), time.Time{}); err == nil {
			t.Error("a host in a closed store")
		}
	})
}

func TestUpdate(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 0)
		w.add("b", addr(1, 2), 0)
		called := func(*store.Tx, frontier.Push) error { t.Error("called"); return nil }
		wantErr(t, w.Update([]string{"a", "unknown"}, called), frontier.ErrUnknownHost)

		stop := errors.New("stop")
		wantErr(t, w.Update([]string{"a"}, func(_ *store.Tx, push frontier.Push) error {
			_, err := push("a", store.Entry{URL: page("a", 1)})
			return errors.Join(err, stop)
		}), stop)
		w.wantStats(2, 0, 0)

		if err := w.Update([]string{"a"}, func(_ *store.Tx, push frontier.Push) error {
			_, err := push("b", store.Entry{URL: page("b", 1)})
			return err
		}); err == nil || errors.Is(err, frontier.ErrUnknownHost) {
			t.Errorf("push to a host that Update was not given: %v", err)
		}
		w.wantStats(2, 0, 0)
		w.none(time.Minute)

		// Named twice, pushed twice, counted once.
		if err := w.Update([]string{"a", "a", "b"}, func(_ *store.Tx, push frontier.Push) error {
			_, err := push("a", store.Entry{URL: page("a", 1)})
			_, err2 := push("a", store.Entry{URL: page("a", 1)})
			return errors.Join(err, err2)
		}); err != nil {
			t.Fatal(err)
		}
		w.wantStats(2, 1, 0)
		w.finish(w.want("a", 0))
		if err := w.Pause(t.Context(), subnet(1)); err != nil { // no update is left open
			t.Error(err)
		}
		if err := w.Update(nil, func(*store.Tx, frontier.Push) error { return nil }); err != nil {
			t.Error(err) // an Update of no host is a plain transaction
		}
	})
}

func TestHostLimit(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w = newWorld(t, w.db, frontier.Config{HostLimit: 3})
		w.add("a", addr(1, 1), 5)
		w.wantStats(1, 3, 0)
		for range 3 {
			w.finish(w.want("a", 0))
		}
		w.none(time.Minute)
		w.push("a", 10, 1)
		w.wantStats(1, 0, 0)
	})
}

// TestAddHostLater verifies that a host that was connected to before it was added waits, and the
// others at its address if that was not known; and that hosts at a known address do not.
func TestAddHostLater(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		add := func(name string, at netip.Addr) {
			if err := w.AddHost(name, subnet(1), at, time.Now().Add(gap)); err != nil {
				t.Fatal(err)
			}
			w.push(name, 0, 1)
		}
		add("a", addr(1, 1))
		w.add("b", addr(1, 1), 2)
		w.none(gap - 1)
		w.want("a", 1)
		w.add("c", addr(1, 2), 1)
		add("d", addr(1, 2))
		w.finish(w.want("c", 0))
		w.finish(w.want("d", gap))
	})
}

func TestAddHost(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 3)
		if err := w.AddHost("a", subnet(2), addr(2, 1), time.Time{}); err != nil { // unchanged
			t.Fatal(err)
		}
		w.wantStats(1, 3, 0)
		if j := w.want("a", 0); j.Addr != addr(1, 1) || j.Subnet != subnet(1) {
			t.Errorf("job at %s in %s", j.Addr, j.Subnet)
		} else {
			w.finish(j)
		}
		for _, a := range []netip.Addr{addr(2, 1), {}} {
			if err := w.AddHost("b", subnet(1), a, time.Time{}); err == nil {
				t.Errorf("AddHost() accepted %v in %s", a, subnet(1))
			}
		}
		if w.Owns("b") || !w.Owns("a") {
			t.Error("owns what it does not")
		}
		// A host that only the store knows keeps its queue.
		w.Drop(subnet(1))
		w.wantStats(0, 0, 0)
		w.add("a", addr(3, 1), 0)
		w.wantStats(1, 2, 0)
		if j := w.want("a", gap); j.Addr != addr(3, 1) { // the gap goes with the host
			t.Errorf("job at %s", j.Addr)
		}
	})
}

func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 3)
		w.add("b", addr(1, 1), 1)
		w.add("c", addr(2, 1), 7)
		w.finish(w.want("a", 0))
		_, _ = w.next() // in progress when the peer is killed

		live := func(p netip.Prefix) bool { return p == subnet(1) }
		f, err := frontier.New(frontier.Config{DB: w.db, Gap: gap}, live)
		if err != nil {
			t.Fatal(err)
		}
		w.Frontier = f
		w.wantStats(2, 3, 0)
		if w.Owns("c") {
			t.Error("owns a host of a subnet that is not live")
		}
		w.finish(w.want("a", gap)) // the time of the last request is not known
		w.finish(w.want("b", gap))
		w.finish(w.want("a", gap))
		w.wantStats(2, 0, 0)
	})
}

func TestWorkerWait(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 200)
		if d := w.WorkerWait(); d != 0 {
			t.Errorf("WorkerWait() = %s before the first job, want 0", d)
		}
		for range 100 { // each worker is two seconds late
			pass(gap + 2*time.Second)
			w.finish(w.want("a", 0))
		}
		if d := w.WorkerWait(); d < 1900*time.Millisecond || d > 2*time.Second+gap {
			t.Errorf("WorkerWait() = %s, want about 2s", d)
		}
		for range 100 { // in time
			w.finish(w.want("a", gap))
			_ = w.WorkerWait()
		}
		if d := w.WorkerWait(); d != 0 {
			t.Errorf("WorkerWait() = %s with nothing queued, want 0", d)
		}
	})
}
