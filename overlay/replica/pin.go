package replica

import (
	"fmt"
	"net/netip"
)

// errPinned asks an owner to wait.
var errPinned = fmt.Errorf("%w: about to be taken over", ErrLater)

// Pin protects a complete copy of that epoch while this peer is about to take the subnet
// over. Otherwise an owner that returns in that moment could end the copy or send it
// again, and there would be a lease without data. What the owner asks for is done by
// unpin, if the copy still exists. ok is false, and unpin nil, if there is no
// such copy, or it is pinned already.
func (cs *copies) Pin(p netip.Prefix, epoch uint64) (unpin func(), ok bool) {
	defer cs.locks.lock(p)()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	r := cs.held[p]
	if _, pinned := cs.pinned[p]; pinned || r == nil || r.epoch != epoch || !r.progress.complete() {
		return nil, false
	}
	cs.pinned[p] = nil
	return func() { cs.unpin(p) }, true
}

// takenOver reports whether this peer owns the subnet of a copy of that epoch by a later lease: the
// copy is to be promoted, which a full disk may delay.
func (cs *copies) takenOver(p netip.Prefix, epoch uint64) bool {
	by, best, known := cs.cfg.Policy.CurrentLease(p)
	return known && best > epoch && by == cs.cfg.Host.ID()
}

func (cs *copies) unpin(p netip.Prefix) {
	cs.mu.Lock()
	end := cs.pinned[p]
	delete(cs.pinned, p)
	cs.mu.Unlock()
	if end == nil {
		return
	}
	if err := end(); err != nil {
		cs.cfg.Logger.Error("failed to drop copy", "subnet", p, "err", err)
	}
}

// dropOnUnpin has end called when the copy is unpinned, and reports whether it is
// pinned.
func (cs *copies) dropOnUnpin(p netip.Prefix, end func() error) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	_, pinned := cs.pinned[p]
	if pinned {
		cs.pinned[p] = end
	}
	return pinned
}
