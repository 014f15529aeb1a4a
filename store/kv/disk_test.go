package kv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// diskMachine commits to a Disk, syncs and crashes it, and knows the state after each
// commit that is still stored.
type diskMachine struct {
	d      *Disk
	e      Engine
	states []map[string]string // states[n] after n commits
	synced int                 // number of commits that are synced
}

func (c *diskMachine) open(t tester) {
	e, err := c.d.Open(small)
	must(t, err)
	c.e = e
}

func (c *diskMachine) Commit(t *rapid.T) {
	n := len(c.states)
	next := maps.Clone(c.states[n-1])
	x := begin(t, c.e, true)
	defer x.Discard()
	next["n"] = strconv.Itoa(n)
	must(t, x.Set([]byte("n"), []byte(next["n"])))
	for range rapid.IntRange(0, 5).Draw(t, "more") {
		key := "k" + rapid.StringMatching("[a-h]").Draw(t, "key")
		if rapid.Bool().Draw(t, "delete") {
			must(t, x.Delete([]byte(key)))
			delete(next, key)
		} else {
			next[key] = fmt.Sprint(key, n)
			must(t, x.Set([]byte(key), []byte(next[key])))
		}
	}
	must(t, x.Commit())
	c.states = append(c.states, next)
}

func (c *diskMachine) Sync(t *rapid.T) {
	must(t, c.e.Sync())
	c.synced = len(c.states) - 1
}

func (c *diskMachine) Close(t *rapid.T) {
	must(t, c.e.Close())
	c.synced = len(c.states) - 1
	c.open(t)
}

func (c *diskMachine) Kill(t *rapid.T) {
	c.d.Kill()
	c.found(t, len(c.states)-1)
}

func (c *diskMachine) Lose(t *rapid.T) {
	lost := c.d.lose()
	if want := len(c.states) - 1 - c.synced; lost != want {
		t.Fatalf("lose() = %d, want %d", lost, want)
	}
	c.found(t, c.synced)
}

func (c *diskMachine) Crash(t *rapid.T) {
	kept, lost := c.d.Crash(rapid.Uint64().Draw(t, "seed"))
	if kept+lost != len(c.states)-1-c.synced {
		t.Fatalf("Crash() = %d, %d, want %d together", kept, lost, len(c.states)-1-c.synced)
	}
	c.found(t, c.synced+kept)
	c.synced += kept
}

func (c *diskMachine) Wipe(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("rare")
	}
	c.d.Wipe()
	c.states, c.synced = c.states[:1], 0
	c.found(t, 0)
}

// found opens the Disk again, which has to contain exactly the first n commits.
func (c *diskMachine) found(t *rapid.T, n int) {
	if _, err := c.e.Begin(false); !errors.Is(err, ErrClosed) {
		t.Fatalf("Begin() in the ended process = %v, want ErrClosed", err)
	}
	c.states = c.states[:n+1]
	c.open(t)
}

func (c *diskMachine) Check(t *rapid.T) {
	got := map[string]string{}
	x := begin(t, c.e, false)
	defer x.Discard()
	for _, prefix := range []string{"k", "n"} {
		must(t, x.Each([]byte(prefix), nil, true, func(key []byte, it Item) (bool, error) {
			val, err := it.ValueCopy(nil)
			got[string(key)] = string(val)
			return true, err
		}))
	}
	if want := c.states[len(c.states)-1]; !maps.Equal(got, want) {
		t.Fatalf("disk contains %v, want %v", got, want)
	}
	if n := len(c.d.unsynced); n != len(c.states)-1-c.synced {
		t.Fatalf("%d commits are unsynced, want %d", n, len(c.states)-1-c.synced)
	}
}

// After a crash the disk contains all synced commits and a prefix of the later ones.
func TestCrashKeepsAPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &diskMachine{d: NewDisk(), states: []map[string]string{{}}}
		c.open(t)
		t.Repeat(rapid.StateMachineActions(c))
	})
}

// A seed always gives the same result, and different seeds give all possible results.
func TestCrashSeeds(t *testing.T) {
	crash := func(seed uint64) int {
		d := NewDisk()
		e, err := d.Open(small)
		must(t, err)
		for n := range 5 {
			must(t, put(e, "k", fmt.Sprint(n)))
		}
		kept, _ := d.Crash(seed)
		return kept
	}
	found := make([]int, 6)
	for seed := range uint64(300) {
		n := crash(seed)
		if again := crash(seed); again != n {
			t.Fatalf("seed %d keeps %d commits, then %d, want the same", seed, n, again)
		}
		found[n]++
	}
	if slices.Min(found) == 0 || found[0] < 75 {
		t.Errorf("numbers of kept commits of five are %v, want all from 0 to 5", found)
	}
}

// Many unsynced commits are written back in order.
func TestWriteBack(t *testing.T) {
	d := NewDisk()
	e, err := d.Open(small)
	must(t, err)
	val := string(make([]byte, 1<<20))
	for n := range 100 {
		must(t, put(e, "n", fmt.Sprint(n)))
		must(t, put(e, fmt.Sprint("k", n%3), val))
	}
	if d.unsyncedBytes > maxUnsynced {
		t.Errorf("%d bytes are unsynced, want at most %d", d.unsyncedBytes, maxUnsynced)
	}
	lost := d.lose()
	e, err = d.Open(small)
	must(t, err)
	if got, want := get(t, e, "n"), fmt.Sprint((199-lost)/2); got != want || lost > 80 {
		t.Errorf("lose() = %d and n is %s, want at most 80 and %s", lost, got, want)
	}
}

