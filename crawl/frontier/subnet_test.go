package frontier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

func TestSetSerial(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.SetSerial(subnet(1), true) // before it has a host
		for i := range byte(3) {
			w.add(string('a'+rune(i)), addr(1, i), 1)
		}
		w.add("z", addr(2, 1), 1)
		first, took := w.next()
		if took != 0 {
			t.Errorf("first job after %s", took)
		}
		other, _ := w.next()
		if (first.Host == "z") == (other.Host == "z") {
			t.Errorf("jobs of %s and %s at once", first.Host, other.Host)
		}
		w.none(time.Minute)
		if first.Host == "z" {
			first, other = other, first
		}
		w.finish(first)
		second, took := w.next() // another address: no gap to keep
		if took != 0 {
			t.Errorf("second job after %s", took)
		}
		w.none(time.Minute)
		w.SetSerial(subnet(1), false)
		third, took := w.next()
		if took != 0 || third.Subnet != subnet(1) {
			t.Errorf("third job in %s after %s", third.Subnet, took)
		}
		for _, j := range []frontier.Job{second, third, other} {
			w.finish(j)
		}
	})
}

// Serialization that starts during several jobs waits for all of them.
func TestSetSerialLate(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		for i := range byte(3) {
			w.add(string('a'+rune(i)), addr(1, i), 2)
		}
		a, _ := w.next()
		b, _ := w.next()
		w.SetSerial(subnet(1), true)
		w.none(time.Minute)
		w.finish(a)
		w.none(time.Minute)
		w.Return(b, false)
		j, took := w.next()
		if took != 0 {
			t.Errorf("job after %s", took)
		}
		w.none(time.Minute)
		w.finish(j)
	})
}

func TestPause(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 5)
		w.add("b", addr(1, 2), 5)
		w.add("z", addr(2, 1), 0)
		j, _ := w.next()
		pushing, pushed := make(chan bool), make(chan bool)
		var wg sync.WaitGroup
		wg.Go(func() {
			err := w.Update([]string{"a", "z"}, func(_ *store.Tx, push frontier.Push) error {
				pushing <- true
				<-pushed
				_, err := push("a", store.Entry{URL: page("a", 20)})
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-pushing
		done := false
		wg.Go(func() {
			if err := w.Pause(t.Context(), subnet(1)); err != nil {
				t.Error(err)
			}
			done = true
		})
		synctest.Wait()
		if w.Owns("a") || w.Owns("b") || !w.Owns("z") {
			t.Error("owns what is paused, or not what is not")
		}
		wantErr(t, w.tryPush("b", 30, 1), frontier.ErrPaused)
		w.none(time.Minute)
		w.Release(j, false, 0, 0) // not finish: the push holds the store
		w.none(time.Minute)
		if done {
			t.Error("paused during a push")
		}
		pushed <- true
		wg.Wait()
		if !done {
			t.Error("not paused")
		}
		w.none(time.Minute)
		if hosts, pending, inFlight, _ := w.SubnetLoad(subnet(1)); hosts != 2 || pending != 11 ||
			inFlight != 0 {
			t.Errorf("SubnetLoad() = %d, %d, %d", hosts, pending, inFlight)
		}
		if err := w.Pause(t.Context(), subnet(1)); err != nil { // already paused
			t.Error(err)
		}
		w.Resume(subnet(1))
		w.push("b", 30, 1)
		for range 12 {
			j, _ := w.next()
			w.finish(j)
		}
		w.wantStats(3, 0, 0)
	})
}

func TestPauseCanceled(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		j, _ := w.next()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantErr(t, w.Pause(ctx, subnet(1)), context.DeadlineExceeded)
		w.push("a", 10, 1)
		w.finish(j)
		w.finish(w.want("a", gap))
	})
}

// A subnet may be paused before it has hosts, and stays paused when it gets some.
func TestPauseWithoutHosts(t *testing.T) {
	for _, stop := range []func(w world) error{
		func(w world) error { return w.Pause(w.t.Context(), subnet(1)) },
		func(w world) error { w.BeginPause(subnet(1)); return nil },
	} {
		bubble(t, func(t *testing.T, w world) {
			if err := stop(w); err != nil {
				t.Fatal(err)
			}
			if err := w.AddHost("a", subnet(1), addr(1, 1), time.Time{}); err != nil {
				t.Fatal(err)
			}
			wantErr(t, w.tryPush("a", 0, 1), frontier.ErrPaused)
			w.Resume(subnet(1))
			w.push("a", 0, 1)
			w.finish(w.want("a", 0))
		})
	}
}

func TestPauseDropped(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		j, _ := w.next()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.Pause(t.Context(), subnet(1)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		w.Drop(subnet(1))
		wg.Wait()
		w.finish(j)
		w.wantStats(0, 0, 0)
		w.add("a", addr(1, 1), 0) // is open
		w.push("a", 5, 1)
	})
}

func TestBeginPause(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		j, _ := w.next()
		w.BeginPause(subnet(1))
		wantErr(t, w.tryPush("a", 10, 1), frontier.ErrPaused)
		w.finish(j)
		w.none(time.Minute)
		w.Resume(subnet(1))
		w.finish(w.want("a", 0))
	})
}

// hostsOf reads a subnet's hosts as a handover leaves them in the store.
func (w world) hostsOf(i byte) []store.Host {
	w.t.Helper()
	var hs []store.Host
	err := w.db.View(func(tx *store.Tx) (err error) { hs, err = tx.HostsOf(subnet(i)); return err })
	if err != nil {
		w.t.Fatal(err)
	}
	return hs
}

