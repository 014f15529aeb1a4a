package store

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
)

// A replica can apply a snapshot to a copy with any amount of obsolete data.
func TestApplyManyDeletes(t *testing.T) {
	t.Parallel()
	d, r := logged(t, inMemory()), replicaOf(t, "peer", netA, netB)
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
		t.Fatalf("snapshot has %d pieces, want at least 3", len(raws))
	}
	ops, err := DecodeOps(raws[len(raws)-1])
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, r.Update(func(tx *Tx) error { return tx.Apply(netA, ops) }), ErrTooManyDeletes)
	apply(t, r, netA, raws...)
	if want, got := dumpSubnet(t, d, netA, true),
		dumpSubnet(t, r, netA, false); len(want) != len(got) {
		t.Error(diff(want, got))
	}
	if err := d.DropHost("a"); err != nil {
		t.Fatal(err)
	}
	apply(t, r, netA, records(t, d, netA, head.Seq)...)
	if got := dumpSubnet(t, r, netA, false); len(got) != 0 {
		t.Errorf("replica still has %v, want nothing", got)
	}
}

// A snapshot deletes hosts that the owner does not have.
func TestApplyOtherHosts(t *testing.T) {
	t.Parallel()
	d, r := logged(t, inMemory()), replicaOf(t, "peer", netA)
	for _, name := range []string{"0", "a0", "z"} {
		update(t, r, func(tx *Tx) error { tx.PutHost(Host{Name: name, Subnet: netA}); return nil })
		push(t, r, name, 1)
	}
	update(t, d, func(tx *Tx) error { tx.PutHost(Host{Name: "c", Subnet: netA}); return nil })
	raws, _ := snapshot(t, d, netA, 1)
	apply(t, r, netA, raws...)
	view(t, r, func(tx *Tx) error {
		hs, err := tx.HostsOf(netA)
		if len(hs) != 2 || hs[0].Name != "a" || hs[1].Name != "c" {
			t.Errorf("HostsOf() = %v, want a and c", hs)
		}
		return err
	})
}

// A host that another owner has in one of its subnets is not moved.
func TestApplyHostConflict(t *testing.T) {
	t.Parallel()
	d, r := logged(t, inMemory()), replicaOf(t, "peer", netA)
	update(t, r, func(tx *Tx) error {
		tx.PutHost(Host{Name: "a", Subnet: netB})
		return tx.PutSubnet(Subnet{Prefix: netB, Phase: PhaseReplica, Owner: "another"})
	})
	push(t, d, "a", 1)
	raws, _ := snapshot(t, d, netA, 1<<16)
	ops, err := DecodeOps(raws[0])
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, r.Apply(netA, ops, nil), ErrHostConflict)
	wantErr(t, r.Apply(netB, ops, nil), ErrInvalidOps)
	// This peer owns the host and ignores the operations.
	for _, phase := range []Phase{PhaseOwned, PhaseDeciding, PhaseCommitting} {
		update(t, r, func(tx *Tx) error { return tx.PutSubnet(Subnet{Prefix: netB, Phase: phase}) })
		if err := r.Apply(netA, ops, nil); err != nil || len(queue(t, r, "a")) != 0 {
			t.Fatalf("in phase %v, Apply() = %v with %d entries, want nil with none", phase, err,
				len(queue(t, r, "a")))
		}
	}
	update(t, r, func(tx *Tx) error { return tx.DeleteSubnet(netB) })
	if err := r.Apply(netA, ops, nil); err != nil || len(queue(t, r, "a")) != 1 {
		t.Errorf("Apply() = %v with %d entries, want nil with 1", err, len(queue(t, r, "a")))
	}
}

// A replica that becomes the owner queues behind the entries it was sent, however large
// their sequence numbers are.
func TestForeignSeq(t *testing.T) {
	t.Parallel()
	r := replicaOf(t, "peer", netA)
	for _, seq := range []uint64{5000, MaxSeq} {
		ops := []Op{
			{Kind: OpHost, Name: "a", Rec: &Host{Name: "a", Subnet: netA}},
			{Kind: OpEntry, Name: "a", Entry: &Entry{URL: page("a", int(seq))}, Seq: seq},
		}
		if err := r.Apply(netA, ops, nil); err != nil {
			t.Fatal(err)
		}
		if r.seq < 5000 || r.seq > maxLocalSeq {
			t.Errorf("seq = %d, want 5000 to %d", r.seq, uint64(maxLocalSeq))
		}
	}
	over := wireOp{Kind: OpDeleteEntry, Name: "a", Key: []byte{0, 0, 3, 0, 0, 0, 0, 0, 0, 0}}
	raw, err := encodeOps([]wireOp{over})
	if err == nil {
		_, err = DecodeOps(raw)
	}
	wantErr(t, err, ErrInvalidOps)
	push(t, r, "a", 1)
	if q := queue(t, r, "a"); len(q) != 3 {
		t.Errorf("queue has %d entries, want 3", len(q))
	}
}

// Import keeps the positions of entries.
func TestImportKeepsPositions(t *testing.T) {
	t.Parallel()
	d, r := memory(t), memory(t)
	addHost(t, d, "a", 5)
	update(t, d, func(tx *Tx) error {
		e, err := tx.Peek("a")
		return errors.Join(err, tx.Defer("a", e))
	})
	q := queue(t, d, "a")
	back := slices.Clone(q)
	slices.Reverse(back)
	update(t, r, func(tx *Tx) error { return tx.Import("a", back, nil) })
	if got := queue(t, r, "a"); !slices.Equal(urls(got), urls(q)) {
		t.Errorf("queue is %v, want %v", urls(got), urls(q))
	}
	if r.seq < d.seq {
		t.Errorf("seq = %d, want at least %d", r.seq, d.seq)
	}
}

