package replica

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// handleWitnessSet stores an owner's witness set if a copy of that owner is kept. Its
// seal is checked when it is used.
func (cs *copies) handleWitnessSet(in *replicaLink, sealed []byte) error {
	if len(sealed) > maxWitnessSet {
		return fmt.Errorf("%w: a witness set of %d bytes", errMalformed, len(sealed))
	}
	in.witnessSet = sealed
	cs.setting.RLock()
	defer cs.setting.RUnlock()
	cs.mu.Lock()
	kept := cs.numbers[in.owner] > 0
	if kept {
		cs.witnessSets[in.owner] = sealed
	}
	cs.mu.Unlock()
	if !kept {
		return nil
	}
	return cs.cfg.DB.Update(func(tx *store.Tx) error {
		return tx.PutData(witnessSetKey(in.owner), sealed)
	})
}

// handleClose ends a copy on a link.
func (cs *copies) handleClose(in *replicaLink, c closeRequest) error {
	unlock := cs.locks.lock(c.Subnet)
	cs.mu.Lock()
	r := cs.held[c.Subnet]
	theirs := r != nil && r.owner == in.owner
	ends := theirs && r.link == in
	if ends {
		r.detach()
	}
	cs.mu.Unlock()
	if ends && !c.Drop {
		cs.markOutdated(r)
	}
	unlock()
	if !theirs || !c.Drop {
		return nil
	}
	epoch := r.epoch
	end := func() error {
		if cs.takenOver(c.Subnet, epoch) {
			return nil
		}
		return cs.dropIf(c.Subnet, func(r *heldCopy) bool {
			return r.owner == in.owner && r.link == nil
		})
	}
	if cs.dropOnUnpin(c.Subnet, end) {
		return nil
	}
	return end()
}

// handleOpen answers an open request.
func (cs *copies) handleOpen(in *replicaLink, o OpenRequest) openReply {
	h := openReply{Subnet: o.Subnet, ID: o.ID, Status: statusOK}
	cs.mu.Lock()
	if o.WitnessSet = in.witnessSet; o.WitnessSet == nil {
		o.WitnessSet = cs.witnessSets[in.owner]
	}
	cs.mu.Unlock()
	err := o.check()
	var r *heldCopy
	if err == nil {
		r, err = cs.accept(in, o)
	}
	switch {
	case err == nil:
		cs.mu.Lock()
		if at := r.progress; at.Pos.Log == o.Log && !at.Unstarted {
			h.Pos, h.Cursor = at.Pos, at.Cursor
		}
		cs.mu.Unlock()
		return h
	case errors.Is(err, ErrLater):
		h.Status = statusLater
	case errors.Is(err, ErrStale):
		h.Status = statusStale
	default:
		h.Status = statusRefused
	}
	h.Reason = clip(err.Error())
	return h
}

// errClearing and errCommitting ask an owner to wait.
var (
	errClearing   = fmt.Errorf("%w: an earlier copy is being removed", ErrLater)
	errCommitting = fmt.Errorf("%w: the subnet is being handed over by this peer", ErrLater)
)

// phase returns the phase of a subnet at this peer.
func (cs *copies) phase(p netip.Prefix) (store.Phase, error) {
	var rec store.Subnet
	err := cs.cfg.DB.View(func(tx *store.Tx) (err error) {
		rec, err = tx.Subnet(p)
		return store.IgnoreNotFound(err)
	})
	return rec.Phase, err
}

// fullForLocked reports whether no copy of another subnet of an owner is kept: there are too many
// in all, or the owner has used its share.
func (cs *copies) fullForLocked(owner peer.ID) bool {
	return len(cs.held) >= cs.cfg.MaxCopies ||
		float64(cs.numbers[owner]) >= ownerShare*float64(cs.cfg.MaxCopies) ||
		float64(cs.usage[owner].URLs) > ownerShare*float64(cs.cfg.MaxURLs)
}

