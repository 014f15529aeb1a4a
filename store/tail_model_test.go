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

var tailNets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.1.0/24")}

// tailWorld is an owner of two logged subnets with random transactions, and a
// replica that follows both, each at its own pace.
type tailWorld struct {
	owner, replica *DB
	fol            map[netip.Prefix]*follower
	clock          int
	logs           uint64

	// states are what the owner had at places of the log, where nothing but
	// that log decides what the replica has.
	states map[uint64]map[string]string
}

// follower is what a replica's sender knows of one subnet.
type follower struct {
	cursor  []byte
	done    bool
	start   uint64 // head of the first view of the snapshot
	seq     uint64 // applied up to
	maxView uint64
}

func (x *tailWorld) update(t *rapid.T, fn func(*Tx) error) {
	err := x.owner.Update(fn)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

func (x *tailWorld) now() time.Time {
	x.clock++
	return when.Truncate(time.Second).Add(time.Duration(x.clock) * time.Second)
}

func (x *tailWorld) drawNet(t *rapid.T) netip.Prefix {
	return rapid.SampledFrom(x.nets()).Draw(t, "net")
}

// nets are the subnets in the game.
func (x *tailWorld) nets() []netip.Prefix {
	if x.states != nil {
		return tailNets[:1]
	}
	return tailNets
}

// Change does a few random changes in one transaction, some of which are given
// up.
func (x *tailWorld) Change(t *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(t, "changes")
	fail := rapid.IntRange(0, 9).Draw(t, "give up") == 0
	giveUp := errors.New("given up")
	err := x.owner.Update(func(tx *Tx) error {
		for range n {
			if err := x.change(t, tx); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		if fail {
			return giveUp
		}
		return nil
	})
	if err != nil && !errors.Is(err, giveUp) {
		t.Fatal(err)
	}
}

func (x *tailWorld) change(t *rapid.T, tx *Tx) (err error) {
	name := drawHost(t)
	u := drawURL(t, name)
	depth := rapid.IntRange(0, 2).Draw(t, "depth")
	first, _ := tx.Peek(name)
	switch rapid.IntRange(0, 15).Draw(t, "what") {
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
		_, err = tx.PushAgain(name, Entry{URL: u, Depth: depth})
	case 6:
		err = tx.MarkSeen(u)
	case 7:
		if first.Key != nil {
			err = tx.Remove(name, first)
		}
	case 8:
		if first.Key != nil {
			err = tx.Requeue(name, first)
		}
	case 9:
		err = tx.PutVisit(Visit{URL: u, Due: x.now(), History: []byte("h")})
	case 10:
		_, err = tx.TakeDue(name, x.now(), 1)
	case 11:
		err = tx.DeleteVisit(u)
	case 12:
		err = errors.Join(tx.PutState(name, []byte(x.now().String())), tx.PutRobots(u.Origin(), []byte(x.now().String())))
	case 13:
		from := rapid.SampledFrom(append(modelHosts, "", "unknown")).Draw(t, "from")
		_, err = tx.Defer(Pending{URL: page("far", rapid.IntRange(0, 9).Draw(t, "far")), From: from, Found: x.now()})
	case 14:
		err = tx.Undefer(page("far", rapid.IntRange(0, 9).Draw(t, "far")))
	case 15:
		err = tx.Hosts(func(Host) error { return nil }) // writes the records
	}
	return err
}

func (x *tailWorld) DropHost(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "drop") > 0 {
		t.Skip("rare")
	}
	if err := x.owner.DropHost(drawHost(t)); err != nil {
		t.Fatal(err)
	}
}

// Piece sends one piece of a snapshot, read in a view of its own.
func (x *tailWorld) Piece(t *rapid.T) {
	x.piece(t, x.drawNet(t), rapid.IntRange(1, 800).Draw(t, "budget"))
}

func (x *tailWorld) piece(t *rapid.T, p netip.Prefix, budget int) {
	f := x.fol[p]
	if f.done {
		return
	}
	var raw, next []byte
	err := x.owner.View(func(tx *Tx) error {
		head, ok, err := tx.TailHead(p)
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
	x.absorb(t, p, raw)
	f.cursor, f.done = next, next == nil
}

func (x *tailWorld) absorb(t *rapid.T, p netip.Prefix, raw []byte) {
	ops, err := DecodeOps(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.replica.Absorb(p, ops, nil); err != nil {
		t.Fatal(err)
	}
}

// Records sends some records, as far as the pieces sent allow it: all that are
// in the log now.
func (x *tailWorld) Records(t *rapid.T) {
	x.records(t, x.drawNet(t), rapid.IntRange(1, 5).Draw(t, "records"))
}

func (x *tailWorld) records(t *rapid.T, p netip.Prefix, n int) {
	f := x.fol[p]
	if f.cursor == nil && !f.done {
		return
	}
	var raws [][]byte
	err := x.owner.View(func(tx *Tx) error {
		return tx.Tail(p, f.seq, func(seq uint64, raw []byte) (bool, error) {
			if seq != f.seq+1 {
				t.Fatalf("record %d after %d", seq, f.seq)
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
		x.absorb(t, p, raw)
	}
}

// Again has a replica that crashed take in records again.
func (x *tailWorld) Again(t *rapid.T) {
	f := x.fol[x.drawNet(t)]
	if f.done && f.seq > f.start {
		f.seq = f.start + uint64(rapid.IntRange(0, int(f.seq-f.start)).Draw(t, "back to"))
	}
}

// Anew begins another snapshot over what the replica has, or another log too.
func (x *tailWorld) Anew(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "anew") > 0 {
		t.Skip("rare")
	}
	p := x.drawNet(t)
	if rapid.Bool().Draw(t, "other log") {
		x.logs++
		if err := x.owner.StartTail(p, x.logs, TailPos{}); err != nil {
			t.Fatal(err)
		}
	}
	x.fol[p] = &follower{}
}

// Trim forgets what the replica has for good.
func (x *tailWorld) Trim(t *rapid.T) {
	p := x.drawNet(t)
	if f := x.fol[p]; f.done {
		if err := x.owner.TrimTail(p, f.seq); err != nil {
			t.Fatal(err)
		}
		f.start = f.seq
	}
}

// Catch brings a replica up to date and compares.
func (x *tailWorld) Catch(t *rapid.T) {
	for _, p := range x.nets() {
		for !x.fol[p].done {
			x.piece(t, p, 1<<16)
		}
		x.records(t, p, 1<<20)
	}
	for _, p := range x.nets() {
		want, got := dumpSubnet(t, x.owner, p, true), dumpSubnet(t, x.replica, p, false)
		if !maps.Equal(want, got) {
			t.Fatalf("%v:\n%s", p, difference(want, got))
		}
	}
}

// Check compares a replica that is behind with what the owner had there.
func (x *tailWorld) Check(t *rapid.T) {
	if x.states == nil {
		return
	}
	head, _, _ := x.owner.TailHead(netA)
	if x.states[head.Seq] == nil {
		x.states[head.Seq] = dumpSubnet(t, x.owner, netA, true)
	}
	f := x.fol[netA]
	want := x.states[f.seq]
	if !f.done || f.seq < f.maxView || want == nil {
		return
	}
	if got := dumpSubnet(t, x.replica, netA, false); !maps.Equal(want, got) {
		t.Fatalf("at %d:\n%s", f.seq, difference(want, got))
	}
}

func tiny(t testing.TB) *DB {
	t.Helper()
	d, err := Open("", Options{InMemory: true, MemTable: 1 << 20, BlockCache: 1 << 20, IndexCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A snapshot taken in several views while transactions go on, and the records
// since its start, are the owner's state; also when the replica takes records in
// again, when a snapshot is begun over an old one, and when hosts move.
func TestTailModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := newTailWorld(t, rt, nil)
		defer x.close()
		rt.Repeat(rapid.StateMachineActions(x))
		x.Catch(rt)
	})
}

// At each record behind the snapshot the replica has what the owner had there:
// it may be promoted at any.
func TestTailPrefix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := newTailWorld(t, rt, map[uint64]map[string]string{})
		defer x.close()
		act := rapid.StateMachineActions(x)
		for _, name := range []string{"Anew", "Again"} {
			delete(act, name)
		}
		rt.Repeat(act)
		x.Catch(rt)
	})
}

// newTailWorld makes one with some state that was there before it was logged.
func newTailWorld(t *testing.T, rt *rapid.T, states map[uint64]map[string]string) *tailWorld {
	x := &tailWorld{owner: tiny(t), replica: tiny(t), fol: map[netip.Prefix]*follower{}, states: states}
	for range 5 {
		x.update(rt, func(tx *Tx) error { return x.change(rt, tx) })
	}
	for _, p := range x.nets() {
		x.follow(rt, p)
	}
	return x
}

func (x *tailWorld) follow(t *rapid.T, p netip.Prefix) {
	x.fol[p] = &follower{}
	x.logs++
	if err := x.owner.StartTail(p, x.logs, TailPos{}); err != nil {
		t.Fatal(err)
	}
	err := x.replica.Update(func(tx *Tx) error { return tx.PutSubnet(Subnet{Prefix: p, Phase: PhaseShadow, From: "peer"}) })
	if err != nil {
		t.Fatal(err)
	}
}

func (x *tailWorld) close() { _ = errors.Join(x.owner.Close(), x.replica.Close()) }
