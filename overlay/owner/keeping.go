package owner

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/shadow"
)

var _ shadow.Keeper = (*Manager)(nil)

// errDraining is told to those who bring something while this peer leaves.
var errDraining = errors.New("this peer is leaving")

// Willing says whether this peer keeps a copy of a subnet that another owns by
// the lease shown. The error wraps shadow.ErrStale when the subnet is known to
// be another's.
func (m *Manager) Willing(from peer.ID, o shadow.Open) error {
	l, err := lease.OpenLease(o.Lease)
	if err != nil {
		return err
	}
	if l.Owner != from || l.Subnet != o.Subnet || l.Epoch != o.Epoch {
		return errors.New("the lease does not fit")
	}
	if len(o.Panel) > 0 {
		if p, err := lease.OpenPanel(o.Panel); err != nil || p.Owner != from {
			return errors.New("the panel does not fit")
		}
	}
	best, err := m.cfg.Leases.Learn(o.Lease)
	switch {
	case err != nil:
		return err
	case best.Owner != from || best.Epoch != o.Epoch:
		return fmt.Errorf("%w: %v has epoch %d", shadow.ErrStale, best.Owner, best.Epoch)
	}
	if m.precious(o, best) {
		m.wreck(o.Subnet)
		return fmt.Errorf("%w: an older copy is put aside first", shadow.ErrLater)
	}
	if m.Live(o.Subnet) {
		m.beaten(best)
		return fmt.Errorf("%w: the subnet was mine until now", shadow.ErrLater)
	}
	if m.draining.Load() {
		return errDraining
	}
	if m.cfg.Room != nil {
		if err := m.cfg.Room(); err != nil {
			return err
		}
	}
	return m.cfg.Allowed(inside(o.Subnet))
}

// Current returns the best lease that is known of a subnet, without asking
// anybody.
func (m *Manager) Current(p netip.Prefix) (owner peer.ID, epoch uint64, ok bool) {
	l, ok := m.cfg.Leases.Cached(p)
	return l.Owner, l.Epoch, ok
}
