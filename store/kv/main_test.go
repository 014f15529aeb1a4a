package kv

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var small = Options{MemTable: 1 << 20, Threshold: 200, IndexCache: 1 << 20}

// newEngines contains a function for each engine. It returns a function that opens the
// engine, again and again on the same data.
var newEngines = map[string]func(t testing.TB) func() (Engine, error){
	"badger": func(t testing.TB) func() (Engine, error) {
		dir := t.TempDir()
		return func() (Engine, error) { return Open(dir, small) }
	},
	"memory": func(testing.TB) func() (Engine, error) {
		d := NewDisk()
		return func() (Engine, error) { return d.Open(small) }
	},
}

// onEach runs a test on both engines.
func onEach(t *testing.T, fn func(t *testing.T, reopen func() (Engine, error))) {
	for name, mk := range newEngines {
		t.Run(name, func(t *testing.T) { fn(t, mk(t)) })
	}
}

type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t tester, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error is %v, want %v", got, want)
	}
}

func opened(t *testing.T, reopen func() (Engine, error)) Engine {
	t.Helper()
	e, err := reopen()
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

func begin(t tester, e Engine, update bool) Txn {
	t.Helper()
	x, err := e.Begin(update)
	must(t, err)
	return x
}

// put commits one key.
func put(e Engine, key, val string) error {
	x, err := e.Begin(true)
	if err != nil {
		return err
	}
	defer x.Discard()
	if err := x.Set([]byte(key), []byte(val)); err != nil {
		return err
	}
	return x.Commit()
}

// get returns the value of key in a transaction of its own, or "-" if there is none.
func get(t tester, e Engine, key string) string {
	t.Helper()
	x := begin(t, e, false)
	defer x.Discard()
	return read(t, x, key)
}

func read(t tester, x Txn, key string) string {
	t.Helper()
	it, err := x.Get([]byte(key))
	if errors.Is(err, ErrNotFound) {
		return "-"
	}
	must(t, err)
	val, err := it.ValueCopy(nil)
	must(t, err)
	return string(val)
}

// list returns the keys with a prefix and their values, at most n if n > 0.
func list(t tester, x Txn, prefix, start string, n int) (all []string) {
	t.Helper()
	var from []byte
	if start != "" {
		from = []byte(start)
	}
	must(t, x.Each([]byte(prefix), from, n%2 == 0, func(key []byte, it Item) (bool, error) {
		return n == 0 || len(all)+1 < n, it.Value(func(val []byte) error {
			all = append(all, fmt.Sprintf("%s=%.20s/%d", key, val, len(val)))
			return nil
		})
	}))
	return all
}
