package owner

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/replica"
)

// errDraining is told to those who bring something while this peer leaves.
var errDraining = errors.New("this peer is leaving")

// copyPolicy is the part of a Manager that says which copies of other peers' subnets are kept here.
type copyPolicy struct {
	*table
	claimer  *claimer
	failover *failover
	leases   *leases
	salvager *salvager
	confirms queue[copyAsker] // subnets of which the leases are to be confirmed
}

var _ replica.Policy = (*copyPolicy)(nil)

// AcceptCopy reports whether this peer keeps a copy of a subnet that another peer owns
// by the lease shown. The error wraps replica.ErrStale if the subnet is known to have
// another owner, and replica.ErrLater while it is not known
// that from owns it.
func (y *copyPolicy) AcceptCopy(from peer.ID, o replica.OpenRequest) error {
	l, err := lease.OpenLease(o.Lease)
	if err != nil {
		return err
	}
	if l.Owner != from || l.Subnet != o.Subnet || l.Epoch != o.Epoch {
		return errors.New("the lease does not match")
	}
	if len(o.WitnessSet) > 0 {
		if p, err := lease.OpenWitnessSet(o.WitnessSet); err != nil || p.Owner != from {
			return errors.New("the witness set does not match")
		}
	}
	best, known, err := y.cfg.Leases.Weigh(o.Lease)
	switch {
	case err != nil:
		return err
	case !known && !y.keeps(o): // what only from says decides nothing
		if err := y.mayKeep(o.Subnet); err != nil {
			return err
		}
		return y.confirmed(from, o)
	case best.Owner != from || best.Epoch != o.Epoch:
		return fmt.Errorf("%w: %v has epoch %d", replica.ErrStale, best.Owner, best.Epoch)
	}
	if y.salvager.precious(o, best) {
		y.salvager.markOrphanedCopy(o.Subnet)
		return fmt.Errorf("%w: an older copy is salvaged first", replica.ErrLater)
	}
	if y.Live(o.Subnet) {
		y.leases.beaten(best)
		return fmt.Errorf("%w: the subnet was mine until now", replica.ErrLater)
	}
	if err := y.mayKeep(o.Subnet); err != nil {
		return err
	}
	return y.confirmed(from, o)
}

// mayKeep returns an error if this peer keeps no copy of a subnet now, whoever owns it.
func (y *copyPolicy) mayKeep(p netip.Prefix) error {
	if y.draining.Load() {
		return errDraining
	}
	if err := y.cfg.Limiter.CheckSpace(); err != nil {
		return err
	}
	return y.cfg.Guard.Check(inside(p))
}

// CurrentLease returns the best lease known of a subnet, from memory. Another peer's is not known
// by hearsay.
func (y *copyPolicy) CurrentLease(p netip.Prefix) (owner peer.ID, epoch uint64, ok bool) {
	e, ok := y.cfg.Leases.Get(p)
	l := e.Record
	return l.Owner, l.Epoch, ok && (e.Known() || l.Owner == y.cfg.Self)
}

// CopyRequested reports that another peer asked for a copy that is here. The copy is
// checked soon if its owner is silent.
func (y *copyPolicy) CopyRequested(p netip.Prefix) {
	soon := time.Now().Add(takeWait)
	y.failover.attempts.change(p, func(e *entry[int]) {
		if e.next.After(soon) {
			e.next = soon
		}
	})
}

// CopyReported reports that another peer keeps a copy of a subnet of this peer. If
// nothing is here it checks whether the subnet is ours.
func (y *copyPolicy) CopyReported(p netip.Prefix) {
	if ours, _ := y.ours(p); ours {
		y.claimer.verifyLease(p, time.Now())
		return
	}
	y.claimer.verifyReported(p)
}
