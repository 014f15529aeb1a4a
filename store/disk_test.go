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

// onDisk opens a store on a disk in memory.
func onDisk(t testing.TB, disk *kv.Disk) *DB {
	t.Helper()
	d, err := Open("", Options{Disk: disk})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A store lives in a bubble: many callers, housekeeping, a disk that stops and
// is slow, a process that is killed in the middle of it and comes back.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := kv.NewDisk()
		acked := 0
		for life := range 4 {
			d := onDisk(t, disk)
			if n := int(d.Counters().Pages); n < acked || n > acked+8 { // 8 may have been under way
				t.Fatalf("life %d: %d were acknowledged, %d are there", life, acked, n)
			} else {
				acked = n
			}
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := d.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			for who := range 8 {
				wg.Go(func() {
					for {
						run := d.Batch
						if who == 0 {
							run = d.Update
						}
						err := run(func(tx *Tx) error { tx.Count(Counters{Pages: 1}); return nil })
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
				t.Errorf("life %d: %d before the pause, %d after", life, before, acked)
			}
			mu.Unlock()
			disk.Resume()
			disk.SetDelays(kv.Delays{Begin: time.Millisecond, Commit: 10 * time.Millisecond})
			time.Sleep(time.Duration(60_000+7*life) * time.Millisecond)
			disk.SetDelays(kv.Delays{})
			disk.Kill()
			cancel()
			wg.Wait()
		}
	})
}

// Transactions are there wholly and in their order after the power was cut, and
// all that were synced.
func TestPowerCut(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		disk, n, synced := kv.NewDisk(), 0, 0
		for range 8 {
			d := onDisk(t, disk)
			found := int(d.Counters().Pages)
			if found < synced || found > n {
				t.Fatalf("seed %d: %d of %d, synced were %d", seed, found, n, synced)
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

// A commit that finds no room has changed nothing, in memory neither, and the
// store goes on when there is room again.
func TestNoRoom(t *testing.T) {
	disk := kv.NewDisk()
	d := onDisk(t, disk)
	addHost(t, d, "a.example", 3)
	before := d.Counters()
	push := func(tx *Tx) error {
		tx.Count(Counters{Pages: 1})
		tx.CountNamed("x", 1)
		_, err := tx.Push("a.example", Entry{URL: page("a.example", 9)}, 0)
		return err
	}
	disk.SetFull(true)
	errs := waiting(t, d, 3, func(int) func(*Tx) error { return push })
	for _, err := range append(errs, d.Update(push), d.DropHost("a.example")) {
		wantErr(t, err, ErrFull)
		wantErr(t, err, syscall.ENOSPC)
	}
	if d.Counters() != before || d.Named()["x"] != 0 || d.KnownSeen(page("a.example", 9)) {
		t.Errorf("counters are %+v, named %v", d.Counters(), d.Named())
	}
	if n := len(queue(t, d, "a.example")); n != 3 {
		t.Errorf("%d entries", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = onDisk(t, disk) // still full
	disk.SetFull(false)
	update(t, d, push)
	if n := len(queue(t, d, "a.example")); n != 4 || d.Named()["x"] != 1 {
		t.Errorf("%d entries, named %v", n, d.Named())
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
