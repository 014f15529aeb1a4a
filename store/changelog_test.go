package store

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

var netA, netB = logNets[0], logNets[1]

// logged returns a store with one host in each of two subnets; the first is logged.
func logged(t testing.TB, o Options) *DB {
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
	if err := d.StartLog(netA, 7, LogPos{Log: 3, Seq: 9}); err != nil {
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

// replicaOf returns the store of a replica of ps, which are owned by the peer from.
func replicaOf(t testing.TB, from string, ps ...netip.Prefix) *DB {
	t.Helper()
	d := memory(t)
	update(t, d, func(tx *Tx) (err error) {
		for _, p := range ps {
			err = errors.Join(err,
				tx.PutSubnet(Subnet{Prefix: p, Phase: PhaseReplica, Owner: from}))
		}
		return err
	})
	return d
}

// records returns the records of the change log of p behind after.
func records(t testing.TB, d *DB, p netip.Prefix, after uint64) (raws [][]byte) {
	t.Helper()
	view(t, d, func(tx *Tx) error {
		return tx.LogRecords(p, after, func(_ uint64, raw []byte) (bool, error) {
			raws = append(raws, raw)
			return true, nil
		})
	})
	return raws
}

func apply(t testing.TB, d *DB, p netip.Prefix, raws ...[]byte) {
	t.Helper()
	for _, raw := range raws {
		ops, err := DecodeOps(raw)
		if err == nil {
			err = d.Apply(p, ops, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot returns the state of p in pieces of about budget bytes, and the log position
// of that state.
func snapshot(t testing.TB, d *DB, p netip.Prefix, budget int) (raws [][]byte, head LogPos) {
	t.Helper()
	view(t, d, func(tx *Tx) (err error) {
		if head, _, err = tx.LogHead(p); err != nil {
			return err
		}
		var cursor []byte
		for {
			raw, next, err := tx.Snapshot(p, cursor, budget)
			if err != nil {
				return err
			}
			checkCovers(t, cursor, next, raw)
			if raws, cursor = append(raws, raw), next; cursor == nil {
				return nil
			}
		}
	})
	return raws, head
}

// checkCovers fails unless a piece of a snapshot covers what is between two cursors, and no longer
// does without any one of the operations that do that.
func checkCovers(t interface{ Fatalf(string, ...any) }, after, next, raw []byte) {
	ops, err := DecodeOps(raw)
	if err != nil || !Covers(after, next, ops) {
		t.Fatalf("the piece from %x to %x does not cover that, %v", after, next, err)
	}
	for i, o := range ops {
		switch o.Kind {
		case OpClear, OpClearHosts, OpClearOutlinks, OpHost, OpState, OpDeleteState:
			if Covers(after, next, slices.Delete(slices.Clone(ops), i, i+1)) {
				t.Fatalf("the piece from %x to %x covers that without operation %d, %v", after,
					next, i, o.Kind)
			}
		}
	}
}

func wantHead(t testing.TB, d *DB, p netip.Prefix, want LogPos) {
	t.Helper()
	if head, base, ok := d.LogHead(p); !ok || head != want || base != (LogPos{Log: 3, Seq: 9}) {
		t.Fatalf("LogHead() = %v, %v, %v, want head %v, base {3 9}", head, base, ok, want)
	}
}

func logChanged(d *DB) bool {
	select {
	case <-d.LogChanged():
		return true
	default:
		return false
	}
}

// Each transaction that changes the logged subnet is one record, others are none.
func TestLogRecords(t *testing.T) {
	t.Parallel()
	d := logged(t, inMemory())
	logChanged(d)
	push(t, d, "b", 1)
	if logChanged(d) {
		t.Error("LogChanged() signals a change of another subnet")
	}
	wantHead(t, d, netA, LogPos{Log: 7})
	var wait sync.WaitGroup
	d.mu.Lock() // all of them wait for one transaction
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
	for queued := 0; queued < 8; runtime.Gosched() {
		d.bmu.Lock()
		queued = len(d.calls)
		d.bmu.Unlock()
	}
	d.mu.Unlock()
	wait.Wait()
	if head, _, _ := d.LogHead(netA); head.Seq > 2 || head.Seq == 0 || !logChanged(d) {
		t.Errorf("nine callers made %d records, want 1 or 2, and a signal", head.Seq)
	}
	err := d.Update(func(tx *Tx) error {
		_, _ = tx.Push("a", Entry{URL: page("a", 99)}, 0)
		return errors.New("failed")
	})
	if err == nil || logChanged(d) {
		t.Error("LogChanged() signals a failed transaction")
	}
	wantErr(t, d.View(func(tx *Tx) error { return tx.LogRecords(netB, 0, nil) }), ErrNotInLog)
	if err := d.StopLog(netA); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := d.LogHead(netA); ok || d.newTxLog() != nil {
		t.Error("the log still exists after StopLog()")
	}
}

// A log survives a restart, with its head, base and records.
func TestLogRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := Open(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *Tx) error { tx.PutHost(Host{Name: "a", Subnet: netA}); return nil })
	if err := d.StartLog(netA, 7, LogPos{Log: 3, Seq: 9}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		push(t, d, "a", i)
	}
	for _, through := range []uint64{2, 5} {
		if err := d.TrimLog(netA, through); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if d, err = Open(dir, small); err != nil {
			t.Fatal(err)
		}
		wantHead(t, d, netA, LogPos{Log: 7, Seq: 5})
		if n := len(records(t, d, netA, through)); n != 5-int(through) {
			t.Errorf("found %d records behind %d, want %d", n, through, 5-int(through))
		}
		wantErr(t, d.View(func(tx *Tx) error {
			return tx.LogRecords(netA, through-1, nil)
		}), ErrNotInLog)
	}
	if m, _ := d.logs.get(netA); m.Bytes != 0 {
		t.Errorf("log without records has %d bytes, want 0", m.Bytes)
	}
	if err := d.StartLog(netA, 7, LogPos{}); err != nil { // the log continues
		t.Fatal(err)
	}
	wantHead(t, d, netA, LogPos{Log: 7, Seq: 5})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A log that exceeds its maximum size is broken: it signals that, the owner continues to
// write, and starting another log deletes all records of the broken one.
func TestLogBound(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.MaxChangeLog = 2000
	d := logged(t, o)
	n := 0
	for ok := true; ok; n++ {
		logChanged(d)
		push(t, d, "a", n)
		_, _, ok = d.LogHead(netA)
	}
	if n < 4 || n > 40 || !logChanged(d) {
		t.Errorf("log was broken after %d transactions, want 4 to 40, and a signal", n)
	}
	push(t, d, "a", n+1)
	if len(queue(t, d, "a")) != n+1 {
		t.Errorf("queue has %d entries, want %d", len(queue(t, d, "a")), n+1)
	}
	wantErr(t, d.View(func(tx *Tx) error { return tx.LogRecords(netA, 0, nil) }), ErrNotInLog)
	wantErr(t, d.StartLog(netA, 7, LogPos{}), ErrNotInLog)
	if err := d.StartLog(netA, 8, LogPos{}); err != nil {
		t.Fatal(err)
	}
	if n := len(records(t, d, netA, 0)); n != 0 {
		t.Errorf("new log has %d records, want 0", n)
	}
	view(t, d, func(tx *Tx) error {
		keys, err := tx.keysToClear([]byte{spaceLog}, "", "", nil, 10)
		if len(keys) > 0 {
			t.Errorf("found %d records of the broken log, want 0", len(keys))
		}
		return err
	})
}

// A host with much data that comes into a subnet breaks its log; one with little does not.
func TestLogHostMovesIn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 5000} {
		d := logged(t, inMemory())
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
		apply(t, r, netA, raws...)
		update(t, d, func(tx *Tx) error {
			h, err := tx.Host("b")
			h.Subnet = netA
			return err
		})
		_, _, ok := d.LogHead(netA)
		if ok != (n == 10) {
			t.Errorf("after a host with %d URLs came, LogHead() = %v, want %v", n, ok, n == 10)
		}
		if ok {
			apply(t, r, netA, records(t, d, netA, 0)...)
			if got := len(queue(t, r, "b")); got != n {
				t.Errorf("replica has %d URLs of the host, want %d", got, n)
			}
		}
	}
}

// Invalid cursors and records of other peers are refused.
func TestInvalidCursor(t *testing.T) {
	t.Parallel()
	d := logged(t, inMemory())
	for _, c := range []snapshotCursor{{Stage: -1}, {Stage: 99}, {Host: "a\x00"},
		{Stage: 2, After: make([]byte, 99)}} {
		b, err := encMode.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, d.View(func(tx *Tx) error {
			_, _, err := tx.Snapshot(netA, b, 100)
			return err
		}), ErrInvalidOps)
	}
	for _, raw := range []string{"", "\x00", "\x02x", "\x01x", "\x00\x9f", "\x00\x80x"} {
		if _, err := DecodeOps([]byte(raw)); !errors.Is(err, ErrInvalidOps) {
			t.Errorf("DecodeOps(%q) = %v, want ErrInvalidOps", raw, err)
		}
	}
}

// Log records count towards the limit of a shared transaction.
func TestLogCountsTowardsLimit(t *testing.T) {
	t.Parallel()
	d := logged(t, inMemory())
	d.threshold = d.limits.Bytes // all values count
	update(t, d, func(tx *Tx) error {
		for i := 0; !tx.nearLimit(); i++ {
			if err := tx.PutState("a", make([]byte, 1000)); err != nil {
				return err
			}
			if i > 1000 {
				t.Fatal("nearLimit() = false after 1000 values, want true")
			}
		}
		if tx.size > tx.d.limits.Bytes/3 {
			t.Errorf("size at the limit is %d, want at most %d", tx.size, tx.d.limits.Bytes/3)
		}
		return nil
	})
}

// One transaction can queue a thousand URLs even if the subnets are logged.
func TestThousandURLsLogged(t *testing.T) {
	t.Parallel()
	for _, length := range []int{100, 1000, 2048} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			d := logged(t, small)
			if err := d.StartLog(netB, 8, LogPos{}); err != nil {
				t.Fatal(err)
			}
			update(t, d, func(tx *Tx) error {
				for i := range 1000 {
					if _, err := tx.AddPending(Pending{URL: longURL("a", i, length), Found: when,
						From: "b"}); err != nil {
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
					if err := tx.RemovePending(u); err != nil {
						return err
					}
				}
				return tx.PutPage(bigPage(1000))
			})
			if err := d.TrimLog(netA, 1<<40); err != nil {
				t.Fatal(err)
			}
			r := replicaOf(t, "peer", netA, netB)
			raws, _ := snapshot(t, d, netA, 1<<20)
			apply(t, r, netA, raws...)
			raws, _ = snapshot(t, d, netB, 1<<20)
			apply(t, r, netB, raws...)
			if n := len(queue(t, r, "a")); n != 1000 {
				t.Errorf("queue has %d entries, want 1000", n)
			}
			if got := dumpSubnet(t, r, netB, false); len(got) != 1 {
				t.Errorf("replica has %d records, want the host's only: the cross-links are "+
					"released", len(got))
			}
		})
	}
}

// What a transaction changes in a host that leaves its subnet and comes back is logged.
func TestLogHostLeavesAndReturns(t *testing.T) {
	t.Parallel()
	d := logged(t, inMemory())
	update(t, d, func(tx *Tx) error {
		h, err := tx.Host("a")
		if err != nil {
			return err
		}
		h.Subnet = netB // is not logged
		err = tx.PutVisit(Visit{URL: page("a", 1), Due: time.Unix(1e9, 0)})
		h.Subnet = netA
		return err
	})
	r := replicaOf(t, "owner", netA)
	apply(t, r, netA, records(t, d, netA, 0)...)
	view(t, r, func(tx *Tx) error {
		_, err := tx.Visit(page("a", 1))
		return err
	})
}
