package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/overlay/replica"
	"peerd/overlay/witness"
)

const (
	// asksAtOnce bounds the groups of copies that are being taken over, askSteps
	// the copies of a group and writesAtOnce those of them that are at the DHT: all
	// of a group have to be there within witness.VoteWindow.
	asksAtOnce   = 4
	askSteps     = 64
	writesAtOnce = 16
	// takeWait is the wait after a takeover that did not work out; it doubles up
	// to takeWaitMax.
	takeWait    = 1500 * time.Millisecond
	takeWaitMax = 45 * time.Second
	// looks is how often it is looked whether a takeover that broke off has come to
	// stand: a write that was given up may still be on its way, or have reached a part of
	// the DHT that comes back later. With takeWait that is over half a minute.
	looks = 5
)

var (
	// errOutdated says that the subnet is another's than the copy tells.
	errOutdated = errors.New("the copy is of an earlier epoch")
	// errReplaced is returned if the owner ran on after it had lost this replica.
	errReplaced = errors.New("the copy may have been replaced by another")
	// errOurs and errNotOurs end an attempt that has found out what it was for.
	errOurs    = errors.New("the subnet is ours already")
	errNotOurs = errors.New("the subnet belongs to its owner")
	// errVotes says that the witnesses did not agree.
	errVotes = errors.New("too few votes")
)

// failover is the part of a Manager that continues the subnets of silent owners: those of which
// there is a copy here, and those for which URLs wait here.
type failover struct {
	*table
	arrivals *arrivals
	claimer  *claimer
	presence *presence
	replicas *replicas
	salvager *salvager
	// to take over what is copied here; so often only look whether it is ours
	attempts queue[int]
	orphans  queue[orphan] // of owners that do not answer us
	asking   atomic.Int64  // groups of both under way
	// of owners that are there and do not follow up a copy; of Run alone
	notified map[netip.Prefix]notification
}

// toTake returns the tasks for the copies here with silent owners.
func (f *failover) toTake(now time.Time) []func(context.Context) {
	if f.cfg.Witness == nil || f.draining.Load() {
		return nil
	}
	groups := map[peer.ID][]replica.LocalCopy{}
	quiet := map[peer.ID]time.Duration{}
	free := asksAtOnce - int(f.asking.Load())
	for _, h := range f.cfg.Replicas.Copies() {
		if _, known := quiet[h.Owner]; !known {
			quiet[h.Owner] = f.silence(h.Owner, now)
		}
		g, begun := groups[h.Owner]
		if !h.Complete && f.dead(h, now) {
			f.salvager.markOrphanedCopy(h.Subnet)
		}
		if !h.Complete || len(g) == askSteps || !begun && len(groups) >= free {
			continue
		}
		if f.attempt(h.Subnet, quiet[h.Owner], now) {
			groups[h.Owner] = append(g, h)
		}
	}
	f.attempts.due(now, func(p netip.Prefix, _ *entry[int]) verdict {
		if _, held := f.cfg.Replicas.Copy(p); held {
			return skip // attempt begins it
		}
		return forget
	})
	var tasks []func(context.Context)
	for _, g := range groups {
		tasks = append(tasks, f.group(func(ctx context.Context) { f.takeAll(ctx, g) }))
	}
	return tasks
}

// group returns do as one of the groups under way, which it is until it has returned.
func (f *failover) group(do func(context.Context)) func(context.Context) {
	f.asking.Add(1)
	return func(ctx context.Context) {
		do(ctx)
		f.asking.Add(-1)
		f.wake()
	}
}

// attempt says whether a copy is to be made ours now, and if so marks it as
// busy; quiet is for how long its owner is silent.
func (f *failover) attempt(p netip.Prefix, quiet time.Duration, now time.Time) bool {
	silent := quiet > f.cfg.Times.Silence+f.share(p)
	if silent {
		f.attempts.add(p, now, 0)
	}
	return f.attempts.begin(p, now, func(looks int) verdict {
		if silent || looks > 0 {
			return begin
		}
		return forget
	})
}

