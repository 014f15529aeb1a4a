package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dgraph-io/badger/v4"

	"peerd/store/kv"
)

func TestOpenTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, small)
	_, err := openOn(t, dir, small)
	wantErr(t, err, ErrLocked)
	if *engine == "" && !strings.Contains(err.Error(), dir) {
		t.Errorf("Open() = %q, want an error that names %s", err, dir)
	}
}

func TestOpenAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "store") // does not exist yet
	for range 3 {
		d, err := Open(dir, small)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A store of another version is refused with one message that says what was found and
// where, and what to do.
func TestVersion(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, dir, found string) {
		t.Helper()
		_, err := Open(dir, small)
		wantErr(t, err, ErrVersion)
		for _, want := range []string{dir, found, Version, "use the peerd that wrote it",
			"move the directory away"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Open() = %q, want an error that contains %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("Open() = %q, want one line", err)
		}
		if _, again := Open(dir, small); again == nil || again.Error() != err.Error() {
			t.Errorf("second Open() = %q, want %q", again, err)
		}
	}
	for _, version := range []string{"peerd-store-0", "peerd-store-3", "peerd-store-7", ""} {
		t.Run("version "+version, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "VERSION", version+"\n")
			check(t, dir, fmt.Sprintf("version %q", version))
		})
	}
	t.Run("another program's badger database", func(t *testing.T) {
		dir := t.TempDir()
		b, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		check(t, dir, "no version")
	})
	t.Run("crash before badger's first file", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "VERSION", Version+"\n")
		open(t, dir, small)
	})
	t.Run("not readable", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "VERSION"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, small); err == nil || errors.Is(err, ErrVersion) {
			t.Fatalf("Open() = %v, want an error other than ErrVersion", err)
		}
	})
	t.Run("not a directory", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "file", "")
		if _, err := Open(filepath.Join(dir, "file"), small); err == nil {
			t.Fatal("Open() succeeded, want an error")
		}
	})
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUpdateIsAtomic(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, "a.example", 1)
	before := d.Counters()
	stop := errors.New("stop")
	err := d.Update(func(tx *Tx) error {
		if _, err := tx.Push("a.example", Entry{URL: "http://a.example/x"}, 0); err != nil {
			return err
		}
		tx.PutHost(Host{Name: "b.example"})
		tx.Count(Counters{Pages: 5})
		if _, err := tx.AddPending(Pending{URL: "http://c.example/"}); err != nil {
			return err
		}
		return stop
	})
	wantErr(t, err, stop)
	view(t, d, func(tx *Tx) error {
		_, err := tx.Host("b.example")
		wantErr(t, err, ErrNotFound)
		h, err := tx.Host("a.example")
		if err != nil || h.Queued != 1 || h.Known != 1 {
			t.Errorf("Host() = %+v, %v, want 1 queued and known", h, err)
		}
		if ok, err := tx.HasPending("http://c.example/"); ok || err != nil {
			t.Errorf("HasPending() = %v, %v, want false", ok, err)
		}
		return nil
	})
	if d.Counters() != before {
		t.Errorf("Counters() = %+v, want %+v", d.Counters(), before)
	}
	if n := len(queue(t, d, "a.example")); n != 1 {
		t.Errorf("queue has %d entries, want 1", n)
	}
}

