package store

import (
	"context"
	"errors"
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
	dir := t.TempDir()
	open(t, dir, small)
	_, err := openOn(t, dir, small)
	wantErr(t, err, ErrLocked)
	if os.Getenv(engineEnv) == "" && !strings.Contains(err.Error(), dir) {
		t.Errorf("error %q does not name the folder", err)
	}
}

func TestOpenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "store") // is made
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

func TestVersion(t *testing.T) {
	t.Run("another", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "VERSION", "peerd-store-0\n")
		_, err := Open(dir, small)
		wantErr(t, err, ErrVersion)
		if !strings.Contains(err.Error(), "peerd-store-0") {
			t.Errorf("error %q does not name the version found", err)
		}
	})
	t.Run("empty", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "VERSION", "")
		_, err := Open(dir, small)
		wantErr(t, err, ErrVersion)
	})
	t.Run("somebody else's badger", func(t *testing.T) {
		dir := t.TempDir()
		b, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = Open(dir, small)
		wantErr(t, err, ErrVersion)
	})
	t.Run("cut short before badger's first file", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "VERSION", Version+"\n")
		open(t, dir, small)
	})
	t.Run("cannot be read", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "VERSION"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, small); err == nil || errors.Is(err, ErrVersion) {
			t.Fatalf("error is %v", err)
		}
	})
	t.Run("not a folder", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "file", "")
		if _, err := Open(filepath.Join(dir, "file"), small); err == nil {
			t.Fatal("opened")
		}
	})
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
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
		if _, err := tx.Defer(Pending{URL: "http://c.example/"}); err != nil {
			return err
		}
		return stop
	})
	wantErr(t, err, stop)
	view(t, d, func(tx *Tx) error {
		_, err := tx.Host("b.example")
		wantErr(t, err, ErrNotFound)
		h, err := tx.Host("a.example")
		if err != nil || h.Pending != 1 || h.Known != 1 {
			t.Errorf("host is %+v, %v", h, err)
		}
		if ok, err := tx.Waiting("http://c.example/"); ok || err != nil {
			t.Errorf("waiting: %v, %v", ok, err)
		}
		return nil
	})
	if d.Counters() != before {
		t.Errorf("counters are %+v, were %+v", d.Counters(), before)
	}
	if n := len(queue(t, d, "a.example")); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// A transaction sees what it has done itself, through every way of reading.
func TestOwnWrites(t *testing.T) {
	d := memory(t)
	update(t, d, func(tx *Tx) error {
		tx.PutHost(Host{Name: "a.example"})
		if _, err := tx.Push("a.example", Entry{URL: "http://a.example/"}, 0); err != nil {
			return err
		}
		var hosts []Host
		if err := tx.Hosts(func(h Host) error { hosts = append(hosts, h); return nil }); err != nil {
			return err
		}
		if len(hosts) != 1 || hosts[0].Pending != 1 {
			t.Errorf("hosts are %+v", hosts)
		}
		e, err := tx.Peek("a.example")
		if err != nil || e.URL != "http://a.example/" {
			t.Errorf("peek: %+v, %v", e, err)
		}
		if ok, err := tx.Seen("http://a.example/"); !ok || err != nil {
			t.Errorf("seen: %v, %v", ok, err)
		}
		return nil
	})
}

func TestClosed(t *testing.T) {
	d, err := openOn(t, "", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	nothing := func(*Tx) error { t.Error("called"); return nil }
	wantErr(t, d.Update(nothing), kv.ErrClosed)
	wantErr(t, d.View(nothing), kv.ErrClosed)
}

func TestViewCannotWrite(t *testing.T) {
	d := memory(t)
	err := d.View(func(tx *Tx) error { return tx.PutData("k", nil) })
	wantErr(t, err, kv.ErrReadOnly)
}

func TestLedgerSurvives(t *testing.T) {
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
			t.Errorf("open %d: seq is %d, want %d", i, d.seq, seq)
		}
		update(t, d, func(tx *Tx) error {
			tx.Count(all)
			return tx.Import("a.example", []Entry{{URL: page("a.example", i)}}, nil)
		})
		if got := d.Counters(); got != want {
			t.Errorf("open %d: counters are %+v, want %+v", i, got, want)
		}
		seq = d.seq
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, dir, small)
	if d.Counters() != twice || d.seq != 2 {
		t.Errorf("counters are %+v, seq %d", d.Counters(), d.seq)
	}
	if n := len(queue(t, d, "a.example")); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}

func TestCorrupt(t *testing.T) {
	d := memory(t)
	const u = URL("http://a.example/")
	bad := []byte{0xff, 0x00, 0x13}
	keys := map[string][]byte{
		"host": spaceKey(spaceHost, "a.example"), "queue": queueKey("a.example", 0, 1),
		"pending": digestKey(spacePending, "a.example", u.Digest()), "page": digestKey(spacePage, "a.example", u.Digest()),
		"subnet": subnetKey(prefix("10.0.0.0/24")), "meta": spaceKey(spaceMeta, "v/x"),
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
			func(tx *Tx) error { return tx.Deferred("a.example", func(Pending) (bool, error) { return true, nil }) },
			func(tx *Tx) error { _, err := tx.DeferredHosts(); return err },
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
	update(t, d, func(tx *Tx) error { return tx.set(homeKey(prefix("10.0.0.0/24"), "a.example"), nil) })
	for name, key := range keys {
		update(t, d, func(tx *Tx) error { return tx.set(key, bad) })
		for i, read := range reads[name] {
			if err := d.View(read); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, read %d: error is %v", name, i, err)
			}
		}
		update(t, d, func(tx *Tx) error { return tx.del(key) })
	}
}

func TestCorruptLedger(t *testing.T) {
	dir := t.TempDir()
	d, err := openOn(t, dir, small)
	if err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *Tx) error { return tx.set(ledgerKey, []byte{0xff}) })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = openOn(t, dir, small)
	wantErr(t, err, ErrCorrupt)
	_, err = openOn(t, dir, small) // and not ErrLocked: the failed Open let go
	wantErr(t, err, ErrCorrupt)
}

func TestBadOptions(t *testing.T) {
	if _, err := Open(t.TempDir(), Options{MemTable: 1}); err == nil {
		t.Error("opened with a memtable of a byte")
	}
}

// Run has nothing to do here but to end, and to survive its rounds.
func TestRun(t *testing.T) {
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
