package owner

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/replica"
	"peerd/store"
)

// claimOf returns a request for a copy of a subnet that a peer claims.
func claimOf(t *testing.T, who someone, p netip.Prefix, id uint64) replica.OpenRequest {
	t.Helper()
	now := time.Now()
	sealed, err := lease.SealLease(lease.Lease{Subnet: p, Owner: who.id, Epoch: 1, Claimed: now,
		Issued: now, Expires: now.Add(time.Hour)}, who.key)
	if err != nil {
		t.Fatal(err)
	}
	return replica.OpenRequest{Subnet: p, Epoch: 1, Lease: sealed, ID: id}
}

func nthSubnet(i int) netip.Prefix {
	a := binary.BigEndian.AppendUint16([]byte{100}, uint16(i))
	return store.SubnetOf(netip.AddrFrom4([4]byte{a[0], a[1], a[2], 1}))
}

// reads returns how many times a member has read the DHT.
func (m *member) reads() int { _, n := m.values.Calls(); return n }

// A copy is promised only when the DHT has shown the claimant's lease, which is read once.
func TestCopyOfUnconfirmedLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, copies, _ := guardedBy(t, bob, nil, nil)
		good, made := claimOf(t, alice, subnetA, 7), claimOf(t, carol, subnetB, 8)
		if _, _, err := m.dht.Peer().Put(t.Context(), lease.Key(subnetA), good.Lease); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for who, o := range map[someone]replica.OpenRequest{alice: good, carol: made} {
				if err := m.policy.AcceptCopy(who.id, o); !errors.Is(err, replica.ErrLater) {
					t.Errorf("a copy of %v for an unconfirmed lease: %v, want ErrLater", o.Subnet,
						err)
				}
			}
		}
		stop := m.run()
		defer stop()
		until(t, "both leases are read, and alice is told to ask again", func() bool {
			e, ok := m.policy.confirms.get(subnetB)
			copies.mu.Lock()
			defer copies.mu.Unlock()
			return len(copies.again) == 1 && ok && e.state == entryDone
		})
		if a := copies.again[0]; a.Subnet != subnetA || a.ID != good.ID {
			t.Errorf("asked again: %+v", a)
		}
		for range 3 {
			if err := m.policy.AcceptCopy(alice.id, good); err != nil {
				t.Errorf("a copy of a confirmed lease: %v", err)
			}
			if err := m.policy.AcceptCopy(carol.id, made); !errors.Is(err, replica.ErrLater) {
				t.Errorf("a copy of a lease that the DHT does not have: %v, want ErrLater", err)
			}
		}
		if n := m.reads(); n != 2 {
			t.Errorf("%d reads of the DHT, want 2", n)
		}
		// What was shown is hearsay for the owner map and for estimations, too.
		if _, err := m.cfg.Leases.Confirm(t.Context(), made.Lease); err != nil {
			t.Error(err)
		}
		if err := m.policy.AcceptCopy(carol.id, made); !errors.Is(err, replica.ErrLater) {
			t.Errorf("after an order to fetch: %v, want ErrLater", err)
		}
	})
}

// Who keeps a copy under a lease needs no confirmation of it, as after a restart.
func TestCopyThatIsKept(t *testing.T) {
	t.Parallel()
	m, copies, _ := guardedBy(t, bob, nil, nil)
	o := claimOf(t, alice, subnetA, 1)
	copies.held[subnetA] = replica.LocalCopy{Subnet: subnetA, Owner: alice.id, Epoch: 1,
		Lease: o.Lease, Complete: true, Pos: store.LogPos{Log: 5, Seq: 2}}
	o.Log = 5
	if err := m.policy.AcceptCopy(alice.id, o); err != nil {
		t.Errorf("a copy that is kept: %v", err)
	}
	if n := m.reads(); n != 0 {
		t.Errorf("%d reads of the DHT, want none", n)
	}
}

