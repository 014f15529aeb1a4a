package owner

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/handover"
	"peerd/overlay/witness"
	"peerd/store"
	"peerd/store/kv"
)

// storeOn opens a store on a disk that can be filled.
func storeOn(t *testing.T) (*store.DB, *kv.Disk) {
	t.Helper()
	disk := kv.NewDisk()
	db, err := store.Open("", store.Options{Disk: disk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, disk
}

// A full disk ends no Run. Leases are renewed on it, nothing is claimed or taken, and
// what was decided meanwhile is written down when there is free space.
func TestFullDiskEndsNothing(t *testing.T) {
	t.Parallel()
	db, disk := storeOn(t)
	alone := make(chan struct{})
	m, _, _ := guardedOn(t, alice, newDHT(), db, func(c *Config) {
		c.LeaseTTL, c.DecideIdle = 90*time.Millisecond, time.Millisecond
		c.Directory = openable{alone, directory{alice}, directory{alice, bob}}
	})
	m.claim(subnetA)
	if m.phase(subnetA) == store.PhaseDeciding {
		t.Fatal("decided only later")
	}
	disk.SetFull(true)
	close(alone) // there is a peer that can be a replica, which is to be written down
	m.run()      // fails the test if it ends by itself
	until(t, "the disk is known to be full", m.diskFull.Load)
	began := time.Now()
	until(t, "leases are renewed all the same", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		s := m.subnets[subnetA]
		return s.lease.Issued.After(began) && s.disk == diskUnsaved
	})
	if err := m.claimer.Claim(t.Context(), subnetB); !errors.Is(err, errDiskFull) {
		t.Errorf("a claim on a full disk: %v", err)
	}
	disk.SetFull(false)
	until(t, "all is on the disk", func() bool {
		m.mu.Lock()
		s := m.subnets[subnetA]
		keepers, epoch := len(s.replicas), s.lease.Epoch
		m.mu.Unlock()
		rec, ok := m.stored(subnetA)
		e := openEvidence(rec.Evidence)
		return ok && !m.diskFull.Load() && keepers == 1 && len(e.Replicas) == 1 &&
			rec.Epoch == epoch
	})
	if err := m.claimer.Claim(t.Context(), subnetB); err != nil {
		t.Errorf("a claim with free space again: %v", err)
	}
}

// openable is a directory that becomes another one.
type openable struct {
	opened        chan struct{}
	before, after directory
}

func (o openable) now() directory {
	select {
	case <-o.opened:
		return o.after
	default:
		return o.before
	}
}

func (o openable) Candidates() []assign.Candidate { return o.now().Candidates() }

func (o openable) At(who string) (coords.Coordinate, bool) { return o.now().At(who) }

// A subnet with a claim that cannot be saved is not ours; the next claim makes it so.
func TestFullDiskBeginsNothing(t *testing.T) {
	t.Parallel()
	db, disk := storeOn(t)
	m := join(t, alice, newDHT(), db, nil)
	disk.SetFull(true)
	if err := m.claimer.Claim(t.Context(), subnetA); !store.IsNoSpace(err) || m.Live(subnetA) {
		t.Fatalf("claimed on a full disk: %v, ours: %v", err, m.Live(subnetA))
	}
	disk.SetFull(false)
	m.run()
	until(t, "the free space is noticed", func() bool { return !m.diskFull.Load() })
	m.claim(subnetA)
	if _, ok := m.stored(subnetA); !ok || !m.Live(subnetA) {
		t.Error("not ours when there was free space again")
	}
}

// No grant leaves a peer that cannot write it down, and the subnet goes on being
// worked on; it leaves when there is free space.
func TestFullDiskGrantsNothing(t *testing.T) {
	t.Parallel()
	db, disk := storeOn(t)
	var tries, granted atomic.Int64
	m := join(t, alice, newDHT(), db, func(c *Config) {
		c.Directory = directory{alice, bob}
		c.Sender = sendFunc(func(_ context.Context, _ peer.ID, _ handover.Offer,
			grant func() ([]byte, error)) ([]byte, error) {
			tries.Add(1)
			if g, err := grant(); err != nil {
				return nil, errors.Join(handover.ErrBroken, err)
			} else if g != nil {
				granted.Add(1)
			}
			return nil, errInjected
		})
	})
	m.claim(subnetA)
	if err := m.cfg.Replicas.Follow(subnetA, bob.id, 1); err != nil { // the log
		t.Fatal(err)
	}
	disk.SetFull(true)
	m.run()
	sendOff := func() {
		m.mu.Lock()
		s := m.subnets[subnetA]
		if s.unit.To == "" {
			m.table.close(s, bob)
		}
		m.mu.Unlock()
		m.wake()
	}
	sendOff()
	until(t, "a handover was tried and undone", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return tries.Load() > 0 && m.subnets[subnetA].unit.To == ""
	})
	if m.phase(subnetA) == store.PhaseCommitting || granted.Load() > 0 {
		t.Errorf("committed on a full disk: %v, %d grants", m.phase(subnetA), granted.Load())
	}
	if m.frontier.is(m.frontier.shut, subnetA) {
		t.Error("the subnet is shut though it stays")
	}
	disk.SetFull(false)
	until(t, "it leaves with free space", func() bool { sendOff(); return granted.Load() > 0 })
	if rec, _ := m.stored(subnetA); rec.Phase != store.PhaseCommitting {
		t.Errorf("granted and not written down: %v", rec.Phase)
	}
}

