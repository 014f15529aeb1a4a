package hostmove

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/store"
)

// claimBy returns a claim of the old subnet by a peer.
func claimBy(t *testing.T, by someone) []byte {
	t.Helper()
	now := time.Now()
	sealed, err := lease.SealLease(lease.Lease{Subnet: oldNet, Owner: by.id, Epoch: 1,
		Claimed: now, Issued: now, Expires: now.Add(time.Hour)}, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// A peer is believed what it has fetched of a host if it was apart and owned the host's subnet too.
func TestAcceptFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(3)
		r, theirs := m.Receiver(), claimBy(t, folk[1])
		for name, c := range map[string]struct {
			from, apart peer.ID
			host        string
			lost        []byte
		}{
			"of a peer that was here": {folk[1].id, "", mover, theirs},
			"of a third peer's lease": {folk[2].id, folk[1].id, mover, theirs},
			"of another host":         {folk[1].id, folk[1].id, "other.test", theirs},
			"without a lease":         {folk[1].id, folk[1].id, mover, []byte{1}},
			"with this peer's lease":  {folk[1].id, folk[1].id, mover, m.own.sealed[oldNet]},
		} {
			m.apart = c.apart
			if _, err := r.AcceptFetched(c.from, c.host, c.lost); err == nil {
				t.Errorf("%s: accepted", name)
			}
			if m.own.entered(oldNet) != 0 || m.InTransit(c.host) {
				t.Errorf("%s: the subnet is held", name)
			}
		}
		m.apart = folk[1].id
		leave, err := r.AcceptFetched(folk[1].id, mover, theirs)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.AcceptFetched(folk[1].id, mover, theirs); err == nil {
			t.Error("accepted twice at once")
		}
		if m.own.entered(oldNet) != 1 || !m.InTransit(mover) {
			t.Error("the subnet may leave")
		}
		leave()
		if m.own.entered(oldNet) != 0 || m.InTransit(mover) {
			t.Error("the subnet is still held")
		}
	})
}

// While the queue of a host is changed it is in no frontier, and it is back also after an error.
func TestWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(3)
		failure := errors.New("full")
		for _, want := range []error{nil, failure} {
			err := m.Receiver().WithoutRequests(t.Context(), mover, func() error {
				if _, _, in := m.f.HostAddr(mover); in {
					t.Error("requests are possible")
				}
				e := m.cfg.DB.Update(func(tx *store.Tx) error {
					first, err := tx.Peek(mover)
					return errors.Join(err, tx.Remove(mover, first))
				})
				return errors.Join(e, want)
			})
			if !errors.Is(err, want) {
				t.Errorf("WithoutRequests() = %v, want %v", err, want)
			}
			if p, _ := m.f.in(mover); p != oldNet {
				t.Errorf("the host is in %v", p)
			}
		}
		m.f.mu.Lock()
		defer m.f.mu.Unlock()
		if n := m.f.hosts[mover].Queued; n != 1 {
			t.Errorf("%d URLs are queued, want 1", n)
		}
	})
}
