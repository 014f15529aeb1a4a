package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/store"
)

// copies are the copies of other peers' subnets that this peer keeps.
type copies struct {
	cfg     *Config
	locks   *subnetLocks
	sources *sources

	mu          sync.Mutex // never held during I/O
	held        map[netip.Prefix]*heldCopy
	witnessSets map[peer.ID][]byte            // of the owners of which there are copies
	usage       map[peer.ID]usage             // of the copies, by owner
	numbers     map[peer.ID]int               // of copies, by owner
	total       usage                         // sum of usage
	pinned      map[netip.Prefix]func() error // what drops the copy on unpin; may be nil
	wipes       []netip.Prefix                // subnets to be wiped

	wipeAdded backoff.Wake
	// setting is read-locked while a witness set is written, from the test whether it is wanted to
	// the entry of the copy, and locked while those that are not wanted are deleted.
	setting sync.RWMutex
}

// heldCopy is a copy of another peer's subnet. Its fields are guarded by copies.mu and
// changed only by a goroutine that has locked the subnet, or by the end of its link.
type heldCopy struct {
	subnet   netip.Prefix
	owner    peer.ID
	epoch    uint64
	lease    []byte
	progress copyProgress

	link      *replicaLink // on which it is open; nil: on none
	openID    uint64       // of the open request
	heard     time.Time
	current   bool      // changes have begun to come on link
	confirmed time.Time // until when the owner counted on the copy, before link
	since     time.Time // when it was first kept or promised
}

// copyProgress is the state of a copy, written with every change of it. It is kept apart
// from the subnet's record, because that contains the large lease and evidence.
type copyProgress struct {
	Pos          LogPos `cbor:"1,keyasint"`           // Log is 0 for an empty copy
	Cursor       []byte `cbor:"2,keyasint,omitempty"` // next piece of the snapshot; empty: none
	Until        uint64 `cbor:"3,keyasint,omitempty"` // see snapshotPiece.Until
	Size         usage  `cbor:"4,keyasint"`           // an upper bound
	SnapshotSize usage  `cbor:"5,keyasint"`           // of the present snapshot
	Unstarted    bool   `cbor:"6,keyasint,omitempty"` // no piece of the snapshot has come yet
	Link         uint64 `cbor:"7,keyasint,omitempty"` // on which it was current last; 0: outdated
	// Partial means that the present snapshot does not replace what was there before. Robots is the
	// part of Size that robots.txt files take, which no snapshot replaces; SnapshotSize is without.
	Partial bool  `cbor:"8,keyasint,omitempty"`
	Robots  usage `cbor:"9,keyasint"`
	// Omitted are hosts that the copy lacks.
	Omitted []string `cbor:"10,keyasint,omitempty"`
}

// usage bounds what is stored for other peers.
type usage struct {
	URLs  int64 `cbor:"1,keyasint"`
	Bytes int64 `cbor:"2,keyasint"`
}

func (a usage) plus(b usage) usage  { return usage{a.URLs + b.URLs, a.Bytes + b.Bytes} }
func (a usage) minus(b usage) usage { return usage{a.URLs - b.URLs, a.Bytes - b.Bytes} }

// complete reports whether the copy has no gap.
func (x copyProgress) complete() bool {
	return x.Pos.Log != 0 && len(x.Cursor) == 0 && !x.Unstarted && x.Pos.Seq >= x.Until
}

// LocalCopy is a copy of a subnet that this peer keeps.
type LocalCopy struct {
	Subnet netip.Prefix
	Owner  peer.ID
	Epoch  uint64
	// Complete reports whether the copy is, or was, the owner's state at Pos.
	Complete bool
	Pos      LogPos
	// Live reports whether the owner sends changes now.
	Live bool
	// Heard is when the owner was last heard on the link while it sent changes of this
	// subnet; zero if it did not since the start of this process.
	Heard time.Time
	// Confirmed is until when, as far as is known, the owner counted on this copy, by
	// the clock of this process; zero if unknown. If other peers heard the owner much
	// later than this, the copy may have been replaced.
	Confirmed time.Time
	// WitnessSet and Lease are the owner's, sealed, as received last.
	WitnessSet []byte
	Lease      []byte
}

// HandedOver reports whether c is what this peer kept of a subnet that it handed over to the peer
// that opens it: no other copy is of the log that the successor continues and of the successor's
// own epoch. c may be later than the position from which the successor continues. But since then
// this peer has logged only deliveries of out-links, because all else was paused, and the successor
// delivers those once more.
func (c LocalCopy) HandedOver(to peer.ID, o OpenRequest) bool {
	return c.Owner == to && c.Epoch == o.Epoch && c.Pos.Log != 0 && c.Pos.Log == o.Base.Log
}

