package kv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// machine compares an engine with maps. Each run has its own key prefix, so that all runs
// can share one engine.
type machine struct {
	e     Engine
	space string
	state map[string]string
	views []heldView
}

// heldView is an open read-only transaction and the state that it has to see.
type heldView struct {
	x     Txn
	state map[string]string
}

var (
	drawKey = rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat("a", rapid.IntRange(0, 2).Draw(t, "a")) +
			rapid.StringN(0, 2, 3).Draw(t, "key") + "\x00"
	})
	drawVal = rapid.Custom(func(t *rapid.T) string {
		// Values of 200 bytes and more are in the value log.
		n := rapid.SampledFrom([]int{0, 1, 30, 199, 200, 5000}).Draw(t, "length")
		return strings.Repeat(string(rune('a'+rapid.IntRange(0, 25).Draw(t, "letter"))), n)
	})
)

// compare compares x with state, with all methods of reading.
func (m *machine) compare(t *rapid.T, x Txn, state map[string]string) {
	t.Helper()
	key := m.space + drawKey.Draw(t, "one")
	want, ok := state[key]
	if !ok {
		want = "-"
	}
	if got := read(t, x, key); got != want {
		t.Fatalf("Get(%q) = %.20q, want %.20q", key, got, want)
	}
	prefix := m.space + rapid.SampledFrom([]string{"", "a", "aa"}).Draw(t, "prefix")
	start, n := "", rapid.IntRange(0, 4).Draw(t, "at most")
	if rapid.Bool().Draw(t, "from the middle") {
		start = prefix + drawKey.Draw(t, "start")
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(state)) {
		if strings.HasPrefix(k, prefix) && k >= start && (n == 0 || len(all) < n) {
			all = append(all, fmt.Sprintf("%s=%.20s/%d", k, state[k], len(state[k])))
		}
	}
	if got := list(t, x, prefix, start, n); !slices.Equal(got, all) {
		t.Fatalf("Each(%q, %q), up to %d keys, gives %q, want %q", prefix, start, n, got, all)
	}
}

// Update makes some writes and reads, and commits or discards them.
func (m *machine) Update(t *rapid.T) {
	x := begin(t, m.e, true)
	defer x.Discard()
	mine := maps.Clone(m.state)
	for range rapid.IntRange(0, 12).Draw(t, "writes") {
		key := drawKey.Draw(t, "key")
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			must(t, x.Delete([]byte(m.space+key)))
			delete(mine, m.space+key)
		} else {
			val := drawVal.Draw(t, "val")
			must(t, x.Set([]byte(m.space+key), []byte(val)))
			mine[m.space+key] = val
		}
	}
	m.compare(t, x, mine)
	if rapid.IntRange(0, 3).Draw(t, "discard") == 0 {
		return
	}
	must(t, x.Commit())
	m.state = mine
}

// WriteInEach changes every key while it iterates over all, which must not affect the
// iteration over committed keys or over keys written before.
func (m *machine) WriteInEach(t *rapid.T) {
	x := begin(t, m.e, true)
	defer x.Discard()
	var keys []string
	mine := maps.Clone(m.state)
	for range rapid.IntRange(0, 20).Draw(t, "writes") {
		key := m.space + drawKey.Draw(t, "key")
		must(t, x.Set([]byte(key), []byte("new")))
		mine[key] = "new"
	}
	want := slices.Sorted(maps.Keys(mine))
	must(t, x.Each([]byte(m.space), nil, false, func(key []byte, it Item) (bool, error) {
		keys = append(keys, string(key))
		moved := string(key) + "+"
		delete(mine, string(key))
		if len(key) > len(m.space)+8 {
			return true, x.Delete(key)
		}
		mine[moved] = "moved"
		return true, errors.Join(x.Delete(key), x.Set([]byte(moved), []byte("moved")))
	}))
	if !slices.Equal(keys, want) {
		t.Fatalf("Each() gives %q, want %q", keys, want)
	}
	must(t, x.Commit())
	m.state = mine
}

// View opens a read-only transaction and keeps it open.
func (m *machine) View(t *rapid.T) {
	if len(m.views) == 4 {
		t.Skip("enough")
	}
	m.views = append(m.views, heldView{begin(t, m.e, false), maps.Clone(m.state)})
}

// EndView compares the oldest open transaction and ends it.
func (m *machine) EndView(t *rapid.T) {
	if len(m.views) == 0 {
		t.Skip("none")
	}
	m.compare(t, m.views[0].x, m.views[0].state)
	m.views[0].x.Discard()
	m.views = m.views[1:]
}

func (m *machine) Check(t *rapid.T) {
	x := begin(t, m.e, false)
	defer x.Discard()
	m.compare(t, x, m.state)
	for _, v := range m.views {
		m.compare(t, v.x, v.state)
	}
}

func TestModel(t *testing.T) {
	onEach(t, func(t *testing.T, reopen func() (Engine, error)) {
		e, runs := opened(t, reopen), 0
		rapid.Check(t, func(t *rapid.T) {
			runs++
			m := &machine{e: e, space: fmt.Sprintf("%08d/", runs), state: map[string]string{}}
			defer func() {
				for _, v := range m.views {
					v.x.Discard()
				}
			}()
			t.Repeat(rapid.StateMachineActions(m))
		})
	})
}