// Pending URLs are copied with the subnet where they were found, even those that were
// pending before the subnet was logged.
func TestPromoteOutlinks(t *testing.T) {
	t.Parallel()
	d := memory(t)
	update(t, d, func(tx *Tx) error {
		tx.PutHost(Host{Name: "a", Subnet: netA})
		for i := range 700 {
			if _, err := tx.AddPending(Pending{URL: page("old", i), From: "a",
				Found: when}); err != nil {
				return err
			}
		}
		_, err := tx.AddPending(Pending{URL: page("old", 1000), From: "unknown", Found: when})
		return err
	})
	if err := d.StartLog(netA, 1, LogPos{}); err != nil {
		t.Fatal(err)
	}
	raws, head := snapshot(t, d, netA, 2000)
	update(t, d, func(tx *Tx) error {
		_, err := tx.AddPending(Pending{URL: page("new", 1), From: "a", Found: when})
		return errors.Join(err, tx.RemovePending(page("old", 0)),
			tx.RemovePending(page("old", 1000)))
	})
	r := replicaOf(t, "peer", netA)
	apply(t, r, netA, raws...)
	apply(t, r, netA, records(t, d, netA, head.Seq)...)
	update(t, r, func(tx *Tx) error {
		_, err := tx.AddPending(Pending{URL: page("old", 5), Found: when})
		return err
	})
	got, err := r.PromoteOutlinks(netA)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["old"] != 698 || got["new"] != 1 {
		t.Errorf("PromoteOutlinks() = %v, want 698 of old, 1 of new", got)
	}
	view(t, r, func(tx *Tx) error {
		// This peer has not found them, except the one that it knew.
		return tx.PendingOf("old", func(p Pending) (bool, error) {
			if known := p.URL == page("old", 5); known != (p.Finder == 0) ||
				!known && p.Finder != FinderRelayed {
				t.Errorf("%s is of finder %d", p.URL, p.Finder)
			}
			return true, nil
		})
	})
	view(t, r, func(tx *Tx) error {
		hs, err := tx.PendingHosts()
		if len(hs) != 2 || hs[0].Count+hs[1].Count != 700 {
			t.Errorf("PendingHosts() = %+v, want 700 URLs of 2 hosts", hs)
		}
		return errors.Join(err, tx.Outlinks(netA, func(Pending) (bool, error) {
			return false, errors.New("an out-link was not promoted")
		}))
	})
	// The new owner has them in its own log.
	if err := r.StartLog(netA, 2, LogPos{Log: 1, Seq: 1}); err != nil {
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
		t.Errorf("snapshot of the new owner has %d out-links, want 699", n)
	}
}

// With a host its robots.txt files are deleted, whatever their number, and those of no other host.
func TestRobotsOfDroppedHost(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix("192.0.2.0/24")
	for name, drop := range map[string]func(*DB) error{
		"DropHost": func(d *DB) error { return d.DropHost("a.test") },
		"Apply": func(d *DB) error {
			return d.Apply(p, []Op{{Kind: OpDeleteHost, Name: "a.test"}}, nil)
		},
	} {
		d := open(t, "", Options{InMemory: true})
		update(t, d, func(tx *Tx) error {
			for _, host := range []string{"a.test", "a.test.example"} {
				tx.PutHost(Host{Name: host, Subnet: p, Addr: p.Addr()})
			}
			return nil
		})
		origins := []string{"http://a.test", "https://a.test", "https://a.test.example"}
		for port := range 2 * deleteBatchSize {
			origins = append(origins, fmt.Sprintf("http://a.test:%d", 1000+port))
		}
		for part := range slices.Chunk(origins, 1000) {
			update(t, d, func(tx *Tx) error {
				for _, o := range part {
					if err := tx.PutRobots(o, []byte("rules")); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := drop(d); err != nil {
			t.Fatal(name, err)
		}
		var left []string
		for _, o := range origins {
			err := d.View(func(tx *Tx) error {
				_, err := tx.Robots(o)
				return err
			})
			if err == nil {
				left = append(left, o)
			}
		}
		if !slices.Equal(left, origins[2:3]) {
			t.Errorf("%s: %d of %d files are left, want only that of the other host", name,
				len(left), len(origins))
		}
		if err := d.View(func(tx *Tx) error {
			_, err := tx.Host("a.test")
			return err
		}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: the host is left: %v", name, err)
		}
	}
}

// A host that its owner has dropped in one subnet and met again in another has no file of before,
// if a replica of both reads the log of the other one first.
func TestRobotsOfHostThatReturns(t *testing.T) {
	t.Parallel()
	d, r := logged(t, inMemory()), replicaOf(t, "peer", netA, netB)
	if err := d.StartLog(netB, 8, LogPos{}); err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *Tx) error { return tx.PutRobots("http://b", []byte("old")) })
	rawsA, headA := snapshot(t, d, netA, 1<<20)
	rawsB, headB := snapshot(t, d, netB, 1<<20)
	apply(t, r, netA, rawsA...)
	apply(t, r, netB, rawsB...)
	if err := d.DropHost("b"); err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *Tx) error {
		tx.PutHost(Host{Name: "b", Subnet: netA})
		return tx.PutRobots("https://b", []byte("new"))
	})
	apply(t, r, netA, records(t, d, netA, headA.Seq)...)
	apply(t, r, netB, records(t, d, netB, headB.Seq)...)
	want, got := dumpSubnet(t, d, netA, true), dumpSubnet(t, r, netA, false)
	if want["r https://b"] == "" || !maps.Equal(want, got) {
		t.Errorf("want %v, got\n%s", want, diff(want, got))
	}
}
