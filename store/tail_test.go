package store

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
)

var netA, netB = tailNets[0], tailNets[1]

// tailed is a store with one host in each of two subnets, of which the first is
// logged.
func tailed(t testing.TB, o Options) *DB {
	t.Helper()
	dir := ""
	if !o.InMemory {
		dir = t.TempDir()
	}
	d := open(t, dir, o)
	update(t, d, func(tx *Tx) error {
		tx.PutHost(Host{Name: "a", Subnet: netA})
		tx.PutHost(Host{Name: "b", Subnet: netB})
		return nil
	})
	if err := d.StartTail(netA, 7, TailPos{Log: 3, Seq: 9}); err != nil {
		t.Fatal(err)
	}
	return d
}

func inMemory() Options { return Options{InMemory: true, MemTable: 8 << 20} }

func push(t testing.TB, d *DB, host string, i int) {
	t.Helper()
	update(t, d, func(tx *Tx) error {
		_, err := tx.Push(host, Entry{URL: page(host, i)}, 0)
		return err
	})
}

// replicaOf is a store that holds p as the replica of a peer.
func replicaOf(t testing.TB, from string, ps ...netip.Prefix) *DB {
	t.Helper()
	d := memory(t)
	update(t, d, func(tx *Tx) (err error) {
		for _, p := range ps {
			err = errors.Join(err, tx.PutSubnet(Subnet{Prefix: p, Phase: PhaseShadow, From: from}))
		}
		return err
	})
	return d
}

// records lists the log of p behind after.
func records(t testing.TB, d *DB, p netip.Prefix, after uint64) (raws [][]byte) {
	t.Helper()
	view(t, d, func(tx *Tx) error {
		return tx.Tail(p, after, func(_ uint64, raw []byte) (bool, error) {
			raws = append(raws, raw)
			return true, nil
		})
	})
	return raws
}