// Both engines have the same limits of a transaction.
func TestSameLimits(t *testing.T) {
	engines := map[string]Engine{}
	for name, mk := range newEngines {
		engines[name] = opened(t, mk(t))
	}
	if b, m := engines["badger"].Limits(), engines["memory"].Limits(); b != m {
		t.Fatalf("Limits() of badger = %+v, of memory = %+v, want the same", b, m)
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]int{10, 60, 500}).Draw(t, "key")
		val := rapid.SampledFrom([]int{0, 50, 199, 200, 9000}).Draw(t, "val")
		del := rapid.IntRange(1, 50).Draw(t, "delete every")
		took := map[string]int{}
		for name, e := range engines {
			x := begin(t, e, true)
			var err error
			for n := 0; err == nil; n++ {
				took[name] = n
				k := fmt.Appendf(nil, "%0*d", key, n)
				if err = x.Set(k, make([]byte, val)); err == nil && n%del == 0 {
					err = x.Delete(k)
				}
			}
			wantErr(t, err, ErrTooBig)
			if _, err := x.Get(fmt.Appendf(nil, "%0*d", key, took[name]-1)); err != nil &&
				(took[name]-1)%del > 0 {
				t.Fatalf("Get() of an earlier write after ErrTooBig = %v, want nil", err)
			}
			if rapid.IntRange(0, 9).Draw(t, "commit") == 0 {
				must(t, x.Commit())
			}
			x.Discard()
		}
		if took["badger"] != took["memory"] || took["badger"] < 10 {
			t.Fatalf("writes before ErrTooBig are %v, want the same number, at least 10", took)
		}
	})
}

func TestRefused(t *testing.T) {
	onEach(t, func(t *testing.T, reopen func() (Engine, error)) {
		e := opened(t, reopen)
		_, err := reopen()
		wantErr(t, err, ErrLocked)
		view := begin(t, e, false)
		defer view.Discard()
		wantErr(t, view.Set([]byte("k"), nil), ErrReadOnly)
		wantErr(t, view.Delete([]byte("k")), ErrReadOnly)
		_, err = view.Get(nil)
		wantErr(t, err, ErrEmptyKey)
		x := begin(t, e, true)
		defer x.Discard()
		wantErr(t, x.Set(nil, nil), ErrEmptyKey)
		if err := x.Set(make([]byte, 65001), nil); err == nil {
			t.Error("Set() with a key of 65001 bytes succeeded, want an error")
		}
		must(t, x.Set([]byte("x"), nil))
		must(t, x.Commit())
		if _, err := x.Get([]byte("k")); err == nil {
			t.Error("Get() after Commit() succeeded, want an error")
		}
		if err := x.Set([]byte("k"), nil); err == nil {
			t.Error("Set() after Commit() succeeded, want an error")
		}
		if err := x.Commit(); err == nil {
			t.Error("second Commit() succeeded, want an error")
		}
		stop := errors.New("stop")
		must(t, put(e, "k", "v"))
		again := begin(t, e, false)
		defer again.Discard()
		wantErr(t, again.Each([]byte("k"), nil, true, func([]byte, Item) (bool, error) {
			return true, stop
		}), stop)
	})
}

func TestReopen(t *testing.T) {
	onEach(t, func(t *testing.T, reopen func() (Engine, error)) {
		for n := range 3 {
			e, err := reopen()
			must(t, err)
			if n > 0 && get(t, e, "k") != fmt.Sprint(n-1) {
				t.Fatalf("round %d: k is %q, want %d", n, get(t, e, "k"), n-1)
			}
			must(t, put(e, "k", fmt.Sprint(n)))
			must(t, e.Sync())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			e.Run(ctx)
			must(t, e.Close())
			must(t, e.Close())
			_, err = e.Begin(true)
			wantErr(t, err, ErrClosed)
			wantErr(t, put(e, "k", "late"), ErrClosed)
		}
	})
}

// Keys and values are copied by Set after Commit, and by Get and Each.
func TestBytesAreCopied(t *testing.T) {
	onEach(t, func(t *testing.T, reopen func() (Engine, error)) {
		e := opened(t, reopen)
		key, val := []byte("key"), []byte("val")
		x := begin(t, e, true)
		must(t, x.Set(key, val))
		must(t, x.Commit())
		clear(key)
		clear(val)
		y := begin(t, e, false)
		defer y.Discard()
		it, err := y.Get([]byte("key"))
		must(t, err)
		got, err := it.ValueCopy(make([]byte, 1, 64))
		must(t, err)
		clear(got[:cap(got)])
		must(t, y.Each([]byte("key"), nil, true, func(k []byte, _ Item) (bool, error) {
			clear(k)
			return true, nil
		}))
		if got := get(t, e, "key"); got != "val" {
			t.Errorf("value is %q, want %q", got, "val")
		}
	})
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{{MemTable: 1, Threshold: 200}, {MemTable: 1 << 20},
		{MemTable: 1 << 20, Threshold: 1 << 20}} {
		if _, err := NewDisk().Open(o); err == nil {
			t.Errorf("Open(%+v) succeeded, want an error", o)
		}
	}
}
