package replica

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// An owner that returns while its subnet is taken over cannot end the copy, or send it
// again, until it is unpinned.
func TestPin(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	was, _ := b.Copy(subnet)
	if _, ok := b.Pin(subnet, was.Epoch+1); ok {
		t.Error("Pin() = true for another epoch, want false")
	}
	unpin, ok := b.Pin(subnet, was.Epoch)
	if !ok {
		t.Fatal("Pin() = false, want true")
	}
	if _, ok := b.Pin(subnet, was.Epoch); ok {
		t.Error("Pin() = true for a pinned copy, want false")
	}
	a.Unfollow(subnet, b.host.ID(), true)
	eventually(t, "the owner's request is kept", func() bool {
		b.copies.mu.Lock()
		defer b.copies.mu.Unlock()
		return b.copies.pinned[subnet] != nil
	})
	follow(t, a, subnet, b)
	eventually(t, "the owner is asked to wait", func() bool {
		return errors.Is(a.State(subnet, b.host.ID()).Err, ErrLater)
	})
	if c, held := b.Copy(subnet); !held || !c.Complete || c.Pos != was.Pos {
		t.Fatalf("Copy() = %+v, %v while pinned, want it unchanged", c, held)
	}
	a.Unfollow(subnet, b.host.ID(), false)
	unpin()
	eventually(t, "the copy is dropped", func() bool { _, held := b.Copy(subnet); return !held })
	if _, ok := b.Pin(subnet, was.Epoch); ok {
		t.Error("Pin() = true without a copy, want false")
	}
}

// A copy of a subnet that this peer has taken over is kept until it is promoted, whatever its
// former owner asks for.
func TestTakenOverCopyIsKept(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	owner := hb.ID()
	b.policy.mu.Lock()
	b.policy.current = func(netip.Prefix) (peer.ID, uint64, bool) { return owner, 2, true }
	b.policy.mu.Unlock()
	a.Unfollow(subnet, hb.ID(), true)
	eventually(t, "the owner has closed the copy", func() bool {
		b.copies.mu.Lock()
		defer b.copies.mu.Unlock()
		r := b.copies.held[subnet]
		return r == nil || r.link == nil
	})
	b.copies.sweep(time.Now().Add(48 * time.Hour))
	if _, held := b.Copy(subnet); !held {
		t.Error("Copy() = false before the promotion, want true")
	}
	b.policy.mu.Lock()
	owner = "another"
	b.policy.mu.Unlock()
	b.copies.sweep(time.Now().Add(48 * time.Hour))
	if _, held := b.Copy(subnet); held {
		t.Error("Copy() = true after another peer has taken over, want false")
	}
}

// If a promotion fails after it has written the record of an owned subnet, Drop refuses
// to delete the data; a repeated promotion ends the copy.
func TestDropKeepsPromotedSubnet(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	late := errors.New("not synced")
	promote := func(err error) error {
		return b.Promote(subnet, func(LogPos) error {
			return errors.Join(err, b.db.Update(func(tx *store.Tx) error {
				return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseOwned, Epoch: 2})
			}))
		})
	}
	if err := promote(late); !errors.Is(err, late) {
		t.Fatal(err)
	}
	if err := b.Drop(subnet); !errors.Is(err, errOwned) {
		t.Errorf("Drop() = %v for an owned subnet, want errOwned", err)
	}
	err := b.db.View(func(tx *store.Tx) error {
		rec, err := tx.Subnet(subnet)
		if err == nil && rec.Phase != store.PhaseOwned {
			t.Errorf("phase = %v on disk, want %v", rec.Phase, store.PhaseOwned)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := promote(nil); err != nil {
		t.Errorf("Promote() = %v the second time, want nil", err)
	}
	if _, held := b.Copy(subnet); held {
		t.Error("Copy() = true after the promotion, want false")
	}
}

// Await waits for a replica that asks to be asked later, and gives up after Config.Later. AskAgain
// ends the wait at once.
func TestAwaitLater(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a := startMember(t, ha, open(t, ""), func(c *Config) { c.Redial = time.Hour })
	b := startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	b.policy.set(ErrLater)
	follow(t, a, subnet, b)
	a.cfg.Later = time.Millisecond
	if err := a.Await(withTimeout(t), subnet, hb.ID()); !errors.Is(err, ErrLater) {
		t.Errorf("Await() = %v after Config.Later, want ErrLater", err)
	}
	eventually(t, "the owner is asked to wait", func() bool {
		return errors.Is(a.State(subnet, hb.ID()).Err, ErrLater)
	})
	if err := a.Flush(withTimeout(t), subnet); !errors.Is(err, ErrLater) {
		t.Errorf("Flush() = %v, want ErrLater", err)
	}
	a.cfg.Later = time.Hour
	b.policy.set(nil)
	b.policy.mu.Lock()
	id := b.policy.opens[len(b.policy.opens)-1].ID
	b.policy.mu.Unlock()
	b.AskAgain(ha.ID(), subnet, id)
	if err := a.Await(withTimeout(t), subnet, hb.ID()); err != nil {
		t.Errorf("Await() = %v after AskAgain, want nil", err)
	}
}
