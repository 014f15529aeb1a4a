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

// A crasher commits, syncs and breaks a Disk, and knows the state after every
// commit that is still there.
type crasher struct {
	d      *Disk
	e      Engine
	states []map[string]string // states[n] after n commits
	synced int                 // of them on the platter for sure
}

func (c *crasher) open(t tester) {
	e, err := c.d.Open(small)
	must(t, err)
	c.e = e
}

func (c *crasher) Commit(t *rapid.T) {
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

func (c *crasher) Sync(t *rapid.T) {
	must(t, c.e.Sync())
	c.synced = len(c.states) - 1
}

func (c *crasher) Close(t *rapid.T) {
	must(t, c.e.Close())
	c.synced = len(c.states) - 1
	c.open(t)
}

func (c *crasher) Kill(t *rapid.T) {
	c.d.Kill()
	c.found(t, len(c.states)-1)
}

func (c *crasher) Lose(t *rapid.T) {
	lost := c.d.Lose()
	if want := len(c.states) - 1 - c.synced; lost != want {
		t.Fatalf("%d commits were lost, want %d", lost, want)
	}
	c.found(t, c.synced)
}

func (c *crasher) Crash(t *rapid.T) {
	kept, lost := c.d.Crash(rapid.Uint64().Draw(t, "seed"))
	if kept+lost != len(c.states)-1-c.synced {
		t.Fatalf("%d kept and %d lost of %d", kept, lost, len(c.states)-1-c.synced)
	}
	c.found(t, c.synced+kept)
	c.synced += kept
}

func (c *crasher) Wipe(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("seldom")
	}
	c.d.Wipe()
	c.states, c.synced = c.states[:1], 0
	c.found(t, 0)
}

// found opens the Disk again, which has to hold the first n commits, and all of
// each.
func (c *crasher) found(t *rapid.T, n int) {
	if _, err := c.e.Begin(false); !errors.Is(err, ErrClosed) {
		t.Fatalf("the old process goes on: %v", err)
	}
	c.states = c.states[:n+1]
	c.open(t)
}

func (c *crasher) Check(t *rapid.T) {
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
		t.Fatalf("it holds %v, want %v", got, want)
	}
	if n := c.d.Unsynced(); n != len(c.states)-1-c.synced {
		t.Fatalf("%d commits are not synced, want %d", n, len(c.states)-1-c.synced)
	}
}

// After a crash the state is that after some of the commits, in their order,
// and after all that were synced.
func TestCrashKeepsAPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crasher{d: NewDisk(), states: []map[string]string{{}}}
		c.open(t)
		t.Repeat(rapid.StateMachineActions(c))
	})
}

// Each seed does the same every time, and together they leave out nothing.
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
			t.Fatalf("seed %d keeps %d, then %d", seed, n, again)
		}
		found[n]++
	}
	if slices.Min(found) == 0 || found[0] < 75 {
		t.Errorf("of five commits so many were kept: %v", found)
	}
}

// What is not synced is written back in its order when there is much of it.
func TestWriteBack(t *testing.T) {
	d := NewDisk()
	e, err := d.Open(small)
	must(t, err)
	val := string(make([]byte, 1<<20))
	for n := range 100 {
		must(t, put(e, "n", fmt.Sprint(n)))
		must(t, put(e, fmt.Sprint("k", n%3), val))
	}
	if d.cached > cacheMost {
		t.Errorf("%d bytes wait", d.cached)
	}
	lost := d.Lose()
	e, err = d.Open(small)
	must(t, err)
	if got, want := get(t, e, "n"), fmt.Sprint((199-lost)/2); got != want || lost > 80 {
		t.Errorf("lost %d, n is %s, want %s", lost, got, want)
	}
}

func TestFull(t *testing.T) {
	d := NewDisk()
	e, err := d.Open(small)
	must(t, err)
	must(t, put(e, "k", "before"))
	d.SetFull(true)
	err = put(e, "k", "full")
	wantErr(t, err, syscall.ENOSPC)
	wantErr(t, err, ErrFull)
	must(t, e.Sync())
	if got := get(t, e, "k"); got != "before" {
		t.Errorf("k is %q", got)
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
		half := begin(t, e, true) // is under way when the process stops
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
				t.Errorf("%d calls went on", len(ends))
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
					t.Errorf("kill is %v: error is %v, want %v", kill, err, want)
				}
			}
		}
		wantErr(t, half.Commit(), ErrClosed)
		e, err = d.Open(small)
		must(t, err)
		if get(t, e, "k") != "1" || get(t, e, "half") != "-" {
			t.Errorf("k is %q, half is %q", get(t, e, "k"), get(t, e, "half"))
		}
	})
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		e, err := d.Open(small)
		must(t, err)
		d.SetDelays(Delays{Begin: time.Second, Commit: time.Minute, Sync: time.Hour})
		begun := time.Now()
		must(t, put(e, "k", "v"))
		must(t, e.Sync())
		if took := time.Since(begun); took != time.Second+time.Minute+time.Hour {
			t.Errorf("it took %v", took)
		}
		// A process that dies in the middle of a commit may have made it or not.
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
				t.Error("the dead go on waiting")
			}
			d.SetDelays(Delays{})
			e, err = d.Open(small)
			must(t, err)
			if made := get(t, e, "k") == fmt.Sprint(late); made != late {
				t.Errorf("late is %v, the commit is there: %v", late, made)
			}
		}
	})
}

// Readers and writers at once, for the race detector, with copies of the tree
// taken and given up all the time.
func TestMany(t *testing.T) {
	d := NewDisk()
	e, err := d.Open(small)
	must(t, err)
	end := make(chan error)
	write := func(who int) error {
		for n := range 300 {
			x, err := e.Begin(true)
			if err != nil {
				return err
			}
			for i := range 20 {
				if err := x.Set(fmt.Appendf(nil, "%d/%d", who, (n*20+i)%70), fmt.Appendf(nil, "%d", n)); err != nil {
					return err
				}
			}
			if err := x.Commit(); err != nil {
				return err
			}
		}
		return e.Sync()
	}
	look := func() error {
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
	for who := range 3 {
		go func() { end <- write(who) }()
		go func() { end <- look() }()
	}
	for range 6 {
		must(t, <-end)
	}
}
