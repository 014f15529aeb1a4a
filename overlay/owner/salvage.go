package owner

import (
	"context"
	"net/netip"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/replica"
)

// A copy that no peer will continue may still contain URLs that no other peer has: one
// that was never complete, of a dead owner, or one of a subnet that was recreated while
// this peer was away. Before it is deleted, what is queued in it and what its owner had
// not delivered becomes pending like URLs that this peer found, for the current owner of
// the subnet, which drops what it has seen.

// salvagesAtOnce bounds the copies that are salvaged at a time.
const salvagesAtOnce = 2

// salvager is the part of a Manager that deletes orphaned copies after it has sent what only they
// may contain to the owners.
type salvager struct {
	*table
	copies queue[struct{}] // that are orphaned
}

// markOrphanedCopy marks a copy as one to be salvaged.
func (v *salvager) markOrphanedCopy(p netip.Prefix) {
	v.copies.add(p, time.Time{}, struct{}{})
}

// toSalvage returns the tasks for orphaned copies.
func (v *salvager) toSalvage() []func(context.Context) {
	return v.copies.tasks(v.env, time.Now(), nil,
		func(_ context.Context, p netip.Prefix, _ struct{}) error {
			err := v.salvage(p)
			if err != nil {
				v.log.Error("failed to salvage copy", "subnet", p, "err", err)
			}
			return err
		})
}

// salvage makes pending what only a copy may know, and deletes the copy. It may be
// repeated.
func (v *salvager) salvage(p netip.Prefix) error {
	h, held := v.cfg.Replicas.Copy(p)
	if !held || v.Live(p) {
		return nil
	}
	if err := v.rerouteAll(p); err != nil {
		return err
	}
	if err := v.promoteLinks(p); err != nil {
		return err
	}
	if err := v.cfg.DB.Sync(); err != nil {
		return err
	}
	v.log.Warn("salvaged orphaned copy", "subnet", p, "owner", h.Owner,
		"complete", h.Complete)
	return v.cfg.Replicas.Drop(p)
}

// precious reports whether the local copy of a subnet may contain what the owner that
// opens it does not have: an owner that recreated it because it took over without a copy
// or lost its disk.
func (v *salvager) precious(o replica.OpenRequest, l lease.Lease) bool {
	h, held := v.cfg.Replicas.Copy(o.Subnet)
	switch {
	case !held, h.Pos.Log == 0, h.Pos.Log == o.Log:
		return false // nothing in it, or the same log
	case h.Pos.Log == o.Base.Log && h.Pos.Seq <= o.Base.Seq, h.HandedOver(l.Owner, o):
		return false // the owner has had that, and more
	}
	return !passed(h, l)
}

// passed says whether the owner of a copy gave the subnet away by the lease l itself, with
// all that it had.
func passed(h replica.LocalCopy, l lease.Lease) bool {
	return l.Epoch == h.Epoch+1 && l.Grant != nil
}
