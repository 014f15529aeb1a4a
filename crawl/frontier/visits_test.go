package frontier_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

func (w world) putVisit(u store.URL, due time.Time) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return tx.PutVisit(store.Visit{URL: u, Due: due})
	}); err != nil {
		w.t.Fatal(err)
	}
}

// pushAgain queues a revisit and reports whether it was new.
func (w world) pushAgain(host string, i, depth int) (fresh bool) {
	w.t.Helper()
	err := w.Update([]string{host}, func(_ *store.Tx, push frontier.Push) (err error) {
		fresh, err = push(host, store.Entry{URL: page(host, i), Depth: depth,
			Kind: store.KindRevisit})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return fresh
}

// A seen page can be queued again, but only once at a time.
func TestRevisit(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a.example", addr(1, 1), 1)
		j, _ := w.next()
		w.finish(j)
		w.push("a.example", 0, 1) // seen
		w.wantStats(1, 0, 0)
		if !w.pushAgain("a.example", 0, 2) || w.pushAgain("a.example", 0, 2) {
			t.Error("not queued once")
		}
		w.wantStats(1, 1, 0)
		if j, _ = w.next(); !j.Entry.Kind.Revisit() || w.pushAgain("a.example", 0, 2) {
			t.Error("queued again during its fetch")
		}
		w.finish(j)
		w.wantStats(1, 0, 0)
		if !w.pushAgain("a.example", 0, 2) {
			t.Error("not queued after it was over")
		}
	})
}

func TestDue(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		now := time.Now()
		w.add("a.example", addr(1, 1), 0)
		want := func(what string, hosts ...string) {
			t.Helper()
			if got := w.Due(now); !slices.Equal(got, hosts) {
				t.Errorf("%s: Due() = %v, want %v", what, got, hosts)
			}
		}
		want("at first")
		w.SetDue("unknown.example", now, true)
		w.SetDue("a.example", now.Add(time.Hour), true)
		want("in an hour")
		w.SetDue("a.example", now, true)
		w.SetDue("a.example", now.Add(2*time.Hour), true)
		want("the sooner counts", "a.example")
		w.SetDue("a.example", time.Time{}, false)
		want("never")
		// A page becomes due while the host is being checked.
		w.SetDue("a.example", now, true)
		want("again", "a.example")
		w.SetDue("a.example", now, true)
		w.SetDue("a.example", time.Time{}, false)
		want("one that came meanwhile", "a.example")
		w.BeginPause(subnet(1))
		want("paused")
		w.Resume(subnet(1))
		want("open", "a.example")
		w.putVisit(page("a.example", 1), now.Add(-time.Minute))
		w.Frontier = newWorld(t, w.db, frontier.Config{Gap: gap}).Frontier
		want("after a restart", "a.example")
	})
}

// removeAll removes all entries of a job's host from the queue, and ends the job.
func (w world) removeAll(j frontier.Job) (n int64) {
	w.t.Helper()
	err := w.db.Update(func(tx *store.Tx) error {
		var all []store.Entry
		err := tx.Queue(j.Host, nil, func(e store.Entry) (bool, error) {
			all = append(all, e)
			return true, nil
		})
		for _, e := range all {
			err = errors.Join(err, tx.Remove(j.Host, e))
		}
		n = int64(len(all))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Removed(j, n)
	w.Release(j, false, 0, 0)
	return n
}

// A host with a queue that was emptied during a job hands out only what is queued later.
func TestRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a.example", addr(1, 1), 130)
		if a, b := w.Queued("a.example"), w.Queued("b.example"); a != 130 || b != 0 {
			t.Errorf("Queued() = %d, and %d of an unknown host, want 130 and 0", a, b)
		}
		j := w.want("a.example", 0)
		w.finish(j) // the next ones have been read ahead
		j = w.want("a.example", gap)
		if n := w.removeAll(j); n != 129 {
			t.Fatalf("%d removed, want 129", n)
		}
		w.wantStats(1, 0, 0)
		if n := w.Queued("a.example"); n != 0 {
			t.Errorf("Queued() = %d, want 0", n)
		}
		w.push("a.example", 0, 10) // seen
		w.push("a.example", 5000, 1)
		if j = w.want("a.example", gap); j.Entry.URL != page("a.example", 5000) {
			t.Errorf("got job %s, want the URL queued last", j.Entry.URL)
		}
		w.finish(j)
		w.wantStats(1, 0, 0)
	})
}

// A host is left alone until its retry time, which can be cleared and survives a restart.
func TestRetryAt(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a.example", addr(1, 1), 3)
		j := w.want("a.example", 0)
		w.SetRetryAt("a.example", time.Now().Add(time.Minute))
		w.Release(j, false, 0, 0)
		j = w.want("a.example", time.Minute)
		w.SetRetryAt("a.example", time.Now().Add(time.Hour))
		w.Release(j, false, 0, 0)
		w.SetRetryAt("a.example", time.Time{})
		j = w.want("a.example", gap)
		w.Release(j, false, 0, 0)
		err := w.db.Update(func(tx *store.Tx) error {
			h, err := tx.Host("a.example")
			h.Health.NextTry = time.Now().Add(2 * time.Minute)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Frontier = newWorld(t, w.db, frontier.Config{Gap: gap}).Frontier
		w.want("a.example", 2*time.Minute)
	})
}

