package store

import (
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"peerd/store/kv"
)

// childMain, if not nil, runs before the tests. It does not return in a child process.
var childMain func()

func TestMain(m *testing.M) {
	flag.Parse()
	if childMain != nil {
		childMain()
	}
	goleak.VerifyTestMain(m)
}

// small are the options of a peer in a testnet.
var small = Options{MemTable: 8 << 20, IndexCache: 4 << 20}

// engine selects one engine for all tests that can use both.
var engine = flag.String("engine", "",
	`engine of all tests: "badger" or "memory"; by default, each test chooses its own`)

// disks replaces the directories of tests that run in memory.
var disks sync.Map // of *kv.Disk, by directory

func open(t testing.TB, dir string, o Options) *DB {
	t.Helper()
	d, err := openOn(t, dir, o)
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

// openOn opens a store on the selected engine.
func openOn(t interface{ TempDir() string }, dir string, o Options) (*DB, error) {
	switch {
	case *engine == "badger" && o.InMemory:
		dir, o.InMemory = t.TempDir(), false
	case *engine == "memory" && !o.InMemory:
		disk, _ := disks.LoadOrStore(dir, kv.NewDisk())
		o.Disk = disk.(*kv.Disk)
	}
	return Open(dir, o)
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

// addHost adds a host with n entries of depth 0.
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

// queue returns the queue of a host.
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