// fillsDisk is a Replicas that fills the disk when a copy was made of a subnet.
type fillsDisk struct {
	*fakeReplicas
	disk *kv.Disk
}

func (f fillsDisk) Demote(
	p netip.Prefix, to peer.ID, epoch uint64, lease []byte, confirmed time.Time,
) error {
	err := f.fakeReplicas.Demote(p, to, epoch, lease, confirmed)
	f.disk.SetFull(true)
	return err
}

// A subnet that was handed over becomes a copy once, though that cannot be counted: its log is gone
// by then, without which the second time would wipe the copy.
func TestFullDiskKeepsCopy(t *testing.T) {
	t.Parallel()
	db, disk := storeOn(t)
	m, copies, _ := guardedOn(t, alice, newDHT(), db, nil)
	m.Manager.cfg.Replicas = fillsDisk{copies, disk}
	m.claim(subnetA)
	m.mu.Lock()
	s := m.subnets[subnetA]
	m.mu.Unlock()
	err := m.departures.retire(s, s.lease.Next(bob.id), s.sealed, time.Time{})
	if err != nil || m.Live(subnetA) {
		t.Errorf("retired: %v, still ours: %v", err, m.Live(subnetA))
	}
	if !m.diskFull.Load() {
		t.Error("the disk was not full: nothing was tested")
	}
}

// That a subnet is voted away is not acknowledged before it is on the disk, however
// often it is said.
func TestFullDiskAcknowledgesNoRevocation(t *testing.T) {
	t.Parallel()
	db, disk := storeOn(t)
	m, _, _ := guardedOn(t, alice, newDHT(), db, nil)
	m.claim(subnetA)
	disk.SetFull(true)
	r := []witness.Revocation{{Subnet: subnetA, Epoch: 2, To: bob.id, By: carol.id}}
	for range 2 {
		if err := m.Revoked(t.Context(), r); !store.IsNoSpace(err) {
			t.Fatalf("acknowledged on a full disk: %v", err)
		}
	}
	disk.SetFull(false)
	if err := m.Revoked(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if rec, _ := m.stored(subnetA); !openEvidence(rec.Evidence).Unverified {
		t.Error("acknowledged and not written down")
	}
}

// A peer with a full disk accepts no subnet from another peer.
func TestFullDiskRefusesOffers(t *testing.T) {
	t.Parallel()
	db, disk := storeOn(t)
	dht := newDHT()
	m, _, _ := guardedOn(t, bob, dht, db, nil)
	from := join(t, alice, dht, nil, nil)
	from.claim(subnetA)
	sealed, _ := from.cfg.Leases.Sealed(subnetA)
	o := handover.Offer{Subnet: subnetA, Epoch: 2, Lease: bytes.Clone(sealed)}
	if _, err := m.arrivals.AcceptOffer(t.Context(), alice.id, o); err != nil {
		t.Fatal(err)
	}
	disk.SetFull(true)
	m.run()
	until(t, "the disk is known to be full", m.diskFull.Load)
	if _, err := m.arrivals.AcceptOffer(t.Context(), alice.id, o); !errors.Is(err, errDiskFull) {
		t.Errorf("considered on a full disk: %v", err)
	}
}
