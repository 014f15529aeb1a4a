package store

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir) // never returns
	}
	goleak.VerifyTestMain(m)
}

// small is what a peer of a testnet opens its store with.
var small = Options{MemTable: 8 << 20, BlockCache: 8 << 20, IndexCache: 4 << 20}

func open(t testing.TB, dir string, o Options) *DB {
	t.Helper()
	d, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func memory(t testing.TB) *DB { return open(t, "", Options{InMemory: true, MemTable: 8 << 20}) }

func update(t testing.TB, d *DB, fn func(tx *Tx) error) {
	t.Helper()
	if err := d.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func view(t testing.TB, d *DB, fn func(tx *Tx) error) {
	t.Helper()
	if err := d.View(fn); err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error is %v, want %v", got, want)
	}
}

// addHost makes a host with n entries of depth 0.
func addHost(t testing.TB, d *DB, name string, n int) {
	t.Helper()
	update(t, d, func(tx *Tx) error {
		tx.PutHost(Host{Name: name})
		for i := range n {
			if _, err := tx.Push(name, Entry{URL: page(name, i)}, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

func page(host string, i int) URL { return URL(fmt.Sprintf("http://%s/%d", host, i)) }

// queue lists what waits at a host, in order.
func queue(t testing.TB, d *DB, host string) []Entry {
	t.Helper()
	var all []Entry
	view(t, d, func(tx *Tx) error {
		all = nil
		return tx.Queue(host, nil, func(e Entry) (bool, error) {
			all = append(all, e)
			return true, nil
		})
	})
	return all
}

func urls(es []Entry) []URL {
	us := []URL{}
	for _, e := range es {
		us = append(us, e.URL)
	}
	return us
}