// A transaction sees its own writes with every method of reading.
func TestOwnWrites(t *testing.T) {
	t.Parallel()
	d := memory(t)
	update(t, d, func(tx *Tx) error {
		tx.PutHost(Host{Name: "a.example"})
		if _, err := tx.Push("a.example", Entry{URL: "http://a.example/"}, 0); err != nil {
			return err
		}
		var hosts []Host
		if err := tx.Hosts(func(h Host) error {
			hosts = append(hosts, h)
			return nil
		}); err != nil {
			return err
		}
		if len(hosts) != 1 || hosts[0].Queued != 1 {
			t.Errorf("hosts are %+v, want one with one entry", hosts)
		}
		e, err := tx.Peek("a.example")
		if err != nil || e.URL != "http://a.example/" {
			t.Errorf("Peek() = %+v, %v, want the pushed entry", e, err)
		}
		if ok, err := tx.Seen("http://a.example/"); !ok || err != nil {
			t.Errorf("Seen() = %v, %v, want true", ok, err)
		}
		return nil
	})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	d, err := openOn(t, "", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	nothing := func(*Tx) error { t.Error("function was called"); return nil }
	wantErr(t, d.Update(nothing), kv.ErrClosed)
	wantErr(t, d.View(nothing), kv.ErrClosed)
}

func TestViewCannotWrite(t *testing.T) {
	t.Parallel()
	d := memory(t)
	err := d.View(func(tx *Tx) error { return tx.PutData("k", nil) })
	wantErr(t, err, kv.ErrReadOnly)
}

func TestCountersSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := Counters{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	twice := Counters{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40}
	var seq uint64
	for i, want := range []Counters{all, twice} {
		d, err := openOn(t, dir, small)
		if err != nil {
			t.Fatal(err)
		}
		if d.seq != seq {
			t.Errorf("open %d: seq = %d, want %d", i, d.seq, seq)
		}
		update(t, d, func(tx *Tx) error {
			tx.Count(all)
			return tx.Import("a.example", []Entry{{URL: page("a.example", i)}}, nil)
		})
		if got := d.Counters(); got != want {
			t.Errorf("open %d: Counters() = %+v, want %+v", i, got, want)
		}
		seq = d.seq
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, dir, small)
	if d.Counters() != twice || d.seq != 2 {
		t.Errorf("Counters() = %+v, seq = %d, want %+v, 2", d.Counters(), d.seq, twice)
	}
	if n := len(queue(t, d, "a.example")); n != 2 {
		t.Errorf("queue has %d entries, want 2", n)
	}
}

func TestCorrupt(t *testing.T) {
	t.Parallel()
	d := memory(t)
	const u = URL("http://a.example/")
	bad := []byte{0xff, 0x00, 0x13}
	keys := map[string][]byte{
		"host": spaceKey(spaceHost, "a.example"), "queue": queueKey("a.example", 0, 1),
		"pending": digestKey(spacePending, "a.example", u.Digest()),
		"page":    digestKey(spacePage, "a.example", u.Digest()),
		"subnet":  subnetKey(prefix("10.0.0.0/24")), "meta": spaceKey(spaceMeta, "v/x"),
		"seen": append(hostPrefix(spaceSeen, "a.example"), 1, 2, 3),
	}
	reads := map[string][]func(*Tx) error{
		"host": {
			func(tx *Tx) error { _, err := tx.Host("a.example"); return err },
			func(tx *Tx) error { return tx.Hosts(func(Host) error { return nil }) },
			func(tx *Tx) error { _, err := tx.HostsOf(prefix("10.0.0.0/24")); return err },
			func(tx *Tx) error { _, err := tx.Push("a.example", Entry{URL: u}, 0); return err },
		},
		"queue": {func(tx *Tx) error { _, err := tx.Peek("a.example"); return err }},
		"pending": {
			func(tx *Tx) error {
				return tx.PendingOf("a.example",
					func(Pending) (bool, error) { return true, nil })
			},
			func(tx *Tx) error { _, err := tx.PendingHosts(); return err },
		},
		"page": {
			func(tx *Tx) error { _, err := tx.Page(u); return err },
			func(tx *Tx) error { return tx.Pages(func(Page) error { return nil }) },
		},
		"subnet": {
			func(tx *Tx) error { _, err := tx.Subnet(prefix("10.0.0.0/24")); return err },
			func(tx *Tx) error { return tx.Subnets(func(Subnet) error { return nil }) },
		},
		"meta": {func(tx *Tx) error { var s string; return tx.Meta("x", &s) }},
		"seen": {func(tx *Tx) error {
			return tx.SeenDigests("a.example", nil, func(Digest) (bool, error) { return true, nil })
		}},
	}
	update(t, d, func(tx *Tx) error {
		return tx.set(subnetHostKey(prefix("10.0.0.0/24"), "a.example"), nil)
	})
	for name, key := range keys {
		update(t, d, func(tx *Tx) error { return tx.set(key, bad) })
		for i, read := range reads[name] {
			if err := d.View(read); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, read %d: error is %v, want ErrCorrupt", name, i, err)
			}
		}
		update(t, d, func(tx *Tx) error { return tx.del(key) })
	}
}

func TestCorruptCounters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := openOn(t, dir, small)
	if err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *Tx) error { return tx.set(counterStateKey, []byte{0xff}) })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = openOn(t, dir, small)
	wantErr(t, err, ErrCorrupt)
	_, err = openOn(t, dir, small) // not ErrLocked: the failed Open released the lock
	wantErr(t, err, ErrCorrupt)
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.TempDir(), Options{MemTable: 1}); err == nil {
		t.Error("Open() with a memtable of one byte succeeded, want an error")
	}
}

// Run returns nil when its context is canceled, after all of its timers have fired.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, err := Open("", Options{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Minute)
		defer cancel()
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
