package store

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// together calls Batch n times concurrently, so that all calls wait for one transaction.
func together(t *testing.T, d *DB, n int, fn func(i int) func(*Tx) error) []error {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	update(t, d, func(*Tx) error {
		for i := range n {
			wg.Go(func() { errs[i] = d.Batch(fn(i)) })
		}
		for all := false; !all; runtime.Gosched() {
			d.bmu.Lock()
			all = len(d.calls) == n
			d.bmu.Unlock()
		}
		return nil
	})
	wg.Wait()
	return errs
}

var errOwn = errors.New("own")

// A function that fails does not affect the others, and each of them counts once.
func TestBatchFails(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 0)
	const n = 3*maxBatch + 5
	ran := make([]int, n)
	errs := together(t, d, n, func(i int) func(*Tx) error {
		return func(tx *Tx) error {
			ran[i]++
			tx.Count(Counters{Pages: 1})
			tx.CountNamed("x", 1)
			if _, err := tx.Push(host, Entry{URL: page(host, i)}, 0); err != nil {
				return err
			}
			if i%10 == 3 {
				return errOwn
			}
			return nil
		}
	})
	var want int64
	for i, err := range errs {
		if i%10 != 3 {
			want++
		}
		if (i%10 == 3) != errors.Is(err, errOwn) || err != nil && i%10 != 3 {
			t.Errorf("caller %d: Batch() = %v, want an error: %v", i, err, i%10 == 3)
		}
		if ran[i] < 1 || ran[i] > 3 {
			t.Errorf("function of caller %d ran %d times, want 1 to 3", i, ran[i])
		}
	}
	got := queue(t, d, host)
	if c := d.Counters(); int64(len(got)) != want || c.Pages != want || c.Seen != want ||
		d.NamedCounters()["x"] != want {
		t.Errorf("queue has %d entries, Counters() = %+v, NamedCounters() = %v, want %d of each",
			len(got), c, d.NamedCounters(), want)
	}
	for _, e := range got {
		if errs[indexOf(e.URL)] != nil {
			t.Errorf("queue contains %s, but its caller failed", e.URL)
		}
	}
}

func indexOf(u URL) (i int) {
	_, _ = fmt.Sscanf(string(u), "http://"+host+"/%d", &i)
	return i
}

// Functions that do not fit into one transaction run in several. One that fits into none
// fails alone.
func TestBatchSizes(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), small)
	addHost(t, d, longHost, 0)
	sizes := []int{10, 800, 700, 10, 20_000, 10, 900, 900, 10, 600}
	ran := make([]int, len(sizes))
	errs := together(t, d, len(sizes), func(i int) func(*Tx) error {
		return func(tx *Tx) error {
			ran[i]++
			for j := range sizes[i] {
				if _, err := tx.Push(longHost, Entry{URL: longURL(longHost, 100_000*i+j, 380)},
					0); err != nil {
					return err
				}
			}
			return nil
		}
	})
	want := 0
	for i, n := range sizes {
		if n > 1000 {
			if errs[i] == nil {
				t.Error("Batch() beyond the limits succeeded, want an error")
			}
			continue
		}
		want += n
		if errs[i] != nil || ran[i] > 2 {
			t.Errorf("caller %d: Batch() = %v after %d runs, want nil after at most 2", i,
				errs[i], ran[i])
		}
	}
	if n := len(queue(t, d, longHost)); n != want {
		t.Errorf("queue has %d entries, want %d", n, want)
	}
}

// A function that does not return ends the goroutine that runs it. The other callers do
// not wait forever.
func TestBatchPanics(t *testing.T) {
	t.Parallel()
	d := memory(t)
	panicked := 0
	var mu sync.Mutex
	errs := together(t, d, 9, func(i int) func(*Tx) error {
		return func(tx *Tx) error {
			if i == 4 {
				defer func() { mu.Lock(); panicked++; mu.Unlock() }()
				runtime.Goexit() // as t.FailNow does
			}
			return tx.PutMeta(fmt.Sprint(i), i)
		}
	})
	aborted := 0
	for i, err := range errs {
		var v int
		merr := d.View(func(tx *Tx) error { return tx.Meta(fmt.Sprint(i), &v) })
		switch {
		case errors.Is(err, errAborted):
			aborted++
			wantErr(t, merr, ErrNotFound)
		case err != nil:
			t.Error(err)
		}
	}
	if panicked == 0 {
		t.Error("the function did not run")
	}
	update(t, d, func(tx *Tx) error { return tx.PutMeta("after", 1) })
	if err := d.Batch(func(tx *Tx) error { return tx.PutMeta("after", 2) }); err != nil {
		t.Error(err)
	}
}

func TestBatchClosed(t *testing.T) {
	t.Parallel()
	d, err := openOn(t, "", Options{InMemory: true, MemTable: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Batch(func(*Tx) error { return nil }); err == nil {
		t.Error("Batch() on a closed store succeeded, want an error")
	}
}

// BenchmarkBatch stores a small page (20 links) per operation, on disk. Compare pages/s
// between numbers of callers, and with Update.
func BenchmarkBatch(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		for name, commit := range map[string]func(*DB,
			func(*Tx) error) error{"update": (*DB).Update, "batch": (*DB).Batch} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				d := open(b, b.TempDir(), Options{})
				addHost(b, d, host, 0)
				next := make(chan int, b.N)
				for i := range b.N {
					next <- i
				}
				close(next)
				b.ResetTimer()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for i := range next {
							if err := commit(d, func(tx *Tx) error {
								return pushMany(tx, i, 20)
							}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
			})
		}
	}
}

func pushMany(tx *Tx, i, n int) error {
	tx.Count(Counters{Pages: 1})
	for j := range n {
		if _, err := tx.Push(host, Entry{URL: page(host, n*i+j)}, 0); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkDropHost shows that the time per URL does not depend on their number.
func BenchmarkDropHost(b *testing.B) {
	for _, n := range []int{20_000, 80_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				d := memory(b)
				addHost(b, d, host, 0)
				for i := 0; i < n; i += 1000 {
					update(b, d, func(tx *Tx) error { return pushMany(tx, i/1000, 1000) })
				}
				b.StartTimer()
				if err := d.DropHost(host); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/URL")
		})
	}
}
