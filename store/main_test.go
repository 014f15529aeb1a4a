package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"peerd/store/kv"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir) // never returns
	}
	goleak.VerifyTestMain(m)
}

// small is what a peer of a testnet opens its store with.
var small = Options{MemTable: 8 << 20, BlockCache: 8 << 20, IndexCache: 4 << 20}

// engineEnv is the environment variable that puts all tests that can on one
// engine, "badger" or "memory". Without it they are where they say.
const engineEnv = "STORE_ENGINE"

// disks holds what is in the folders of tests that have none.
var disks sync.Map // of *kv.Disk, by folder

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

// openOn is Open on the engine that was asked for.
func openOn(t interface{ TempDir() string }, dir string, o Options) (*DB, error) {
	switch engine := os.Getenv(engineEnv); {
	case engine == "badger" && o.InMemory:
		dir, o.InMemory = t.TempDir(), false
	case engine == "memory" && !o.InMemory:
		disk, _ := disks.LoadOrStore(dir, kv.NewDisk())
		o.Disk = disk.(*kv.Disk)
	}
	return Open(dir, o)
}

// TestEachEngine runs all other tests again, once with all of them on badger and
// once with all of them in memory.
func TestEachEngine(t *testing.T) {
	if testing.Short() || os.Getenv(engineEnv) != "" {
		t.Skip("starts processes")
	}
	for _, engine := range []string{"badger", "memory"} {
		cmd := exec.Command(os.Args[0], "-test.short", "-rapid.checks=20")
		cmd.Env = append(os.Environ(), engineEnv+"="+engine)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("on %s: %v\n%s", engine, err, out)
		}
	}
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