// continuedBy reports whether the log of the owner that opens c goes on where c is.
func (c LocalCopy) continuedBy(owner peer.ID, o OpenRequest) bool {
	return c.Complete && (c.Pos == o.Base || c.HandedOver(owner, o))
}

// Copies returns the copies that this peer keeps.
func (cs *copies) Copies() []LocalCopy {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := make([]LocalCopy, 0, len(cs.held))
	for _, r := range cs.held {
		all = append(all, cs.export(r))
	}
	return all
}

// Copy returns the copy of one subnet; ok is false if there is none.
func (cs *copies) Copy(p netip.Prefix) (c LocalCopy, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	r := cs.held[p]
	if r == nil {
		return LocalCopy{}, false
	}
	return cs.export(r), true
}

// export returns the public form of a copy. The caller holds mu.
func (cs *copies) export(r *heldCopy) LocalCopy {
	h := LocalCopy{
		Subnet: r.subnet, Owner: r.owner, Epoch: r.epoch, Lease: r.lease,
		Complete: r.progress.complete(), Pos: r.progress.Pos,
		Live: r.link != nil, Heard: r.heard, Confirmed: r.confirmed,
		WitnessSet: cs.witnessSets[r.owner],
	}
	if r.link != nil {
		h.Heard, h.Confirmed = r.lastTimes()
	}
	return h
}

// Promote ends a copy because this peer owns the subnet from now on: no changes are
// accepted any more. The data on disk is complete up to the position that fn receives. fn
// makes the subnet's record that of an owned subnet; the copy does not change meanwhile. If
// fn fails, the copy remains; Drop refuses to drop it once fn has written that record. fn
// must not call Promote, Drop or Demote for the same subnet.
func (cs *copies) Promote(p netip.Prefix, fn func(pos LogPos) error) error {
	defer cs.locks.lock(p)()
	cs.mu.Lock()
	r := cs.held[p]
	cs.mu.Unlock()
	switch {
	case r == nil:
		return ErrNotHeld
	case !r.progress.complete():
		return ErrIncomplete
	}
	if err := fn(r.progress.Pos); err != nil {
		return err
	}
	cs.removeCopy(r)
	return nil
}

// Drop ends a copy that is not needed any more. Its data is deleted while Run runs.
func (cs *copies) Drop(p netip.Prefix) error {
	return cs.dropIf(p, func(*heldCopy) bool { return true })
}

// errOwned protects the data of an owned subnet that is still listed as a copy, because
// its promotion failed after the record was written.
var errOwned = errors.New("this peer owns the subnet")

// dropIf ends a copy if ok, which is called with mu held, returns true.
func (cs *copies) dropIf(p netip.Prefix, ok func(*heldCopy) bool) error {
	defer cs.locks.lock(p)()
	cs.mu.Lock()
	r := cs.held[p]
	drop := r != nil && ok(r)
	cs.mu.Unlock()
	if !drop {
		return nil
	}
	err := cs.cfg.DB.Update(func(tx *store.Tx) error {
		switch rec, err := tx.Subnet(p); {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case rec.Phase != store.PhaseReplica && rec.Phase != store.PhaseStaged:
			return fmt.Errorf("%w: %v is %v", errOwned, p, rec.Phase) // a Promote failed
		}
		return tx.PutSubnet(store.Subnet{Prefix: p, Phase: store.PhaseStaged, Epoch: r.epoch,
			Since: time.Now()})
	})
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	cs.removeCopy(r)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.wipes = append(cs.wipes, p)
	cs.wipeAdded.Signal()
	return nil
}

// removeCopy removes a copy from the list, and tells its owner if it is connected.
func (cs *copies) removeCopy(r *heldCopy) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.held[r.subnet] == r {
		if in := r.link; in != nil {
			in.dropAck(r.subnet)
			in.reply(openReply{Subnet: r.subnet, ID: r.openID, Status: statusRefused,
				Reason: "the copy was dropped"})
		}
		r.detach()
		delete(cs.held, r.subnet)
		cs.addCopy(r.owner, -1, usage{}.minus(r.progress.Size))
	}
}

// addUsage adds to what is stored for an owner. The caller holds mu.
func (cs *copies) addUsage(owner peer.ID, n usage) {
	cs.total = cs.total.plus(n)
	if u := cs.usage[owner].plus(n); u == (usage{}) {
		delete(cs.usage, owner)
	} else {
		cs.usage[owner] = u
	}
}

