package shadow

import (
	"errors"
	"testing"

	"peerd/store"
)

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
