package store

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// A replica takes in a snapshot over something else of any size.
func TestAbsorbStale(t *testing.T) {
	d, r := tailed(t, inMemory()), replicaOf(t, "peer", netA, netB)
	for _, name := range []string{"a", "gone", "gone too"} {
		for i := range 4 {
			update(t, r, func(tx *Tx) error {
				tx.PutHost(Host{Name: name, Subnet: netA})
				ds := make([]Digest, 1500)
				for j := range ds {
					ds[j] = page(name, i*1500+j).Digest()
				}
				return tx.Import(name, nil, ds)
			})
		}
	}
	for i := range 30 {
		push(t, d, "a", i*500)
	}
	raws, head := snapshot(t, d, netA, 500)
	if len(raws) < 3 {
		t.Fatalf("%d pieces", len(raws))
	}
	ops, err := DecodeOps(raws[len(raws)-1])
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, r.Update(func(tx *Tx) error { return tx.Apply(netA, ops) }), ErrStale)
	absorb(t, r, netA, raws...)
	if want, got := dumpSubnet(t, d, netA, true), dumpSubnet(t, r, netA, false); len(want) != len(got) {
		t.Error(difference(want, got))
	}
	if err := d.DropHost("a"); err != nil {
		t.Fatal(err)
	}
	absorb(t, r, netA, records(t, d, netA, head.Seq)...)
	if got := dumpSubnet(t, r, netA, false); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// A piece of a snapshot also says which hosts there are not.
func TestAbsorbOtherHosts(t *testing.T) {
	d, r := tailed(t, inMemory()), replicaOf(t, "peer", netA)
	for _, name := range []string{"0", "a0", "z"} {
		update(t, r, func(tx *Tx) error { tx.PutHost(Host{Name: name, Subnet: netA}); return nil })
		push(t, r, name, 1)
	}
	update(t, d, func(tx *Tx) error { tx.PutHost(Host{Name: "c", Subnet: netA}); return nil })
	raws, _ := snapshot(t, d, netA, 1)
	absorb(t, r, netA, raws...)
	view(t, r, func(tx *Tx) error {
		hs, err := tx.HostsOf(netA)
		if len(hs) != 2 || hs[0].Name != "a" || hs[1].Name != "c" {
			t.Errorf("hosts are %v", hs)
		}
		return err
	})
}

// A host of another owner's subnet is not taken from there.
func TestApplyElsewhere(t *testing.T) {
	d, r := tailed(t, inMemory()), replicaOf(t, "peer", netA)
	update(t, r, func(tx *Tx) error {
		tx.PutHost(Host{Name: "a", Subnet: netB})
		return tx.PutSubnet(Subnet{Prefix: netB, Phase: PhaseShadow, From: "another"})
	})
	push(t, d, "a", 1)
	raws, _ := snapshot(t, d, netA, 1<<16)
	ops, err := DecodeOps(raws[0])
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, r.Absorb(netA, ops, nil), ErrElsewhere)
	wantErr(t, r.Absorb(netB, ops, nil), ErrBadOps)
	for _, phase := range []Phase{PhaseOwned, PhaseDeciding, PhaseCommitting} { // this peer knows better
		update(t, r, func(tx *Tx) error { return tx.PutSubnet(Subnet{Prefix: netB, Phase: phase}) })
		if err := r.Absorb(netA, ops, nil); err != nil || len(queue(t, r, "a")) != 0 {
			t.Fatalf("%v: %v", phase, err)
		}
	}
	update(t, r, func(tx *Tx) error { return tx.DeleteSubnet(netB) }) // nobody knows of it
	if err := r.Absorb(netA, ops, nil); err != nil || len(queue(t, r, "a")) != 1 {
		t.Error(err)
	}
}

