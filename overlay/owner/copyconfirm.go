package owner

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/replica"
)

// A copy takes a place and disk space, and who asks for one only shows a lease, which anybody can
// sign for a subnet that is not known here. So a copy is promised when this peer knows the lease
// from more than the claimant: it has read it, or the one before it, in the DHT, or keeps a copy
// under it. Otherwise the claimant is told to wait, and the DHT is read.

const (
	// confirmMost bounds the subnets of which the leases are to be read, confirmByOwner those of
	// one claimant, and confirmAtOnce the reads at a time.
	confirmMost    = 1024
	confirmByOwner = 32
	confirmAtOnce  = 16
	// confirmCooldown is the time until a lease is read again that was not found, or was
	// another's. Until then it counts to those of its claimant.
	confirmCooldown = 5 * time.Second
)

// copyAsker is who asked for a copy of a subnet.
type copyAsker struct {
	owner peer.ID
	id    uint64 // of the request
	lease []byte // shown
}

// confirmed returns nil if the lease of a claimant is known from more than itself. Otherwise it has
// the lease read, within the claimant's budget, and returns an error that wraps replica.ErrLater.
func (y *copyPolicy) confirmed(from peer.ID, o replica.OpenRequest) error {
	if y.leaseKnown(o.Subnet, from) || y.keeps(o) {
		return nil
	}
	ask := copyAsker{from, o.ID, o.Lease}
	theirs := func(a copyAsker) bool { return a.owner == from }
	within := y.confirms.count(theirs) < confirmByOwner
	known := y.confirms.change(o.Subnet, func(e *entry[copyAsker]) {
		switch {
		case theirs(e.about):
			e.about = ask
		case e.state == entryDone && within: // another peer has asked for what is not its own
			*e = entry[copyAsker]{about: ask, next: time.Now()}
		}
	})
	if !known && !within {
		return fmt.Errorf("%w: leases of other subnets are being confirmed", replica.ErrLater)
	}
	y.confirms.add(o.Subnet, time.Now(), ask)
	y.wake()
	return fmt.Errorf("%w: the lease is being confirmed", replica.ErrLater)
}

// leaseKnown reports whether the lease of a subnet is that of a peer, and more than hearsay.
func (y *copyPolicy) leaseKnown(p netip.Prefix, owner peer.ID) bool {
	e, ok := y.cfg.Leases.Get(p)
	return ok && e.Known() && e.Record.Owner == owner
}

// keeps reports whether a copy is kept here under the lease of a request.
func (y *copyPolicy) keeps(o replica.OpenRequest) bool {
	c, ok := y.cfg.Replicas.Copy(o.Subnet)
	if !ok || c.Epoch != o.Epoch {
		return false
	}
	kept, err := lease.OpenLease(c.Lease)
	if err != nil {
		return false
	}
	shown, err := lease.OpenLease(o.Lease)
	return err == nil && shown.Digest() == kept.Digest()
}

// toConfirm returns what reads leases for which peers ask for copies.
func (y *copyPolicy) toConfirm(now time.Time) []func(context.Context) {
	return y.confirms.tasks(y.env, now, nil, y.confirm)
}

// confirm reads the lease of a subnet. If it is that of the peer that asked for a copy, that peer
// is told to ask again.
func (y *copyPolicy) confirm(ctx context.Context, p netip.Prefix, _ copyAsker) error {
	ctx, cancel := context.WithTimeout(ctx, confirmFor)
	defer cancel()
	if _, _, err := y.cfg.Leases.Refresh(ctx, p); err != nil {
		y.log.Debug("failed to confirm lease for a copy", "subnet", p, "err", err)
	}
	e, _ := y.confirms.get(p)
	who := e.about
	if _, _, err := y.cfg.Leases.Weigh(who.lease); err != nil {
		return nil // it has expired
	}
	if y.leaseKnown(p, who.owner) {
		y.confirms.done(p)
		y.cfg.Replicas.AskAgain(who.owner, p, who.id)
	}
	return nil
}