// The reads that one claimant causes are bounded, and do not keep another one waiting.
func TestConfirmationsOfOneClaimant(t *testing.T) {
	t.Parallel()
	m, _, _ := guardedBy(t, bob, nil, nil)
	for i := range 2 * confirmByOwner {
		o := claimOf(t, carol, nthSubnet(i), uint64(i))
		if err := m.policy.AcceptCopy(carol.id, o); !errors.Is(err, replica.ErrLater) {
			t.Fatal(err)
		}
	}
	n := m.policy.confirms.count(func(copyAsker) bool { return true })
	if n != confirmByOwner {
		t.Errorf("%d subnets of one claimant are to be confirmed, want %d", n, confirmByOwner)
	}
	_ = m.policy.AcceptCopy(alice.id, claimOf(t, alice, subnetA, 1))
	if _, ok := m.policy.confirms.get(subnetA); !ok {
		t.Error("the lease of another claimant is not to be confirmed")
	}
	// A subnet that was found not to be carol's is alice's turn at once.
	p := nthSubnet(0)
	m.policy.confirms.rest(p, time.Now())
	_ = m.policy.AcceptCopy(alice.id, claimOf(t, alice, p, 2))
	if e, _ := m.policy.confirms.get(p); e.about.owner != alice.id || e.state != entryWaits {
		t.Errorf("what another one asked for keeps alice waiting: %+v", e)
	}
}

// laterPolicy is a copyPolicy that answers ErrLater a number of times first. Its Manager need not
// run: it confirms leases itself.
type laterPolicy struct {
	*copyPolicy
	left atomic.Int32
}

func (k *laterPolicy) AcceptCopy(from peer.ID, o replica.OpenRequest) error {
	if k.left.Add(-1) >= 0 {
		return fmt.Errorf("%w: not yet", replica.ErrLater)
	}
	err := k.copyPolicy.AcceptCopy(from, o)
	if errors.Is(err, replica.ErrLater) {
		for _, confirm := range k.toConfirm(time.Now()) {
			confirm(context.Background())
		}
		err = k.copyPolicy.AcceptCopy(from, o)
	}
	return err
}

// A handover waits while the successor asks to be asked later: that is no refusal.
func TestHandoverToSuccessorThatWaits(t *testing.T) {
	t.Parallel()
	const n = 5
	p := newPair(t, nil)
	p.later.left.Store(3)
	p.decide(t, n)
	p.owner.run()
	p.arrived(t, n)
	if left := p.later.left.Load(); left >= 0 {
		t.Errorf("the successor was asked before it was ready; %d answers are left", left)
	}
}

// A lease of which only a stranger knows ends no copy, and does not count against the owner.
func TestForgedLeaseAndCopyOfTheDead(t *testing.T) {
	t.Parallel()
	for name := range forgeries(t, lease.Lease{Subnet: subnetA, Owner: alice.id, Epoch: 1,
		Claimed: time.Now()}) {
		e := newCopyFixture(t, false, soon)
		e.heard = e.heard.Add(-time.Hour)
		l, err := lease.OpenLease(e.held.Lease)
		if err != nil {
			t.Fatal(err)
		}
		f := forgeries(t, l)[name]
		o := replica.OpenRequest{Subnet: subnetA, Epoch: f.epoch, Lease: f.sealed, Log: 17}
		if err := e.policy.AcceptCopy(f.by.id, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, marked := e.salvager.copies.get(subnetA); marked {
			t.Errorf("%s: the copy is to be deleted", name)
		}
		e.resolver.Learn(f.sealed) // from another peer
		e.dht.Plant(lease.Key(subnetA), nil)
		_ = e.failover.lookupOwner(t.Context(), e.held)
		if _, marked := e.salvager.copies.get(subnetA); marked {
			t.Errorf("%s: the copy is to be deleted because the DHT knows no lease", name)
		}
		if by, epoch, known := e.policy.CurrentLease(subnetA); known && by != alice.id {
			t.Errorf("%s: %v is taken for the owner at epoch %d", name, by, epoch)
		}
		o = replica.OpenRequest{Subnet: subnetA, Epoch: 1, Lease: e.held.Lease, Log: 9}
		if err := e.policy.AcceptCopy(alice.id, o); err != nil {
			t.Errorf("%s: the owner's copy is refused: %v", name, err)
		}
	}
}
