package shadow

import (
	"errors"
	"testing"

	"peerd/store"
)

// An owner that is back while its subnet is taken over cannot end the copy, or send it
// anew, before that is over.
func TestPin(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	was, _ := b.Copy(subnet)
	if _, ok := b.Pin(subnet, was.Epoch+1); ok {
		t.Error("pinned under another epoch")
	}
	unpin, ok := b.Pin(subnet, was.Epoch)
	if !ok {
		t.Fatal("not pinned")
	}
	if _, ok := b.Pin(subnet, was.Epoch); ok {
		t.Error("pinned twice")
	}
	a.Unfollow(subnet, b.host.ID(), true)
	eventually(t, "the owner ends it", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.pinned[subnet] != nil
	})
	follow(t, a, subnet, b)
	eventually(t, "the owner is to wait", func() bool { return errors.Is(a.State(subnet, b.host.ID()).Err, ErrLater) })
	if c, held := b.Copy(subnet); !held || !c.Complete || c.Pos != was.Pos {
		t.Fatalf("held: %v, %+v", held, c)
	}
	a.Unfollow(subnet, b.host.ID(), false)
	unpin()
	eventually(t, "it has ended", func() bool { _, held := b.Copy(subnet); return !held })
	if _, ok := b.Pin(subnet, was.Epoch); ok {
		t.Error("pinned without a copy")
	}
}

// A promotion that fails after it has made the subnet ours on the disk leaves nothing
// that could be swept away; done again, it ends the copy.
func TestForgetSparesWhatBecameOurs(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	late := errors.New("not synced")
	promote := func(err error) error {
		return b.PromoteBy(subnet, func(TailPos) error {
			return errors.Join(err, b.db.Update(func(tx *store.Tx) error {
				return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseOwned, Epoch: 2})
			}))
		})
	}
	if err := promote(late); !errors.Is(err, late) {
		t.Fatal(err)
	}
	if err := b.Forget(subnet); !errors.Is(err, errOwned) {
		t.Errorf("a subnet of ours is forgotten: %v", err)
	}
	err := b.db.View(func(tx *store.Tx) error {
		rec, err := tx.Subnet(subnet)
		if err == nil && rec.Phase != store.PhaseOwned {
			t.Errorf("it is %v on the disk", rec.Phase)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := promote(nil); err != nil {
		t.Errorf("not promoted again: %v", err)
	}
	if _, held := b.Copy(subnet); held {
		t.Error("still a copy")
	}
}
