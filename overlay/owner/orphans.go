package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/replica"
	"peerd/overlay/witness"
)

// maxOrphans bounds the orphans that are remembered; the others are told again.
const maxOrphans = 1 << 14

// orphanFor is the time for which an orphan is remembered after it was last wanted.
const orphanFor = 3 * time.Hour

// orphan is another peer's subnet for which URLs wait here, and which has an owner that does
// not answer. If that owner is dead and no peer has a copy, only peers with URLs for the
// subnet can continue it.
type orphan struct {
	lease  lease.Lease
	sealed []byte
	asked  time.Time // when it was last waited for
	held   time.Time // since when another peer is known to have a copy; zero: none
}

// orphaned notes that URLs wait for a subnet's owner, who does not answer. Its lease
// was just read.
func (f *failover) orphaned(l lease.Lease, sealed []byte) {
	if f.cfg.Witness == nil || l.Owner == f.cfg.Self {
		return
	}
	now := time.Now()
	o := orphan{lease: l, sealed: sealed, asked: now}
	if !f.orphans.change(l.Subnet, func(e *entry[orphan]) {
		if old := e.about; old.lease.Owner == l.Owner && old.lease.Epoch == l.Epoch {
			o.held = old.held
		}
		e.about = o
	}) {
		f.orphans.add(l.Subnet, time.Time{}, o)
	}
}

// toRescue returns the tasks for orphans with owners that no peer hears.
func (f *failover) toRescue(now time.Time) []func(context.Context) {
	if f.draining.Load() {
		return nil
	}
	groups := map[peer.ID][]orphan{}
	free := asksAtOnce - int(f.asking.Load())
	f.orphans.due(now, func(p netip.Prefix, e *entry[orphan]) verdict {
		o, owner := e.about, e.about.lease.Owner
		g, begun := groups[owner]
		switch {
		case now.Sub(o.asked) > orphanFor || f.Live(p):
			return forget
		case len(g) == askSteps || !begun && len(groups) >= free:
			return skip
		case f.silence(owner, now) <= f.silenceLimit(o.lease)*5/4+8*f.share(p):
			e.fails = 0
			return skip
		}
		groups[owner] = append(g, o)
		return begin
	})
	var tasks []func(context.Context)
	for owner, g := range groups {
		tasks = append(tasks, f.group(func(ctx context.Context) { f.rescueAll(ctx, owner, g) }))
	}
	return tasks
}

// rescueAll tries to make orphans of one owner ours.
func (f *failover) rescueAll(ctx context.Context, owner peer.ID, os []orphan) {
	ctx, cancel := context.WithTimeout(ctx, 3*witness.VoteWindow)
	defer cancel()
	var left []orphan
	errs := make([]error, len(os))
	each(os, func(i int, o orphan) { errs[i] = f.stillOrphan(ctx, o.lease) })
	for i, o := range os {
		if errs[i] == nil {
			left = append(left, o)
		} else {
			f.rescued(ctx, o, errs[i])
		}
	}
	if len(left) == 0 {
		return
	}
	if left = f.unheld(ctx, left); len(left) == 0 {
		return
	}
	tally, err := f.poll(ctx, owner, left)
	each(left, func(_ int, o orphan) { f.rescued(ctx, o, f.recreate(ctx, o, tally, err)) })
}

// stillOrphan reads the owner of a subnet: nil means that it is still the old one.
func (f *failover) stillOrphan(ctx context.Context, old lease.Lease) error {
	if err := f.cfg.Limiter.MayClaim(); err != nil {
		return err
	}
	best, _, err := f.cfg.Leases.Refresh(ctx, old.Subnet)
	switch {
	case errors.Is(err, lease.ErrUnowned): // perhaps ours by an attempt before; a claim finds out
		return errNotOurs
	case err != nil:
		return err
	case best.Owner != old.Owner || best.Epoch != old.Epoch:
		return fmt.Errorf("%w: %v has epoch %d", errOutdated, best.Owner, best.Epoch)
	}
	return nil
}