func TestDiskFull(t *testing.T) {
	d := NewDisk()
	e, err := d.Open(small)
	must(t, err)
	must(t, put(e, "k", "before"))
	d.SetFull(true)
	err = put(e, "k", "full")
	wantErr(t, err, syscall.ENOSPC)
	wantErr(t, err, ErrNoSpace)
	must(t, e.Sync())
	if got := get(t, e, "k"); got != "before" {
		t.Errorf("k is %q, want %q", got, "before")
	}
	d.SetFull(false)
	must(t, put(e, "k", "after"))
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		e, err := d.Open(small)
		must(t, err)
		must(t, put(e, "k", "0"))
		half := begin(t, e, true) // open during the pause
		must(t, half.Set([]byte("half"), []byte("1")))
		calls := []func() error{
			func() error { return put(e, "k", "1") },
			func() error { _, err := e.Begin(false); return err },
			func() error { _, err := half.Get([]byte("k")); return err },
			e.Sync,
		}
		for _, kill := range []bool{false, true} {
			d.Pause()
			d.Pause()
			ends := make(chan error, len(calls))
			for _, fn := range calls {
				go func() { ends <- fn() }()
			}
			time.Sleep(time.Hour)
			if len(ends) > 0 {
				t.Errorf("%d calls returned during the pause, want 0", len(ends))
			}
			want := error(nil)
			if kill {
				d.Kill()
				want = ErrClosed
			} else {
				d.Resume()
				d.Resume()
			}
			for range calls {
				if err := <-ends; !errors.Is(err, want) {
					t.Errorf("error after the pause is %v, want %v (killed: %v)", err, want, kill)
				}
			}
		}
		wantErr(t, half.Commit(), ErrClosed)
		e, err = d.Open(small)
		must(t, err)
		if get(t, e, "k") != "1" || get(t, e, "half") != "-" {
			t.Errorf("k is %q, half is %q, want 1 and none", get(t, e, "k"), get(t, e, "half"))
		}
	})
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		e, err := d.Open(small)
		must(t, err)
		d.SetDelays(Delays{Begin: time.Second, Commit: time.Minute, Sync: time.Hour})
		start := time.Now()
		must(t, put(e, "k", "v"))
		must(t, e.Sync())
		if took := time.Since(start); took != time.Second+time.Minute+time.Hour {
			t.Errorf("commit and sync took %v, want 1h1m1s", took)
		}
		// A process that is killed during a commit may have completed it or not.
		for _, late := range []bool{false, true} {
			d.SetDelays(Delays{Commit: time.Minute})
			end := make(chan error)
			go func() { end <- put(e, "k", fmt.Sprint(late)) }()
			time.Sleep(20 * time.Second)
			if late {
				time.Sleep(20 * time.Second)
			}
			killed := time.Now()
			d.Kill()
			wantErr(t, <-end, ErrClosed)
			if time.Since(killed) > 0 {
				t.Error("call of the killed process returned late, want at once")
			}
			d.SetDelays(Delays{})
			e, err = d.Open(small)
			must(t, err)
			if made := get(t, e, "k") == fmt.Sprint(late); made != late {
				t.Errorf("commit is stored: %v, want %v", made, late)
			}
		}
	})
}

// A sync that began while the disk was slow ends when the disk is fast again.
func TestDelaysEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		e, err := d.Open(small)
		must(t, err)
		d.SetDelays(Delays{Sync: time.Hour})
		start := time.Now()
		end := make(chan error)
		go func() { end <- e.Sync() }()
		time.Sleep(time.Minute)
		d.SetDelays(Delays{Sync: time.Second})
		must(t, <-end)
		must(t, e.Sync())
		if took := time.Since(start); took != time.Minute+time.Second {
			t.Errorf("the syncs took %v, want 1m1s", took)
		}
	})
}

// Concurrent readers and writers see consistent states.
func TestConcurrentTransactions(t *testing.T) {
	d := NewDisk()
	e, err := d.Open(small)
	must(t, err)
	end := make(chan error)
	write := func(writer int) error {
		for n := range 300 {
			x, err := e.Begin(true)
			if err != nil {
				return err
			}
			for i := range 20 {
				if err := x.Set(fmt.Appendf(nil, "%d/%d", writer, (n*20+i)%70),
					fmt.Appendf(nil, "%d", n)); err != nil {
					return err
				}
			}
			if err := x.Commit(); err != nil {
				return err
			}
		}
		return e.Sync()
	}
	readTwice := func() error {
		for range 100 {
			x, err := e.Begin(false)
			if err != nil {
				return err
			}
			var first []string
			for range 2 {
				var all []string
				err := x.Each([]byte("1/"), nil, true, func(k []byte, it Item) (bool, error) {
					v, err := it.ValueCopy(k)
					all = append(all, string(v))
					return true, err
				})
				if err != nil {
					return err
				}
				if first == nil {
					first = all
				} else if !slices.Equal(first, all) {
					return errors.New("a view has changed")
				}
			}
		}
		return nil
	}
	for writer := range 3 {
		go func() { end <- write(writer) }()
		go func() { end <- readTwice() }()
	}
	for range 6 {
		must(t, <-end)
	}
}

// lose simulates a power failure that only synced data survives. It returns the number of lost
// commits.
func (d *Disk) lose() (lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost = len(d.unsynced)
	d.powerOff(0)
	return lost
}
