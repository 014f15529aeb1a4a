package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"peerd/store/kv"
)

// openDisk opens a store on a simulated disk.
func openDisk(t testing.TB, disk *kv.Disk) *DB {
	t.Helper()
	d, err := Open("", Options{Disk: disk})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A store can be used in a bubble: with many callers, maintenance, a disk that is paused
// or slow, and a process that is killed and started again.
func TestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := kv.NewDisk()
		acked := 0
		for run := range 4 {
			d := openDisk(t, disk)
			n := int(d.Counters().Pages)
			if n < acked || n > acked+8 { // 8 may be committed but not acknowledged
				t.Fatalf("run %d: found %d transactions, want %d to %d", run, n, acked, acked+8)
			}
			acked = n
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := d.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			for caller := range 8 {
				wg.Go(func() {
					for {
						commit := d.Batch
						if caller == 0 {
							commit = d.Update
						}
						err := commit(func(tx *Tx) error {
							tx.Count(Counters{Pages: 1})
							return nil
						})
						if err != nil {
							wantErr(t, err, kv.ErrClosed)
							return
						}
						mu.Lock()
						acked++
						mu.Unlock()
						time.Sleep(time.Second)
					}
				})
			}
			time.Sleep(time.Minute)
			disk.Pause()
			time.Sleep(time.Second)
			mu.Lock()
			before := acked
			mu.Unlock()
			time.Sleep(11 * time.Minute)
			mu.Lock()
			if acked != before || before < 400 {
				t.Errorf("run %d: %d transactions before the pause, %d after it, want the same "+
					"and at least 400", run, before, acked)
			}
			mu.Unlock()
			disk.Resume()
			disk.SetDelays(kv.Delays{Begin: time.Millisecond, Commit: 10 * time.Millisecond})
			time.Sleep(time.Duration(60_000+7*run) * time.Millisecond)
			disk.SetDelays(kv.Delays{})
			disk.Kill()
			cancel()
			wg.Wait()
		}
	})
}

// After a power failure, all synced transactions are stored, and a prefix of the later
// ones, each completely.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		disk, n, synced := kv.NewDisk(), 0, 0
		for range 8 {
			d := openDisk(t, disk)
			found := int(d.Counters().Pages)
			if found < synced || found > n {
				t.Fatalf("seed %d: found %d transactions of %d, want at least %d", seed, found, n,
					synced)
			}
			n, synced = found, found
			checkSteps(t, d, n)
			for range r.IntN(6) {
				if err := d.Batch(func(tx *Tx) error { return crashStep(tx, n) }); err != nil {
					t.Fatal(err)
				}
				if n++; r.IntN(4) == 0 {
					if err := d.Sync(); err != nil {
						t.Fatal(err)
					}
					synced = n
				}
			}
			disk.Crash(r.Uint64())
			wantErr(t, d.View(func(*Tx) error { return nil }), kv.ErrClosed)
		}
	}
}

// A commit without space changes nothing, on disk or in memory. The store works again
// when there is space.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	disk := kv.NewDisk()
	d := openDisk(t, disk)
	addHost(t, d, "a.example", 3)
	before := d.Counters()
	push := func(tx *Tx) error {
		tx.Count(Counters{Pages: 1})
		tx.CountNamed("x", 1)
		_, err := tx.Push("a.example", Entry{URL: page("a.example", 9)}, 0)
		return err
	}
	disk.SetFull(true)
	errs := together(t, d, 3, func(int) func(*Tx) error { return push })
	for _, err := range append(errs, d.Update(push), d.DropHost("a.example")) {
		wantErr(t, err, ErrNoSpace)
		wantErr(t, err, syscall.ENOSPC)
	}
	if d.Counters() != before || d.NamedCounters()["x"] != 0 || d.KnownSeen(page("a.example", 9)) {
		t.Errorf("Counters() = %+v, NamedCounters() = %v, want no change", d.Counters(),
			d.NamedCounters())
	}
	if n := len(queue(t, d, "a.example")); n != 3 {
		t.Errorf("queue has %d entries, want 3", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openDisk(t, disk) // the disk is still full
	disk.SetFull(false)
	update(t, d, push)
	if n := len(queue(t, d, "a.example")); n != 4 || d.NamedCounters()["x"] != 1 {
		t.Errorf("queue has %d entries, NamedCounters() = %v, want 4 and 1", n,
			d.NamedCounters())
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