// silenceLimit returns the time for which a subnet waits for its silent owner or a
// replica. It is shorter for a subnet that had just been claimed when its owner was last
// heard, because it had no time for a replica. A successor has its predecessor as a
// replica at once.
func (f *failover) silenceLimit(l lease.Lease) time.Duration {
	if undecided(l) && l.Issued.Add(f.cfg.Times.First+f.cfg.Times.Lost).After(
		f.cfg.Leases.ByClock(f.lastHeard(l.Owner))) {
		return f.cfg.Times.Orphan
	}
	return f.cfg.Times.Recreate
}

// undecided says that a lease is a claim after which nothing has been decided yet.
func undecided(l lease.Lease) bool { return l.Epoch == 1 && l.Proxy == nil }

// heldFor is how long a peer that has a copy may need to take over with it, in
// what is waited anyway: one that was started just now waits as long itself.
const heldFor = 2

// unheld returns those of which no reachable peer has a good copy, and those with
// holders that had enough time.
func (f *failover) unheld(ctx context.Context, os []orphan) (left []orphan) {
	ls := make([]lease.Lease, len(os))
	for i, o := range os {
		ls[i] = o.lease
	}
	h := f.replicas.holders(ctx, ls)
	now := time.Now()
	for _, o := range os {
		p := o.lease.Subnet
		if _, ok := f.cfg.Replicas.Copy(p); ok || len(h.copies[p]) == 0 {
			left = append(left, o)
			continue
		}
		over := false
		f.orphans.change(p, func(e *entry[orphan]) {
			if e.about.held.IsZero() {
				e.about.held = now
			}
			over = now.Sub(e.about.held) > heldFor*f.silenceLimit(o.lease)
		})
		if over {
			left = append(left, o)
		} else {
			f.rescued(ctx, o, fmt.Errorf("%w: %v", errHeld, h.copies[p][0].by))
		}
	}
	return left
}

// poll requests votes from the witness set of a dead owner, which other peers may know.
func (f *failover) poll(ctx context.Context, owner peer.ID, os []orphan) (witness.Tally, error) {
	steps := make([]witness.Proposal, len(os))
	for i, o := range os {
		steps[i] = witness.Proposal{Subnet: o.lease.Subnet, Epoch: o.lease.Epoch + 1,
			Ended: o.lease.Digest()}
	}
	return f.ask(ctx, owner, f.cfg.Witness.WitnessSetOf(ctx, owner), steps)
}

// recreate makes an orphan ours by votes or by long silence. It starts from a local copy
// if there is one.
func (f *failover) recreate(ctx context.Context, o orphan, tally witness.Tally, why error) error {
	old := o.lease
	h := replica.LocalCopy{Subnet: old.Subnet, Owner: old.Owner, Epoch: old.Epoch, Lease: o.sealed}
	t, until, err := f.consent(h, tally, why)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := f.claimer.noteClaim(old.Subnet); err != nil {
		return err
	}
	l, sealed, err := f.cfg.Leases.TakeOver(ctx, old, t, old.Proxy)
	var beaten *lease.BeatenError
	if errors.As(err, &beaten) {
		f.claimer.claimed(old.Subnet)
	}
	if err != nil {
		return err
	}
	_, held := f.cfg.Replicas.Copy(old.Subnet)
	if err := f.arrivals.begin(l, sealed); err != nil {
		return err
	}
	f.claimer.claimed(old.Subnet)
	if !held {
		f.arrivals.takeovers.Add(1)
	}
	f.log.Warn("recreated subnet of dead owner", "subnet", old.Subnet, "owner", old.Owner,
		"epoch", l.Epoch)
	return nil
}

// rescued records the result of an attempt. URLs that wait for the subnet are resolved
// again unless it still belongs to its dead owner.
func (f *failover) rescued(ctx context.Context, o orphan, err error) {
	p := o.lease.Subnet
	if err == nil || errors.Is(err, errNotOurs) || errors.Is(err, errOutdated) {
		f.orphans.done(p)
	} else {
		f.orphans.fail(p, time.Now())
	}
	switch {
	case err == nil, errors.Is(err, errNotOurs), errors.Is(err, errOutdated),
		errors.Is(err, errClearing):
		f.cfg.Outbox.ResolveAgain(p)
	case ctx.Err() == nil:
		f.log.Info("failed to take over orphaned subnet", "subnet", p, "owner", o.lease.Owner,
			"err", err)
	}
}
