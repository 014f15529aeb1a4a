package handover

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/store"
)

var large = flag.Int("large", 0,
	"URLs of a subnet to hand over while it is crawled, to measure it; skipped without it")

// TestLarge measures: go test ./overlay/handover -run Large -v -args -large 1000000
func TestLarge(t *testing.T) {
	t.Parallel()
	n := *large
	if n == 0 {
		t.Skip("skipped without -large")
	}
	a, b := pair(t)
	o, he := newOwner(t, open(t, t.TempDir()), a), &fakeSuccessor{db: open(t, t.TempDir())}
	serve(t, b, he)
	began := time.Now()
	names := plantLarge(t, o.db, n)
	t.Logf("planted %d URLs in %v", n, time.Since(began).Round(time.Millisecond))

	crawling, stop := context.WithCancel(t.Context())
	var pages atomic.Int64
	done := make(chan error, 1)
	go func() { done <- crawlLarge(crawling, o.db, names, &pages) }()
	memory := sampled(t)
	began = time.Now()
	if err := o.s.prepare(t.Context(), b.ID(), Offer{Subnet: subnet, Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	took, fetched := time.Since(began), pages.Load()
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	if _, err := o.s.Send(t.Context(), b.ID(), Offer{Subnet: subnet, Epoch: 2},
		func() ([]byte, error) {
			return []byte("grant"), nil
		}); err != nil {
		t.Fatal(err)
	}
	pause := time.Since(paused)
	t.Logf("prepared in %v: %.0f URLs/s, while %d pages were committed (%.0f/s)",
		took.Round(time.Millisecond),
		float64(n)/took.Seconds(), fetched, float64(fetched)/took.Seconds())
	t.Logf("paused for %v", pause.Round(time.Millisecond))
	t.Logf("memory of both peers: %s", memory())
	if pause > 5*time.Second {
		t.Errorf("the subnet was paused for %v, want 5s or less", pause)
	}
	want, got := tally(t, o.db, names), tally(t, he.db, names)
	if want != got {
		t.Errorf("the successor has %v, want %v", got, want)
	}
}

// plantLarge queues n URLs at ten hosts.
func plantLarge(t *testing.T, db *store.DB, n int) (names []string) {
	t.Helper()
	for i := range 10 {
		name := fmt.Sprintf("h%d.test", i)
		names = append(names, name)
		update(t, db, func(tx *store.Tx) error {
			tx.PutHost(store.Host{Name: name, Subnet: subnet, Addr: subnet.Addr().Next()})
			return nil
		})
		for j := 0; j < n/10; j += 1000 {
			update(t, db, func(tx *store.Tx) error {
				for k := range 1000 {
					u := store.URL(fmt.Sprintf("http://%s/some/path/of/a/site/page-%d.html?id=%d",
						name, j+k, k))
					if _, err := tx.Push(name, store.Entry{URL: u, Depth: k % 5}, 0); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return names
}

// crawlLarge commits pages, some hundred a second, each with five new links and one to
// elsewhere.
func crawlLarge(ctx context.Context, db *store.DB, names []string, pages *atomic.Int64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		name := names[i%len(names)]
		err := db.Batch(func(tx *store.Tx) error {
			e, err := tx.Peek(name)
			if err != nil {
				return err
			}
			for k := range 5 {
				if _, err := tx.Push(name,
					store.Entry{URL: store.URL(fmt.Sprintf("http://%s/new/%d/%d", name, i, k)),
						Depth: 6}, 0); err != nil {
					return err
				}
			}
			_, err = tx.AddPending(
				store.Pending{URL: store.URL(fmt.Sprintf("http://else.test/%d", i)), From: name,
					Found: time.Now()})
			return errors.Join(err, tx.Remove(name, e),
				tx.PutVisit(store.Visit{URL: e.URL, Due: time.Now().Add(time.Hour)}))
		})
		if err != nil {
			return err
		}
		pages.Add(1)
	}
}

// sampled returns a function that reports the memory of the process before and after, and
// the largest heap in between.
func sampled(t *testing.T) func() string {
	before := status(t)
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		most := uint64(0)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- most
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	return func() string {
		close(stop)
		return fmt.Sprintf("%s before, %s after; heap at most %d MiB", before, status(t),
			<-done>>20)
	}
}

func status(t *testing.T) string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "VmRSS") ||
			strings.HasPrefix(line, "RssAnon") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}

// tally counts entries of queues, seen URLs and visits.
func tally(t *testing.T, db *store.DB, names []string) (n [3]int) {
	t.Helper()
	err := db.View(func(tx *store.Tx) error {
		for _, name := range names {
			err := errors.Join(
				tx.Queue(name, nil, func(store.Entry) (bool, error) { n[0]++; return true, nil }),
				tx.SeenDigests(name, nil, func(store.Digest) (bool, error) {
					n[1]++
					return true, nil
				}),
				tx.Visits(name, nil, func(store.Visit) (bool, error) { n[2]++; return true, nil }))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
