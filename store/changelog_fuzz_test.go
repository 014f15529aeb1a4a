package store

import (
	"errors"
	"testing"
)

// FuzzDecodeOps applies arbitrary data from an owner at a replica. It must not change
// other subnets.
func FuzzDecodeOps(f *testing.F) {
	d := logged(f, inMemory())
	update(f, d, func(tx *Tx) error {
		_, err := tx.Push("a", Entry{URL: page("a", 1)}, 0)
		_, err2 := tx.PushRevisit("a", Entry{URL: page("a", 2)})
		_, err3 := tx.AddPending(Pending{URL: page("far", 2), From: "a"})
		return errors.Join(err, err2, err3, tx.MarkSeen(page("a", 3)),
			tx.PutVisit(Visit{URL: page("a", 1), Due: when}),
			tx.GiveUp(GivenUp{URL: page("a", 4), At: when}), tx.GiveUp(GivenUp{URL: page("a", 5)}),
			tx.PutState("a", []byte("state")), tx.PutRobots("http://a", []byte("robots")))
	})
	update(f, d, func(tx *Tx) error {
		e, err := tx.Peek("a")
		_, err2 := tx.TakeDue("a", when.AddDate(1, 0, 0), 1)
		return errors.Join(err, err2, tx.Remove("a", e), tx.DeleteVisit(page("a", 1)),
			func() error { _, err := tx.DeleteGivenUp(page("a", 4)); return err }(),
			tx.RemovePending(page("far", 2)))
	})
	raws, _ := snapshot(f, d, netA, 100)
	for _, raw := range append(raws, records(f, d, netA, 0)...) {
		f.Add(raw)
		if raw[0] == compressedZstd {
			b, err := recordDec.DecodeAll(raw[1:], nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(append([]byte{uncompressed}, b...))
		}
	}
	r := replicaOf(f, "peer", netA)
	update(f, r, func(tx *Tx) error {
		tx.PutHost(Host{Name: "ours", Subnet: netB})
		return tx.PutSubnet(Subnet{Prefix: netB, Phase: PhaseOwned})
	})
	undo := errors.New("undo")
	f.Fuzz(func(t *testing.T, raw []byte) {
		ops, err := DecodeOps(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalidOps) {
				t.Fatal(err)
			}
			return
		}
		for i := range ops {
			ops[i].URL()
		}
		err = r.Update(func(tx *Tx) error {
			if err := tx.Apply(netA, ops); err != nil {
				return err
			}
			if h, err := tx.Host("ours"); err != nil || h.Subnet != netB {
				t.Errorf("host of another subnet is %+v, %v, want no change", h, err)
			}
			return undo
		})
		if !errors.Is(err, undo) && !errors.Is(err, ErrInvalidOps) &&
			!errors.Is(err, ErrHostConflict) && !errors.Is(err, ErrTooManyDeletes) {
			t.Fatal(err)
		}
	})
}