func TestDropAndAdopt(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.add("b", addr(1, 2), 3)
		w.add("z", addr(2, 1), 1)
		w.SetSerial(subnet(1), true)
		if err := w.Pause(t.Context(), subnet(1)); err != nil {
			t.Fatal(err)
		}
		w.Drop(subnet(1))
		w.Drop(subnet(1))
		w.wantStats(1, 1, 0)
		wantErr(t, w.tryPush("a", 10, 1), frontier.ErrUnknownHost)
		w.finish(w.want("z", 0))
		w.none(time.Minute)

		at := time.Now().Add(7 * time.Second)
		w.Adopt(subnet(1), w.hostsOf(1), at)
		w.wantStats(3, 5, 0)
		if _, _, _, next := w.SubnetLoad(subnet(1)); !next.Equal(at) {
			t.Errorf("next at %s, want %s", next, at)
		}
		one, took := w.next()
		if took != 7*time.Second {
			t.Errorf("first job after %s", took)
		}
		two, took := w.next() // no longer serialized
		if took != 0 {
			t.Errorf("second job after %s", took)
		}
		w.finish(one)
		w.finish(two)
		w.Adopt(subnet(1), w.hostsOf(1), time.Time{}) // again: nothing is counted twice
		w.wantStats(3, 3, 0)
		w.Adopt(subnet(3), nil, time.Now())
		w.wantStats(3, 3, 0)
	})
}

// A host that belongs to another subnet is not adopted.
func TestAdoptKnownHost(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.Adopt(subnet(2), []store.Host{{Name: "a", Subnet: subnet(2), Addr: addr(2, 1),
			Queued: 2}}, time.Now())
		w.wantStats(1, 2, 0)
		w.want("a", 0)
		w.none(time.Minute)
	})
}

// Whatever happens to a subnet, an address gets no second request at once, and its gap is
// kept.
func TestDropInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 3)
		j := w.want("a", 0)
		w.Drop(subnet(1))
		w.wantStats(0, 0, 1)
		w.Adopt(subnet(1), w.hostsOf(1), time.Now())
		w.none(time.Minute)
		if err := w.Pause(t.Context(), subnet(1)); err != nil { // the job was another subnet's
			t.Fatal(err)
		}
		w.Resume(subnet(1))
		w.Release(j, false, 0, 0)
		w.wantStats(1, 3, 0)
		w.finish(w.want("a", gap))
		w.wantStats(1, 2, 0)

		j = w.want("a", gap)
		w.Drop(subnet(1))
		w.finish(j)
		w.wantStats(0, 0, 0)
		w.add("a", addr(1, 1), 0)
		w.finish(w.want("a", gap))
	})
}

func TestDropWhilePushing(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 0)
		err := w.Update([]string{"a"}, func(_ *store.Tx, push frontier.Push) error {
			w.Drop(subnet(1))
			_, err := push("a", store.Entry{URL: page("a", 1)})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		w.wantStats(0, 0, 0)
		w.add("a", addr(1, 1), 0)
		w.wantStats(1, 1, 0)
		w.finish(w.want("a", 0))
	})
}

func TestLoad(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		if hosts, pending, inFlight, next := w.SubnetLoad(subnet(9)); hosts != 0 || pending != 0 ||
			inFlight != 0 || !next.IsZero() {
			t.Errorf("SubnetLoad() of an unknown subnet = %d, %d, %d, %s",
				hosts, pending, inFlight, next)
		}
		w.add("a", addr(1, 1), 3)
		w.add("b", addr(1, 2), 1)
		j, _ := w.next()
		if hosts, pending, inFlight, _ := w.SubnetLoad(subnet(1)); hosts != 2 || pending != 4 ||
			inFlight != 1 {
			t.Errorf("SubnetLoad() = %d, %d, %d", hosts, pending, inFlight)
		}
		w.Release(j, false, 0, time.Minute)
		if _, _, _, next := w.SubnetLoad(subnet(1)); !next.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("next at %s", next)
		}
	})
}

func TestHostList(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 2)
		w.add("b", addr(1, 1), 2)
		w.add("c", addr(2, 1), 0)
		j := w.want("a", 0)
		list := func() []frontier.HostStats {
			rows := w.HostList()
			slices.SortFunc(rows, func(a, b frontier.HostStats) int {
				return strings.Compare(a.Name, b.Name)
			})
			return rows
		}
		start := time.Time{}
		want := []frontier.HostStats{
			{Name: "a", Subnet: subnet(1), Pending: 2, InFlight: true, NextAt: start},
			{Name: "b", Subnet: subnet(1), Pending: 2, NextAt: start},
			{Name: "c", Subnet: subnet(2), NextAt: start},
		}
		if got := list(); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		w.remove(j)
		w.Release(j, true, 0, time.Minute)
		want[0].InFlight, want[0].Pending = false, 1
		want[0].NextAt, want[1].NextAt = time.Now().Add(time.Minute), time.Now().Add(gap)
		if got := list(); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// Update returns the store's error if a host record cannot be written.
func TestUpdateStoreError(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a", addr(1, 1), 0)
		if err := w.db.DropHost("a"); err != nil {
			t.Fatal(err)
		}
		if err := w.tryPush("a", 0, 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Update() = %v, want the error of the store", err)
		}
		w.wantStats(1, 0, 0)
	})
}
