package frontier_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"peerd/crawl/frontier"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gap = time.Second

// world is a frontier over a store in memory, in virtual time.
type world struct {
	*frontier.Frontier
	t  *testing.T
	db *store.DB
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open("", store.Options{
			InMemory: true, MemTable: 4 << 20, IndexCache: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		fn(t, newWorld(t, db, frontier.Config{Gap: gap}))
	})
}

func newWorld(t *testing.T, db *store.DB, cfg frontier.Config) world {
	t.Helper()
	cfg.DB = db
	f, err := frontier.New(cfg, func(netip.Prefix) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return world{f, t, db}
}

// addr is address b in subnet a; subnet is that subnet.
func addr(a, b byte) netip.Addr  { return netip.AddrFrom4([4]byte{10, 0, a, b}) }
func subnet(a byte) netip.Prefix { return store.SubnetOf(addr(a, 0)) }

func page(host string, i int) store.URL { return store.URL(fmt.Sprintf("http://%s/%d", host, i)) }

// add adds a host with n URLs.
func (w world) add(host string, at netip.Addr, n int) {
	w.t.Helper()
	if err := w.AddHost(host, store.SubnetOf(at), at, time.Time{}); err != nil {
		w.t.Fatal(err)
	}
	w.push(host, 0, n)
}

func (w world) push(host string, from, n int) {
	w.t.Helper()
	if err := w.tryPush(host, from, n); err != nil {
		w.t.Fatal(err)
	}
}

func (w world) tryPush(host string, from, n int) error {
	return w.Update([]string{host}, func(_ *store.Tx, push frontier.Push) error {
		for i := range n {
			if _, err := push(host, store.Entry{URL: page(host, from+i)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// next returns the next job and how long it took.
func (w world) next() (frontier.Job, time.Duration) {
	w.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(w.t.Context(), 24*time.Hour)
	defer cancel()
	j, err := w.Next(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return j, time.Since(begin)
}

// none fails the test if a job comes within d.
func (w world) none(d time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	if j, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		w.t.Fatalf("got job %s, %v; want none", j.Entry.URL, err)
	}
}

// want fails the test unless the next job belongs to host and comes after exactly d.
func (w world) want(host string, d time.Duration) frontier.Job {
	w.t.Helper()
	j, took := w.next()
	if j.Host != host || took != d {
		w.t.Fatalf("got a job of %s after %s, want %s after %s", j.Host, took, host, d)
	}
	return j
}

// finish removes a job's entry from the queue and releases the job.
func (w world) finish(j frontier.Job) {
	w.t.Helper()
	w.remove(j)
	w.Release(j, true, 0, 0)
}

func (w world) remove(j frontier.Job) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return tx.Remove(j.Host, j.Entry)
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w world) wantStats(hosts int, pending int64, inFlight int) {
	w.t.Helper()
	want := frontier.Stats{Hosts: hosts, Pending: pending, InFlight: inFlight}
	if got := w.Stats(); got != want {
		w.t.Fatalf("stats are %+v, want %+v", got, want)
	}
}

// pass waits for d.
func pass(d time.Duration) { <-time.After(d) }

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error is %v, want %v", got, want)
	}
}
