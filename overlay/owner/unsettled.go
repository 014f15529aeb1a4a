package owner

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/overlay/lease"
)

// A lease of ours may stand in the DHT for a subnet on which this peer does not act: a
// claim that was interrupted after it was written, by a crash or for lack of an
// acknowledgement, or a lost disk. No other peer may claim such a subnet while the lease
// lasts, and all peers send its URLs here. Each URL received and each failed claim
// therefore starts a check: our lease is settled again, which makes the subnet ours or
// shows the winner.

const (
	// unsettledMost bounds the subnets that are looked at, unsettledAtOnce those at a time.
	unsettledMost   = 1024
	unsettledAtOnce = 4
	// unsettledWait is the wait after a check without a result; it doubles up to
	// unsettledWaitMax. unsettledCooldown is the time until a subnet that was found not to
	// be ours is checked again.
	unsettledWait     = 5 * time.Second
	unsettledWaitMax  = time.Minute
	unsettledCooldown = 30 * time.Second
	// unsettledLook bounds one look.
	unsettledLook = time.Minute
)

// verifyLease schedules a DHT lookup to find out whether a lease makes p ours.
func (c *claimer) verifyLease(p netip.Prefix, at time.Time) {
	if !c.Live(p) {
		c.unsettled.add(p, at, false)
	}
}

// verifyReported is verifyLease for a subnet of which nothing here, but what another peer says,
// suggests that it is ours. Half of the places are not for such subnets: anybody can name some.
func (c *claimer) verifyReported(p netip.Prefix) {
	if c.unsettled.size() < unsettledMost/2 {
		c.verifyLease(p, time.Now())
	}
}

// brokeOff notes that a claim did: it may stand all the same, even if the subnet was just found not
// to be ours.
func (c *claimer) brokeOff(p netip.Prefix) {
	at := time.Now().Add(unsettledWait)
	c.verifyLease(p, at)
	c.unsettled.change(p, func(e *entry[bool]) {
		if e.about = true; e.state == entryDone {
			*e = entry[bool]{about: true, next: at}
		}
	})
}

// broke says whether a claim broke off, and it is not known yet what became of it.
func (c *claimer) broke(p netip.Prefix) bool {
	e, _ := c.unsettled.get(p)
	return e.about && e.state != entryDone
}

// toSettle returns what is to be done for subnets that may be ours.
func (c *claimer) toSettle(now time.Time) []func(context.Context) {
	if c.draining.Load() {
		return nil
	}
	notOurs := func(p netip.Prefix) bool { return !c.Live(p) }
	return c.unsettled.tasks(c.env, now, notOurs, c.settleAgain)
}

// settleAgain looks whether a subnet is ours by the DHT, and if so settles that.
func (c *claimer) settleAgain(ctx context.Context, p netip.Prefix, _ bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Cooldown+unsettledLook)
	defer cancel()
	_, _, err := c.cfg.Leases.Refresh(ctx, p)
	if errors.Is(err, lease.ErrUnowned) {
		err = nil
	}
	switch ours, unknown := c.ours(p); {
	case !ours && !unknown:
		c.claimed(p) // by another peer
	case ours && !c.Live(p):
		if err = c.claimLate(ctx, p); err == nil {
			c.log.Info("completed interrupted claim", "subnet", p,
				"ours", c.Live(p))
			c.cfg.Outbox.ResolveAgain(p)
		}
	}
	if err != nil && ctx.Err() == nil {
		c.log.Debug("failed to verify lease", "subnet", p, "err", err)
	}
	return err
}

// claimLate settles a claim that was interrupted. A peer that claimed later may have
// settled its claim in the meantime and fetch already: so the subnet has a cooldown
// before it begins, as after a takeover, and the other peer reads which claim has won.
func (c *claimer) claimLate(ctx context.Context, p netip.Prefix) error {
	if l, _, err := c.settle(ctx, p); err != nil || l.Owner != c.cfg.Self {
		return err
	}
	rest := time.NewTimer(c.cfg.Cooldown)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-rest.C:
	}
	return c.claim(ctx, p)
}