// addCopy adds a copy, or -1, to those of an owner, and what is stored for it. The caller holds mu.
func (cs *copies) addCopy(owner peer.ID, n int, size usage) {
	cs.addUsage(owner, size)
	if cs.numbers[owner] += n; cs.numbers[owner] == 0 {
		delete(cs.numbers, owner)
		delete(cs.witnessSets, owner)
	}
}

// Demote turns a subnet that this peer has handed over to another one, by the given
// lease, into a copy at the end of its log. The new owner continues that copy if its own
// log has this position as its base. The followers of the subnet are told that they are
// no longer replicas, and the log is deleted. confirmed is until when the new owner is
// known to count on the copy; zero if it may not.
func (cs *copies) Demote(
	p netip.Prefix, to peer.ID, epoch uint64, lease []byte, confirmed time.Time,
) error {
	return cs.demote(p, to, epoch, lease, confirmed, 0)
}

// Keep turns a subnet that another peer has taken over, by the given lease, into a copy of that
// peer's subnet, in case it is lost there. The other peer may have continued from an earlier
// position, so that the copy counts as one of another log, which the other peer replaces.
func (cs *copies) Keep(p netip.Prefix, to peer.ID, epoch uint64, lease []byte) error {
	return cs.demote(p, to, epoch, lease, time.Time{}, rand.Uint64()|1)
}

// demote makes a copy of what was this peer's, at the end of its log, or as if that were the given
// one; 0: it is. Without a log the subnet is deleted.
func (cs *copies) demote(
	p netip.Prefix, to peer.ID, epoch uint64, lease []byte, confirmed time.Time, log uint64,
) error {
	defer cs.locks.lock(p)()
	head, _, ok := cs.cfg.DB.LogHead(p)
	if log != 0 {
		head.Log = log
	}
	now := time.Now()
	rec := store.Subnet{
		Prefix: p, Phase: store.PhaseReplica, Lease: lease, Epoch: epoch, Since: now,
		Log: head.Log, Seq: head.Seq, Owner: to.String(),
	}
	at := copyProgress{Pos: head}
	if !ok {
		rec.Phase = store.PhaseStaged
	}
	err := cs.cfg.DB.Update(func(tx *store.Tx) error {
		hosts, err := tx.HostsOf(p)
		if err != nil {
			return err
		}
		at.Size = usage{}
		for _, h := range hosts {
			at.Size = at.Size.plus(usage{h.Known, h.Known * 300})
		}
		return errors.Join(putProgress(tx, p, at), tx.PutSubnet(rec))
	})
	if err == nil {
		err = cs.sources.Release(p)
	}
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !ok {
		cs.wipes = append(cs.wipes, p)
		cs.wipeAdded.Signal()
		return nil
	}
	cs.held[p] = &heldCopy{subnet: p, owner: to, epoch: epoch, lease: lease, progress: at,
		confirmed: confirmed, since: now}
	cs.addCopy(to, 1, at.Size)
	return nil
}

func progressKey(p netip.Prefix) string  { return "replica/progress/" + p.String() }
func witnessSetKey(owner peer.ID) string { return witnessSetSpace + owner.String() }

const witnessSetSpace = "replica/witness-set/"

func putProgress(tx *store.Tx, p netip.Prefix, x copyProgress) error {
	b, err := cbor.Marshal(x)
	if err != nil {
		return err
	}
	return tx.PutData(progressKey(p), b)
}

// load finds the copies on the disk, and what is to be wiped.
func (cs *copies) load() error {
	return cs.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Subnets(func(rec store.Subnet) error {
			switch rec.Phase {
			case store.PhaseStaged:
				cs.wipes = append(cs.wipes, rec.Prefix)
			case store.PhaseReplica:
				owner, err := peer.Decode(rec.Owner)
				if err != nil {
					return fmt.Errorf("copy of %v: %w", rec.Prefix, err)
				}
				r := &heldCopy{
					subnet: rec.Prefix, owner: owner, epoch: rec.Epoch, lease: rec.Lease,
					since: time.Now(),
				}
				b, err := tx.Data(progressKey(rec.Prefix))
				if err == nil {
					err = cbor.Unmarshal(b, &r.progress)
				}
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				if cs.witnessSets[owner] == nil {
					if cs.witnessSets[owner], err = tx.Data(witnessSetKey(owner)); err != nil &&
						!errors.Is(err, store.ErrNotFound) {
						return err
					}
				}
				if r.confirmed, err = cs.cfg.loadConfirmed(tx, r); err != nil {
					return err
				}
				cs.held[rec.Prefix] = r
				cs.addCopy(r.owner, 1, r.progress.Size)
			}
			return nil
		})
	})
}