// resume has a copy looked at, n times at most, that may be ours by the DHT: the takeover of it
// was broken off.
func (f *failover) resume(p netip.Prefix, n int) {
	if !f.attempts.change(p, func(e *entry[int]) { e.about = max(e.about, n) }) && !f.Live(p) {
		f.attempts.add(p, time.Time{}, n)
	}
}

// takeAll tries to take over copies of one silent owner and records the results. The
// leases are written to the DHT first, because votes are valid only for a short time,
// then the subnets to disk. If it is interrupted in between, the next attempt finds our
// lease.
func (f *failover) takeAll(ctx context.Context, hs []replica.LocalCopy) {
	ctx, cancel := context.WithTimeout(ctx, 3*witness.VoteWindow)
	defer cancel()
	var left []replica.LocalCopy
	errs := make([]error, len(hs))
	each(hs, func(i int, h replica.LocalCopy) { errs[i] = f.lookupOwner(ctx, h) })
	for i, h := range hs {
		if errs[i] == nil {
			if unpin, ok := f.cfg.Replicas.Pin(h.Subnet, h.Epoch); ok {
				defer unpin() // from the votes on it has to be what it is
				left = append(left, h)
				continue
			}
			errs[i] = errOutdated
		}
		f.tried(ctx, h, errs[i])
	}
	if len(left) == 0 {
		return
	}
	tally, err := f.vote(ctx, left)
	each(left, func(_ int, h replica.LocalCopy) { f.tried(ctx, h, f.take(ctx, h, tally, err)) })
}

// each calls fn for all of hs, some at a time.
func each[T any](hs []T, fn func(int, T)) {
	var g errgroup.Group
	g.SetLimit(writesAtOnce)
	for i, h := range hs {
		g.Go(func() error { fn(i, h); return nil })
	}
	_ = g.Wait() // there are none
}

// tried notes how a try went.
func (f *failover) tried(ctx context.Context, h replica.LocalCopy, err error) {
	ours := f.Live(h.Subnet)
	if ours {
		f.attempts.done(h.Subnet)
	} else {
		f.attempts.fail(h.Subnet, time.Now())
	}
	switch {
	case ours || ctx.Err() != nil:
	case errors.Is(err, errNotOurs), errors.Is(err, errOutdated):
		f.log.Debug("copy has another owner", "subnet", h.Subnet, "owner", h.Owner, "err", err)
	default:
		f.log.Info("failed to take over subnet", "subnet", h.Subnet,
			"owner", h.Owner, "err", err)
	}
}

// lookupOwner looks up the owner of a subnet in the DHT: nil means that it is still the
// old one. If the lease there is ours it completes the takeover.
func (f *failover) lookupOwner(ctx context.Context, h replica.LocalCopy) error {
	if _, err := f.cfg.Leases.Learn(h.Lease); err != nil { // after a restart it is not known
		f.log.Debug("lease of a copy not valid", "subnet", h.Subnet, "err", err)
	}
	best, _, err := f.cfg.Leases.Refresh(ctx, h.Subnet)
	known := err == nil
	if !known { // ours that is not known to stand, perhaps
		best, known = f.cfg.Leases.Cached(h.Subnet)
	}
	switch {
	case known && best.Owner == f.cfg.Self && best.Epoch > h.Epoch:
		l, sealed, err := f.cfg.Leases.Renew(ctx, best)
		if err == nil {
			err = f.arrivals.promote(h, l, sealed)
		}
		if err == nil {
			err = errOurs
		}
		return err
	case known && passed(h, best):
		return fmt.Errorf("%w: given away", errNotOurs)
	case known && (best.Owner != h.Owner || best.Epoch != h.Epoch):
		e, _ := f.cfg.Leases.Get(h.Subnet)
		if e.Known() && best.Epoch >= h.Epoch && f.dead(h, time.Now()) {
			f.salvager.markOrphanedCopy(h.Subnet)
		}
		return fmt.Errorf("%w: %v has epoch %d", errOutdated, best.Owner, best.Epoch)
	}
	looking := false
	f.attempts.change(h.Subnet, func(e *entry[int]) {
		if looking = e.about > 0; looking {
			e.about--
		}
	})
	if looking && f.silence(h.Owner, time.Now()) <= f.cfg.Times.Silence+f.share(h.Subnet) {
		return errNotOurs
	}
	return nil
}