func absorb(t testing.TB, d *DB, p netip.Prefix, raws ...[]byte) {
	t.Helper()
	for _, raw := range raws {
		ops, err := DecodeOps(raw)
		if err == nil {
			err = d.Absorb(p, ops, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot returns the state of p in pieces of about budget bytes, and the
// place in the log that it is of.
func snapshot(t testing.TB, d *DB, p netip.Prefix, budget int) (raws [][]byte, head TailPos) {
	t.Helper()
	view(t, d, func(tx *Tx) (err error) {
		if head, _, err = tx.TailHead(p); err != nil {
			return err
		}
		var cursor []byte
		for {
			raw, next, err := tx.Snapshot(p, cursor, budget)
			if err != nil {
				return err
			}
			if raws, cursor = append(raws, raw), next; cursor == nil {
				return nil
			}
		}
	})
	return raws, head
}

func wantHead(t testing.TB, d *DB, p netip.Prefix, want TailPos) {
	t.Helper()
	if head, base, ok := d.TailHead(p); !ok || head != want || base != (TailPos{Log: 3, Seq: 9}) {
		t.Fatalf("head is %v, base %v, %v; want %v", head, base, ok, want)
	}
}

func grown(d *DB) bool {
	select {
	case <-d.TailGrown():
		return true
	default:
		return false
	}
}

// Only what changes the logged subnet is a record, one a transaction.
func TestTailRecords(t *testing.T) {
	d := tailed(t, inMemory())
	grown(d)
	push(t, d, "b", 1)
	if grown(d) {
		t.Error("a change of another subnet counts")
	}
	wantHead(t, d, netA, TailPos{Log: 7})
	var wait sync.WaitGroup
	d.mu.Lock() // so that all of them wait for one transaction
	for i := range 9 {
		wait.Go(func() {
			if err := d.Batch(func(tx *Tx) error {
				_, err := tx.Push("a", Entry{URL: page("a", i)}, 0)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for queued := 0; queued < 8; {
		d.bmu.Lock()
		queued = len(d.calls)
		d.bmu.Unlock()
	}
	d.mu.Unlock()
	wait.Wait()
	if head, _, _ := d.TailHead(netA); head.Seq > 2 || head.Seq == 0 || !grown(d) {
		t.Errorf("nine callers made %d records", head.Seq)
	}
	err := d.Update(func(tx *Tx) error {
		_, _ = tx.Push("a", Entry{URL: page("a", 99)}, 0)
		return errors.New("given up")
	})
	if err == nil || grown(d) {
		t.Error("a transaction that was given up is logged")
	}
	wantErr(t, d.View(func(tx *Tx) error { return tx.Tail(netB, 0, nil) }), ErrTailGone)
	if err := d.StopTail(netA); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := d.TailHead(netA); ok || d.newTxLog() != nil {
		t.Error("a log that was stopped is there")
	}
}

// A log is found again after a restart, with its head, base and records.
func TestTailRestart(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *Tx) error { tx.PutHost(Host{Name: "a", Subnet: netA}); return nil })
	if err := d.StartTail(netA, 7, TailPos{Log: 3, Seq: 9}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		push(t, d, "a", i)
	}
	for _, through := range []uint64{2, 5} {
		if err := d.TrimTail(netA, through); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if d, err = Open(dir, small); err != nil {
			t.Fatal(err)
		}
		wantHead(t, d, netA, TailPos{Log: 7, Seq: 5})
		if n := len(records(t, d, netA, through)); n != 5-int(through) {
			t.Errorf("%d records behind %d", n, through)
		}
		wantErr(t, d.View(func(tx *Tx) error { return tx.Tail(netA, through-1, nil) }), ErrTailGone)
	}
	if m, _ := d.tail.get(netA); m.Bytes != 0 {
		t.Errorf("%d bytes of no record", m.Bytes)
	}
	if err := d.StartTail(netA, 7, TailPos{}); err != nil { // goes on
		t.Fatal(err)
	}
	wantHead(t, d, netA, TailPos{Log: 7, Seq: 5})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A log that would grow beyond its bound is broken: it says so, its owner goes
// on, and another can be begun, which leaves no record of the first.
func TestTailBound(t *testing.T) {
	o := inMemory()
	o.TailMax = 2000
	d := tailed(t, o)
	n := 0
	for ok := true; ok; n++ {
		grown(d)
		push(t, d, "a", n)
		_, _, ok = d.TailHead(netA)
	}
	if n < 4 || n > 40 || !grown(d) {
		t.Errorf("broken after %d", n)
	}
	push(t, d, "a", n+1)
	if len(queue(t, d, "a")) != n+1 {
		t.Error("the owner does not go on")
	}
	wantErr(t, d.View(func(tx *Tx) error { return tx.Tail(netA, 0, nil) }), ErrTailGone)
	wantErr(t, d.StartTail(netA, 7, TailPos{}), ErrTailGone)
	if err := d.StartTail(netA, 8, TailPos{}); err != nil {
		t.Fatal(err)
	}
	if n := len(records(t, d, netA, 0)); n != 0 {
		t.Errorf("%d records in a new log", n)
	}
	view(t, d, func(tx *Tx) error {
		keys, err := tx.staleKeys([]byte{spaceLog}, "", "", nil, 10)
		if len(keys) > 0 {
			t.Errorf("%d records of a broken log are left", len(keys))
		}
		return err
	})
}

// A host that comes with much breaks the log; one with little does not.
func TestTailHostMovesIn(t *testing.T) {
	for _, n := range []int{10, 5000} {
		d := tailed(t, inMemory())
		for i := 0; i < n; i += 500 {
			update(t, d, func(tx *Tx) error {
				for j := range min(n, 500) {
					if _, err := tx.Push("b", Entry{URL: page("b", i+j)}, 0); err != nil {
						return err
					}
				}
				return nil
			})
		}
		r := replicaOf(t, "peer", netA)
		raws, _ := snapshot(t, d, netA, 1<<16)
		absorb(t, r, netA, raws...)
		update(t, d, func(tx *Tx) error {
			h, err := tx.Host("b")
			h.Subnet = netA
			return err
		})
		_, _, ok := d.TailHead(netA)
		if ok != (n == 10) {
			t.Errorf("a host with %d URLs moves in: logged is %v", n, ok)
		}
		if ok {
			absorb(t, r, netA, records(t, d, netA, 0)...)
			if got := len(queue(t, r, "b")); got != n {
				t.Errorf("%d URLs have moved, want %d", got, n)
			}
		}
	}
}

// Cursors and records come from others.
func TestForeignCursor(t *testing.T) {
	d := tailed(t, inMemory())
	for _, c := range []walkCursor{{Stage: -1}, {Stage: 99}, {Host: "a\x00"}, {Stage: 2, After: make([]byte, 99)}} {
		b, err := encMode.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, d.View(func(tx *Tx) error { _, _, err := tx.Snapshot(netA, b, 100); return err }), ErrBadOps)
	}
	for _, raw := range []string{"", "\x00", "\x02x", "\x01x", "\x00\x9f", "\x00\x80x"} {
		if _, err := DecodeOps([]byte(raw)); !errors.Is(err, ErrBadOps) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// What is logged counts when callers share a transaction.
func TestTailCounts(t *testing.T) {
	d := tailed(t, inMemory())
	d.threshold = d.limits.Bytes // as if all values were kept with their keys
	update(t, d, func(tx *Tx) error {
		for i := 0; !tx.full(); i++ {
			if err := tx.PutState("a", make([]byte, 1000)); err != nil {
				return err
			}
			if i > 1000 {
				t.Fatal("never full")
			}
		}
		if tx.size > tx.d.limits.Bytes/3 {
			t.Errorf("full at %d: the log does not count", tx.size)
		}
		return nil
	})
}

// With a log, too, a thousand URLs go into one transaction.
func TestThousandURLsLogged(t *testing.T) {
	for _, length := range []int{100, 1000, 2048} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			d := tailed(t, small)
			if err := d.StartTail(netB, 8, TailPos{}); err != nil {
				t.Fatal(err)
			}
			update(t, d, func(tx *Tx) error {
				for i := range 1000 {
					if _, err := tx.Defer(Pending{URL: longURL("a", i, length), Found: when, From: "b"}); err != nil {
						return err
					}
				}
				return nil
			})
			update(t, d, func(tx *Tx) error {
				for i := range 1000 {
					u := longURL("a", i, length)
					if _, err := tx.Push("a", Entry{URL: u, From: "b"}, 0); err != nil {
						return fmt.Errorf("push %d: %w", i, err)
					}
					if err := tx.Undefer(u); err != nil {
						return err
					}
				}
				return tx.PutPage(bigPage(1000))
			})
			if err := d.TrimTail(netA, 1<<40); err != nil {
				t.Fatal(err)
			}
			r := replicaOf(t, "peer", netA, netB)
			raws, _ := snapshot(t, d, netA, 1<<20)
			absorb(t, r, netA, raws...)
			raws, _ = snapshot(t, d, netB, 1<<20)
			absorb(t, r, netB, raws...)
			if n := len(queue(t, r, "a")); n != 1000 {
				t.Errorf("%d entries, want 1000", n)
			}
			if got := dumpSubnet(t, r, netB, false); len(got) != 1 {
				t.Errorf("%d, want the host's record: what is trimmed is safe", len(got))
			}
		})
	}
}