// accept makes this peer a replica, or continues a copy.
func (cs *copies) accept(in *replicaLink, o OpenRequest) (*heldCopy, error) {
	defer cs.locks.lock(o.Subnet)()
	cs.mu.Lock()
	r := cs.held[o.Subnet]
	continued := r != nil && cs.export(r).continuedBy(in.owner, o)
	full := cs.fullForLocked(in.owner)
	_, pinned := cs.pinned[o.Subnet]
	cs.mu.Unlock()
	switch {
	case r != nil && (o.Epoch < r.epoch || o.Epoch == r.epoch && in.owner != r.owner):
		return nil, fmt.Errorf("%w: epoch %d of %s", ErrStale, r.epoch, r.owner)
	case r == nil && full:
		return nil, errQuota
	case pinned:
		return nil, errPinned
	}
	// A successor may follow its predecessor before the predecessor knows its lease.
	if phase, err := cs.phase(o.Subnet); err != nil {
		return nil, err
	} else if phase == store.PhaseCommitting {
		return nil, errCommitting
	}
	if err := cs.cfg.Policy.AcceptCopy(in.owner, o); err != nil {
		return nil, err
	}
	next := heldCopy{subnet: o.Subnet, owner: in.owner, epoch: o.Epoch, lease: o.Lease,
		since: time.Now()}
	next.progress = copyProgress{Unstarted: true}
	if r != nil {
		next.since, next.progress = r.since, r.progress
		switch at := r.progress; {
		case continued:
			next.progress.Pos, next.progress.Until = LogPos{Log: o.Log}, 0
		case at.Pos.Log == o.Log, in.owner == r.owner:
			// Continues, or stays as it is until a snapshot begins.
		default:
			next.progress.Pos, next.progress.Cursor, next.progress.Unstarted = LogPos{}, nil, true
		}
	}
	next.progress.Link = 0 // until a change comes
	cs.setting.RLock()
	defer cs.setting.RUnlock()
	if err := cs.saveCopy(&next, o); err != nil {
		return nil, err
	}
	next.link, next.openID = in, o.ID
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if r != nil {
		r.detach()
		cs.addCopy(r.owner, -1, usage{}.minus(r.progress.Size))
	} else {
		r = &heldCopy{}
		cs.held[o.Subnet] = r
	}
	if len(o.WitnessSet) > 0 {
		cs.witnessSets[in.owner] = o.WitnessSet
	}
	next.heard = r.heard
	if r.owner == in.owner {
		next.confirmed = r.confirmed
	}
	in.attach()
	*r = next
	cs.addCopy(r.owner, 1, r.progress.Size)
	return r, nil
}

// saveCopy writes the record of a copy, unless this peer owns the subnet.
func (cs *copies) saveCopy(r *heldCopy, o OpenRequest) error {
	return cs.cfg.DB.Update(func(tx *store.Tx) error {
		old, err := tx.Subnet(r.subnet)
		switch {
		case err == nil && old.Phase == store.PhaseStaged:
			return errClearing
		case err == nil && old.Phase != store.PhaseReplica:
			return fmt.Errorf("the subnet is in phase %v at this peer", old.Phase)
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		}
		rec := store.Subnet{
			Prefix: r.subnet, Phase: store.PhaseReplica, Lease: o.Lease, Epoch: o.Epoch,
			Since: r.since, Evidence: o.Evidence, Estimations: o.Estimations,
			Owner: r.owner.String(),
			Log:   r.progress.Pos.Log, Seq: r.progress.Pos.Seq, Cursor: r.progress.Cursor,
		}
		if !r.progress.complete() && rec.Cursor == nil {
			rec.Cursor = []byte{}
		}
		if err := tx.PutSubnet(rec); err != nil {
			return err
		}
		if len(o.WitnessSet) > 0 {
			if err := tx.PutData(witnessSetKey(r.owner), o.WitnessSet); err != nil {
				return err
			}
		}
		return putProgress(tx, r.subnet, r.progress)
	})
}
