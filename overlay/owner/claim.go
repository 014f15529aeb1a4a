package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"peerd/overlay/lease"
	"peerd/store"
)

// ErrAlone is what Config.MayClaim says while this peer knows others and reaches none.
var ErrAlone = errors.New("owner: no other peer reachable; not claiming")

// errClearing says that what is left of a subnet's copy is being swept away.
var errClearing = errors.New("owner: the old copy of the subnet is being deleted")

// claimer is the part of a Manager that claims subnets without an owner, finds out what became
// of claims that were interrupted, and gives the subnets of a lost disk to peers with a copy
// (restore.go).
type claimer struct {
	*table
	arrivals *arrivals
	replicas *replicas
	claims   map[netip.Prefix]bool // that have begun and are not over; guarded by mu
	restores queue[*restoring]
	// subnets that may be ours by a lease in the DHT; true: a claim of this process broke off
	unsettled queue[bool]
}

// Claim makes this peer the owner of an unowned subnet, or learns who is. When
// it returns nil the subnet has an owner. A peer that may not act as an owner claims
// nothing.
func (c *claimer) Claim(ctx context.Context, p netip.Prefix) error {
	if c.broke(p) {
		return c.claimLate(ctx, p)
	}
	return c.claim(ctx, p)
}

func (c *claimer) claim(ctx context.Context, p netip.Prefix) error {
	l, sealed, err := c.settle(ctx, p)
	if err != nil || l.Owner != c.cfg.Self {
		return err
	}
	if err := c.arrivals.begin(l, sealed); err != nil {
		_ = c.noteDiskFull(err) // the caller tries again in any case
		return err
	}
	c.claimed(p)
	return nil
}

// settle writes a claim and returns our lease; none, without an error, if another peer
// owns the subnet.
func (c *claimer) settle(
	ctx context.Context, p netip.Prefix,
) (l lease.Lease, sealed []byte, err error) {
	if err := c.cfg.Limiter.MayClaim(); err != nil {
		return l, nil, err
	}
	switch {
	case c.draining.Load():
		return l, nil, errDraining
	case c.diskFull.Load():
		return l, nil, errDiskFull
	// nothing could be fetched there, and what others own may not be seen from here
	case !c.HasQuorumLease():
		return l, nil, errNoQuorumLease
	}
	if err := c.ownedBefore(p); err != nil {
		return l, nil, err
	}
	if err := c.noteClaim(p); err != nil {
		return l, nil, err
	}
	l, sealed, err = c.cfg.Leases.Claim(ctx, p)
	var beaten *lease.BeatenError
	switch {
	case errors.As(err, &beaten):
		c.claimed(p)
		return lease.Lease{}, nil, nil // another peer owns it
	case err != nil:
		c.brokeOff(p) // it may have been written, and who wanted it may not come again
	}
	return l, sealed, err
}

// A claim is written down before it is begun, and deleted when it is over. So a peer that fails in
// between, however often, knows from its disk that the lease of its own in the DHT is from that
// claim. The subnet has no replicas then, which would have to be looked for (restore.go).

const claimSpace = "owner/claim/"

// noteClaim writes down that a subnet is about to be claimed, or taken over without a copy.
func (c *claimer) noteClaim(p netip.Prefix) error {
	c.mu.Lock()
	known := c.claims[p] || c.subnets[p] != nil || len(c.claims) >= maxOrphans
	if !known {
		c.claims[p] = true
	}
	c.mu.Unlock()
	if known {
		return nil
	}
	err := c.cfg.DB.Batch(func(tx *store.Tx) error {
		return tx.PutData(claimSpace+p.String(), nil)
	})
	if err == nil {
		err = c.cfg.DB.Sync()
	}
	if err != nil {
		_ = c.noteDiskFull(err) // the caller tries again in any case
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.claims, p)
	}
	return err
}

// claimed takes in that a claim is over.
func (c *claimer) claimed(p netip.Prefix) {
	c.mu.Lock()
	known := c.claims[p]
	delete(c.claims, p)
	c.mu.Unlock()
	if !known {
		return
	}
	if err := c.cfg.DB.Batch(func(tx *store.Tx) error {
		return tx.DeleteData(claimSpace + p.String())
	}); err != nil {
		c.log.Error("failed to delete record of claim", "subnet", p, "err", err)
	}
}

// loadClaims has the claims settled that the end of the last process broke off.
func (c *claimer) loadClaims() error {
	var over []netip.Prefix
	err := c.cfg.DB.EachData(claimSpace, func(key string, _ []byte) error {
		p, err := netip.ParsePrefix(key)
		if err != nil {
			return fmt.Errorf("claim of %q: %w", key, err)
		}
		c.claims[p] = true
		if c.subnets[p] != nil {
			over = append(over, p)
		} else {
			c.brokeOff(p)
		}
		return nil
	})
	for _, p := range over {
		c.claimed(p)
	}
	return err
}
