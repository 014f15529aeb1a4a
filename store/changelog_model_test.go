package store

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var logNets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"),
	netip.MustParsePrefix("10.0.1.0/24")}

// logWorld is an owner of two logged subnets with random transactions, and a replica that
// follows both logs independently.
type logWorld struct {
	owner, replica *DB
	followers      map[netip.Prefix]*follower
	clock          int
	logs           uint64

	// states are the states of the owner by log position. They are used if there is only
	// one log.
	states map[uint64]map[string]string

	moved []movedHost // by moves that may not have been logged in the subnet before
}

type movedHost struct {
	name string
	from netip.Prefix
}

// follower is the progress of the replica in one subnet, as the owner knows it.
type follower struct {
	cursor  []byte
	done    bool
	start   uint64 // head of the first view of the snapshot
	seq     uint64 // applied up to
	maxView uint64
}

func (x *logWorld) update(t *rapid.T, fn func(*Tx) error) {
	err := x.owner.Update(fn)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

func (x *logWorld) now() time.Time {
	x.clock++
	return when.Truncate(time.Second).Add(time.Duration(x.clock) * time.Second)
}

func (x *logWorld) drawNet(t *rapid.T) netip.Prefix {
	return rapid.SampledFrom(x.nets()).Draw(t, "net")
}

// nets returns the subnets of the test.
func (x *logWorld) nets() []netip.Prefix {
	if x.states != nil {
		return logNets[:1]
	}
	return logNets
}

// Change makes a few random changes in one transaction, which fails sometimes.
func (x *logWorld) Change(t *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(t, "changes")
	fail := rapid.IntRange(0, 9).Draw(t, "fail") == 0
	errFail := errors.New("failed")
	err := x.owner.Update(func(tx *Tx) error {
		for range n {
			if err := x.change(t, tx); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		if fail {
			return errFail
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFail) {
		t.Fatal(err)
	}
}

func (x *logWorld) change(t *rapid.T, tx *Tx) (err error) {
	name := drawHost(t)
	u := drawURL(t, name)
	depth := rapid.IntRange(0, 2).Draw(t, "depth")
	first, _ := tx.Peek(name)
	switch rapid.IntRange(0, 19).Draw(t, "what") {
	case 0:
		tx.PutHost(Host{Name: name, Subnet: x.drawNet(t), NextAt: x.now()})
	case 1:
		if h, err := tx.Host(name); err == nil {
			h.Subnet = x.drawNet(t)
		}
	case 2, 3, 4:
		from := rapid.SampledFrom(append(modelHosts, "")).Draw(t, "from")
		_, err = tx.Push(name, Entry{URL: u, Depth: depth, From: from}, 0)
	case 5:
		_, err = tx.PushRevisit(name, Entry{URL: u, Depth: depth})
	case 6:
		err = tx.MarkSeen(u)
	case 7:
		if first.Key != nil {
			err = tx.Remove(name, first)
		}
	case 8:
		if first.Key != nil {
			err = tx.Defer(name, first)
		}
	case 9:
		err = tx.PutVisit(Visit{URL: u, Due: x.now(), History: []byte("h")})
	case 10:
		_, err = tx.TakeDue(name, x.now(), 1)
	case 11:
		err = tx.DeleteVisit(u)
	case 12:
		err = errors.Join(tx.PutState(name, []byte(x.now().String())),
			tx.PutRobots(u.Origin(), []byte(x.now().String())))
	case 13:
		from := rapid.SampledFrom(append(modelHosts, "", "unknown")).Draw(t, "from")
		_, err = tx.AddPending(Pending{URL: page("far", rapid.IntRange(0, 9).Draw(t, "far")),
			From: from, Found: x.now()})
	case 14:
		err = tx.RemovePending(page("far", rapid.IntRange(0, 9).Draw(t, "far")))
	case 15:
		err = tx.GiveUp(GivenUp{URL: u, Depth: depth, At: x.now(), Error: "no answer"})
	case 16:
		err = tx.PushAgain(name, Entry{URL: u, Depth: depth, First: x.now()})
	case 17:
		if h, err := tx.Host(name); err == nil {
			h.Health = Health{State: HostFailing, Failures: depth, Error: "no answer"}
		}
	case 18:
		if h, err := tx.Host(name); err == nil {
			x.moved = append(x.moved, movedHost{name, h.Subnet})
			return tx.MoveHost(name, x.drawNet(t), netip.Addr{})
		}
	case 19:
		err = tx.Hosts(func(Host) error { return nil }) // writes the records
	}
	return err
}

func (x *logWorld) DropHost(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "drop") > 0 {
		t.Skip("rare")
	}
	if err := x.owner.DropHost(drawHost(t)); err != nil {
		t.Fatal(err)
	}
}

// LogMoved logs that hosts have left their subnets.
func (x *logWorld) LogMoved(t *rapid.T) {
	x.update(t, func(tx *Tx) error {
		var errs []error
		for _, m := range x.moved {
			errs = append(errs, tx.LogMoved(m.name, m.from))
		}
		return errors.Join(errs...)
	})
	x.moved = nil
}

// Piece sends one piece of a snapshot, read in a View of its own.
func (x *logWorld) Piece(t *rapid.T) {
	x.piece(t, x.drawNet(t), rapid.IntRange(1, 800).Draw(t, "budget"))
}

func (x *logWorld) piece(t *rapid.T, p netip.Prefix, budget int) {
	f := x.followers[p]
	if f.done {
		return
	}
	var raw, next []byte
	err := x.owner.View(func(tx *Tx) error {
		head, ok, err := tx.LogHead(p)
		if err != nil || !ok {
			return fmt.Errorf("no head: %w", err)
		}
		if f.cursor == nil {
			f.start, f.seq, f.maxView = head.Seq, head.Seq, head.Seq
		}
		f.maxView = max(f.maxView, head.Seq)
		raw, next, err = tx.Snapshot(p, f.cursor, budget)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	checkCovers(t, f.cursor, next, raw)
	x.apply(t, p, raw)
	f.cursor, f.done = next, next == nil
}

func (x *logWorld) apply(t *rapid.T, p netip.Prefix, raw []byte) {
	ops, err := DecodeOps(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.replica.Apply(p, ops, nil); err != nil {
		t.Fatal(err)
	}
}

// Records sends some records of the log, if a snapshot has been started.
func (x *logWorld) Records(t *rapid.T) {
	x.records(t, x.drawNet(t), rapid.IntRange(1, 5).Draw(t, "records"))
}

func (x *logWorld) records(t *rapid.T, p netip.Prefix, n int) {
	f := x.followers[p]
	if f.cursor == nil && !f.done {
		return
	}
	var raws [][]byte
	err := x.owner.View(func(tx *Tx) error {
		return tx.LogRecords(p, f.seq, func(seq uint64, raw []byte) (bool, error) {
			if seq != f.seq+1 {
				t.Fatalf("got record %d, want %d", seq, f.seq+1)
			}
			f.seq = seq
			raws = append(raws, raw)
			return len(raws) < n, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range raws {
		x.apply(t, p, raw)
	}
}

// Reapply lets the replica apply records again, as after a crash.
func (x *logWorld) Reapply(t *rapid.T) {
	f := x.followers[x.drawNet(t)]
	if f.done && f.seq > f.start {
		f.seq = f.start + uint64(rapid.IntRange(0, int(f.seq-f.start)).Draw(t, "back to"))
	}
}

// Restart starts another snapshot, and sometimes another log.
func (x *logWorld) Restart(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "restart") > 0 {
		t.Skip("rare")
	}
	p := x.drawNet(t)
	if rapid.Bool().Draw(t, "other log") {
		x.logs++
		if err := x.owner.StartLog(p, x.logs, LogPos{}); err != nil {
			t.Fatal(err)
		}
	}
	x.followers[p] = &follower{}
}

// Trim trims the log behind the records that the replica has applied.
func (x *logWorld) Trim(t *rapid.T) {
	p := x.drawNet(t)
	if f := x.followers[p]; f.done {
		if err := x.owner.TrimLog(p, f.seq); err != nil {
			t.Fatal(err)
		}
		f.start = f.seq
	}
}

// CatchUp brings the replica up to date and compares it with the owner.
func (x *logWorld) CatchUp(t *rapid.T) {
	x.LogMoved(t)
	for _, p := range x.nets() {
		for !x.followers[p].done {
			x.piece(t, p, 1<<16)
		}
		x.records(t, p, 1<<20)
	}
	for _, p := range x.nets() {
		want, got := dumpSubnet(t, x.owner, p, true), dumpSubnet(t, x.replica, p, false)
		if !maps.Equal(want, got) {
			t.Fatalf("%v:\n%s", p, diff(want, got))
		}
	}
}

// Check compares the replica with the state of the owner at the same position.
func (x *logWorld) Check(t *rapid.T) {
	if x.states == nil {
		return
	}
	head, _, _ := x.owner.LogHead(netA)
	if x.states[head.Seq] == nil {
		x.states[head.Seq] = dumpSubnet(t, x.owner, netA, true)
	}
	f := x.followers[netA]
	want := x.states[f.seq]
	if !f.done || f.seq < f.maxView || want == nil {
		return
	}
	if got := dumpSubnet(t, x.replica, netA, false); !maps.Equal(want, got) {
		t.Fatalf("at %d:\n%s", f.seq, diff(want, got))
	}
}

func tiny(t testing.TB) *DB {
	t.Helper()
	d, err := Open("", Options{InMemory: true, MemTable: 1 << 20,
		IndexCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A snapshot read in several Views while transactions continue, and the records since its
// start, give the owner's state; also if the replica applies records again, if a snapshot
// is applied to an older copy, and if hosts change their subnet.
func TestLogModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		x := newLogWorld(t, rt, nil)
		defer x.close()
		rt.Repeat(rapid.StateMachineActions(x))
		x.CatchUp(rt)
	})
}

// After each record behind the snapshot, the replica has the state that the owner had
// there: it may be promoted at any of them.
func TestLogPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		x := newLogWorld(t, rt, map[uint64]map[string]string{})
		defer x.close()
		act := rapid.StateMachineActions(x)
		for _, name := range []string{"Restart", "Reapply"} {
			delete(act, name)
		}
		rt.Repeat(act)
		x.CatchUp(rt)
	})
}

// newLogWorld returns a logWorld with some data from before the start of the logs.
func newLogWorld(t *testing.T, rt *rapid.T, states map[uint64]map[string]string) *logWorld {
	x := &logWorld{owner: tiny(t), replica: tiny(t), followers: map[netip.Prefix]*follower{},
		states: states}
	for range 5 {
		x.update(rt, func(tx *Tx) error { return x.change(rt, tx) })
	}
	for _, p := range x.nets() {
		x.follow(rt, p)
	}
	return x
}

func (x *logWorld) follow(t *rapid.T, p netip.Prefix) {
	x.followers[p] = &follower{}
	x.logs++
	if err := x.owner.StartLog(p, x.logs, LogPos{}); err != nil {
		t.Fatal(err)
	}
	err := x.replica.Update(func(tx *Tx) error {
		return tx.PutSubnet(Subnet{Prefix: p, Phase: PhaseReplica, Owner: "peer"})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (x *logWorld) close() { _ = errors.Join(x.owner.Close(), x.replica.Close()) }