// vote requests votes from the silent owner's witness set for all copies that may be the
// newest.
func (f *failover) vote(ctx context.Context, hs []replica.LocalCopy) (witness.Tally, error) {
	var steps []witness.Proposal
	err := errVotes
	for _, h := range hs {
		if why := f.replaced(h); why != nil {
			err = why
			continue
		}
		l, why := lease.OpenLease(h.Lease)
		if why != nil {
			err = why
			continue
		}
		steps = append(steps, witness.Proposal{Subnet: h.Subnet, Epoch: h.Epoch + 1,
			Ended: l.Digest()})
	}
	if len(steps) == 0 {
		return witness.Tally{}, err
	}
	set := hs[0].WitnessSet
	if len(set) == 0 { // it has come to own the subnet, and has not opened it here
		set = f.cfg.Witness.WitnessSetOf(ctx, hs[0].Owner)
	}
	return f.ask(ctx, hs[0].Owner, set, steps)
}

// SilentSubnets returns the number of subnets of silent owners of which this peer has a complete
// copy, unless another peer is known to have continued them. This peer, or another one with a copy,
// takes them over in time.
func (f *failover) SilentSubnets(now time.Time) (n int) {
	if f.cfg.Witness == nil {
		return 0
	}
	for _, h := range f.cfg.Replicas.Copies() {
		best, known := f.cfg.Leases.Cached(h.Subnet)
		if h.Complete && !f.Live(h.Subnet) && f.silence(h.Owner, now) > f.cfg.Times.Silence &&
			(!known || best.Owner == h.Owner && best.Epoch == h.Epoch) {
			n++
		}
	}
	return n
}

// take makes a copy ours by the votes there are, or by long silence.
func (f *failover) take(
	ctx context.Context, h replica.LocalCopy, tally witness.Tally, why error,
) error {
	old, err := lease.OpenLease(h.Lease)
	if err != nil {
		return fmt.Errorf("lease of the copy: %w", err)
	}
	t, until, err := f.consent(h, tally, why)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l, sealed, err := f.cfg.Leases.TakeOver(ctx, old, t, old.Proxy)
	if err != nil {
		f.resume(h.Subnet, looks) // it may stand all the same
		return err
	}
	return f.arrivals.promote(h, l, sealed)
}

// consent returns what allows a takeover, and until when: the votes there are, or
// long silence. why is what has kept us from asking for votes.
func (f *failover) consent(
	h replica.LocalCopy, tally witness.Tally, why error,
) (lease.Takeover, time.Time, error) {
	t, ok := tally.Takeover(h.Subnet)
	switch {
	case ok:
		return t, tally.Until, nil
	case f.silence(h.Owner, time.Now()) > lease.LongSilence:
		return lease.Takeover{Last: h.Lease}, time.Now().Add(witness.VoteWindow), nil
	case why != nil:
		return t, time.Time{}, why
	}
	return t, time.Time{}, fmt.Errorf(
		"%w: %d of %d; %d hear the owner, %d voted otherwise, of others: %v",
		errVotes, len(tally.Votes[h.Subnet]), tally.Needed, len(tally.HeardOwner),
		len(tally.VotedOther), tally.Failed)
}

// replaced says whether the owner may have lived for so long after it counted on
// this copy that it has given it up: then it has acknowledged what is not in it, and
// there is another. Witnesses cannot know that.
func (f *failover) replaced(h replica.LocalCopy) error {
	now := time.Now()
	if f.cfg.Contacts == nil || !h.Live && f.silence(h.Owner, now) > f.cfg.Times.Recreate+
		8*f.share(h.Subnet) {
		return nil // no peer has taken over with a newer one in all that time
	}
	ranOn, known := ownership.RanOn(h.Confirmed, f.cfg.Contacts.Heard(h.Owner), f.started,
		f.presence.awake)
	switch {
	case !known:
		return fmt.Errorf("%w: not known how long its owner ran", errReplaced)
	case ranOn > f.cfg.Times.Lost:
		return fmt.Errorf("%w: its owner ran on for %v", errReplaced, ranOn.Round(time.Second))
	}
	return nil
}