// A replica that becomes the owner queues behind what it was given, however
// large the places are that it was told.
func TestPlacesOfOthers(t *testing.T) {
	r := replicaOf(t, "peer", netA)
	for _, seq := range []uint64{5000, MaxPlace} {
		ops := []Op{
			{Kind: OpHost, Name: "a", Rec: &Host{Name: "a", Subnet: netA}},
			{Kind: OpEntry, Name: "a", Entry: &Entry{URL: page("a", int(seq))}, Seq: seq},
		}
		if err := r.Absorb(netA, ops, nil); err != nil {
			t.Fatal(err)
		}
		if r.seq < 5000 || r.seq > maxOwnPlace {
			t.Errorf("own places begin behind %d", r.seq)
		}
	}
	over := wireOp{Kind: OpUnqueue, Name: "a", Key: []byte{0, 0, 3, 0, 0, 0, 0, 0, 0, 0}}
	raw, err := encodeOps([]wireOp{over})
	if err == nil {
		_, err = DecodeOps(raw)
	}
	wantErr(t, err, ErrBadOps)
	push(t, r, "a", 1)
	if q := queue(t, r, "a"); len(q) != 3 {
		t.Errorf("%d are queued", len(q))
	}
}

// Import keeps places.
func TestImportKeepsPlaces(t *testing.T) {
	d, r := memory(t), memory(t)
	addHost(t, d, "a", 5)
	update(t, d, func(tx *Tx) error {
		e, err := tx.Peek("a")
		return errors.Join(err, tx.Requeue("a", e))
	})
	q := queue(t, d, "a")
	back := slices.Clone(q)
	slices.Reverse(back)
	update(t, r, func(tx *Tx) error { return tx.Import("a", back, nil) })
	if got := queue(t, r, "a"); !slices.Equal(urls(got), urls(q)) {
		t.Errorf("queue is %v, want %v", urls(got), urls(q))
	}
	if r.seq < d.seq {
		t.Errorf("places begin at %d, want %d", r.seq, d.seq)
	}
}

// What waits for other owners goes with the subnet where it was found, also
// what was put aside before its subnet was logged.
func TestPromoteOutlinks(t *testing.T) {
	d := memory(t)
	update(t, d, func(tx *Tx) error {
		tx.PutHost(Host{Name: "a", Subnet: netA})
		for i := range 700 {
			if _, err := tx.Defer(Pending{URL: page("old", i), From: "a", Found: when}); err != nil {
				return err
			}
		}
		_, err := tx.Defer(Pending{URL: page("old", 1000), From: "unknown", Found: when})
		return err
	})
	if err := d.StartTail(netA, 1, TailPos{}); err != nil {
		t.Fatal(err)
	}
	raws, head := snapshot(t, d, netA, 2000)
	update(t, d, func(tx *Tx) error {
		_, err := tx.Defer(Pending{URL: page("new", 1), From: "a", Found: when})
		return errors.Join(err, tx.Undefer(page("old", 0)), tx.Undefer(page("old", 1000)))
	})
	r := replicaOf(t, "peer", netA)
	absorb(t, r, netA, raws...)
	absorb(t, r, netA, records(t, d, netA, head.Seq)...)
	update(t, r, func(tx *Tx) error { _, err := tx.Defer(Pending{URL: page("old", 5), Found: when}); return err })
	sums, err := r.PromoteOutlinks(netA)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, s := range sums {
		got[s.Host] = s.Count
		if s.Oldest.Sub(when).Abs() > time.Millisecond {
			t.Errorf("oldest is %v", s.Oldest)
		}
	}
	if len(got) != 2 || got["old"] != 698 || got["new"] != 1 {
		t.Errorf("promoted %v", got)
	}
	view(t, r, func(tx *Tx) error {
		hs, err := tx.DeferredHosts()
		if len(hs) != 2 || hs[0].Count+hs[1].Count != 700 {
			t.Errorf("put aside: %+v", hs)
		}
		return errors.Join(err, tx.Outlinks(netA, func(Pending) (bool, error) { return false, errors.New("one is left") }))
	})
	// As its owner, it has them in its own log.
	if err := r.StartTail(netA, 2, TailPos{Log: 1, Seq: 1}); err != nil {
		t.Fatal(err)
	}
	raws, _ = snapshot(t, r, netA, 1<<16)
	n := 0
	for _, raw := range raws {
		ops, err := DecodeOps(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range ops {
			if o.Kind == OpOutlink {
				n++
			}
		}
	}
	if n != 699 {
		t.Errorf("%d out-links in the new owner's snapshot, want 699", n)
	}
}