// An entry that was tried before is queued although its URL was seen.
func TestPushAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add("a.example", addr(1, 1), 1)
		w.finish(w.want("a.example", 0))
		err := w.Update([]string{"a.example"}, func(_ *store.Tx, push frontier.Push) error {
			ok, err := push("a.example", store.Entry{URL: page("a.example", 0), First: time.Now()})
			if !ok {
				t.Error("push of an entry with First = false, want true")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.finish(w.want("a.example", gap))
		w.wantStats(1, 0, 0)
	})
}

func TestAdmit(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		asked := map[store.URL]int{}
		epochs := map[uint64]bool{}
		w.Frontier = newWorld(t, w.db, frontier.Config{Gap: gap, HostLimit: 4,
			Node: node{admit: func(_ *store.Tx, e store.Entry, epoch uint64) (string, error) {
				asked[e.URL]++
				epochs[epoch] = true
				if strings.HasSuffix(string(e.URL), "/1") {
					return "odd", nil
				}
				return "", nil
			}}}).Frontier
		w.add("a.example", addr(1, 1), 3)
		errOnce := errors.New("once")
		err := w.Update([]string{"a.example"}, func(_ *store.Tx, push frontier.Push) error {
			_, err := push("a.example", store.Entry{URL: page("a.example", 3)})
			return errors.Join(err, errOnce)
		})
		wantErr(t, err, errOnce)
		w.push("a.example", 0, 20)
		w.wantStats(1, 4, 0)
		if c := w.db.Counters(); c.Dropped != 1+15 || w.db.NamedCounters()["odd"] != 1 {
			t.Errorf("dropped %d, %v", c.Dropped, w.db.NamedCounters())
		}
		for u, n := range asked {
			if n != 1 && u != page("a.example", 3) {
				t.Errorf("Admit called for %s %d times, want 1", u, n)
			}
		}
		if len(asked) != 5 {
			t.Errorf("Admit called for %v, beyond the limit", asked)
		}
		w.Drop(subnet(1))
		w.Adopt(subnet(1), w.hostsOf(1), time.Now())
		if err := w.db.Update(func(tx *store.Tx) error {
			h, err := tx.Host("a.example")
			if err == nil {
				h.Known = 0
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		w.push("a.example", 100, 1)
		if len(epochs) != 2 {
			t.Errorf("epochs %v", epochs)
		}
	})
}

// Both classes get their share while both have work; one alone gets everything.
func TestShares(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.Frontier = newWorld(t, w.db,
			frontier.Config{Gap: 0, Shares: frontier.Shares{Own: 1, Assigned: 3}}).Frontier
		var adopted []store.Host
		for i := range byte(8) {
			w.add("own"+string('a'+rune(i)), addr(1, i), 40)
			h := store.Host{Name: "given" + string('a'+rune(i)), Subnet: subnet(2),
				Addr: addr(2, i), Assigned: true}
			if err := w.db.Update(func(tx *store.Tx) error {
				tx.PutHost(h)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			adopted = append(adopted, h)
		}
		w.Adopt(subnet(2), adopted, time.Now())
		for _, h := range adopted {
			w.push(h.Name, 0, 40)
		}
		given := 0
		for range 400 {
			j, _ := w.next()
			if j.Subnet == subnet(2) {
				given++
			}
			w.finish(j)
		}
		if given < 299 || given > 301 {
			t.Errorf("%d of 400 jobs, want 300", given)
		}
		for w.Stats().Pending > 0 { // 20 of one class are left, then none
			j, took := w.next()
			if took != 0 {
				t.Errorf("got a job of %s after %v", j.Host, took)
			}
			w.finish(j)
		}
	})
}

func TestFetchWait(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		opens := time.Now().Add(150 * time.Minute)
		w.Frontier = newWorld(t, w.db,
			frontier.Config{Gap: gap, Node: node{wait: func(now time.Time) time.Duration {
				return opens.Sub(now)
			}}}).Frontier
		w.add("a.example", addr(1, 1), 2)
		j := w.want("a.example", 150*time.Minute)
		if d := w.WorkerWait(); d > time.Second {
			t.Errorf("WorkerWait() = %v, want closed hours left out", d)
		}
		w.finish(j)
		w.want("a.example", gap)
	})
}

// A wait that became shorter ends at once, and later ones for a worker count.
func TestFetchWaitChanged(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		var open atomic.Bool
		w.Frontier = newWorld(t, w.db,
			frontier.Config{Gap: gap, Node: node{wait: func(time.Time) time.Duration {
				if open.Load() {
					return 0
				}
				return 10 * time.Hour
			}}}).Frontier
		w.add("a.example", addr(1, 1), 3)
		go func() {
			pass(10 * time.Minute)
			open.Store(true)
			w.FetchWaitChanged()
		}()
		w.finish(w.want("a.example", 10*time.Minute))
		pass(time.Hour)
		w.want("a.example", 0)
		if d := w.WorkerWait(); d < time.Minute {
			t.Errorf("WorkerWait() = %v after an hour without a worker", d)
		}
	})
}

// node is a frontier.Node; what is nil is that of a Config without Node.
type node struct {
	left  func(host string)
	wait  func(time.Time) time.Duration
	admit func(*store.Tx, store.Entry, uint64) (string, error)
}

func (n node) Left(host string) {
	if n.left != nil {
		n.left(host)
	}
}

func (n node) FetchWait(now time.Time) time.Duration {
	if n.wait == nil {
		return 0
	}
	return n.wait(now)
}

func (n node) Admit(tx *store.Tx, e store.Entry, epoch uint64) (string, error) {
	if n.admit == nil {
		return "", nil
	}
	return n.admit(tx, e, epoch)
}
