package owner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/shadow"
	"peerd/overlay/witness"
)

// maxOrphans bounds the orphans that are remembered; the others are told again.
const maxOrphans = 1 << 14

// orphanFor is how long an orphan is remembered that nobody asks for any more.
const orphanFor = 3 * time.Hour

// orphan is another's subnet that URLs wait for here, and whose owner does not answer.
// If that owner is dead and nobody has a copy, only those can go on with it who have
// something for it.
type orphan struct {
	lease  lease.Lease
	sealed []byte
	asked  time.Time // when it was last waited for
	held   time.Time // since when another is known to have a copy; zero: nobody is
	busy   bool
	fails  int
	next   time.Time // not before
}

// orphaned notes that URLs wait for a subnet's owner, who does not answer. Its lease
// was just read.
func (m *Manager) orphaned(l lease.Lease, sealed []byte) {
	if m.cfg.Witness == nil || m.cfg.Replicas == nil || l.Owner == m.cfg.Self {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.orphans[l.Subnet]
	if o == nil {
		if len(m.orphans) >= maxOrphans {
			return
		}
		o = &orphan{}
		m.orphans[l.Subnet] = o
	}
	o.lease, o.sealed, o.asked = l, sealed, time.Now()
}

// toRescue returns what is to be done for orphans whose owners nobody hears.
func (m *Manager) toRescue(now time.Time) []func(context.Context) {
	if m.turn%slowly != 0 || m.draining.Load() {
		return nil
	}
	groups := map[peer.ID][]orphan{}
	m.mu.Lock()
	free := asksAtOnce - m.asking
	for p, o := range m.orphans {
		owner := o.lease.Owner
		g, begun := groups[owner]
		switch {
		case o.busy:
		case now.Sub(o.asked) > orphanFor || m.subnets[p] != nil:
			delete(m.orphans, p)
		case now.Before(o.next) || len(g) == askSteps || !begun && len(groups) >= free:
		case now.Sub(m.lastHeard(owner)) <= m.patience(o.lease)*5/4+8*m.share(p):
			o.fails = 0
		default:
			o.busy = true
			groups[owner] = append(g, *o)
		}
	}
	m.asking += len(groups)
	m.mu.Unlock()
	var tasks []func(context.Context)
	for owner, g := range groups {
		tasks = append(tasks, func(ctx context.Context) {
			m.rescueAll(ctx, owner, g)
			m.mu.Lock()
			m.asking--
			m.mu.Unlock()
			m.wake()
		})
	}
	return tasks
}

// rescueAll tries to make orphans of one owner ours.
func (m *Manager) rescueAll(ctx context.Context, owner peer.ID, os []orphan) {
	ctx, cancel := context.WithTimeout(ctx, 3*witness.VoteWindow)
	defer cancel()
	var left []orphan
	errs := make([]error, len(os))
	each(os, func(i int, o orphan) { errs[i] = m.stillOrphan(ctx, o.lease) })
	for i, o := range os {
		if errs[i] == nil {
			left = append(left, o)
		} else {
			m.rescued(ctx, o, errs[i])
		}
	}
	if len(left) == 0 {
		return
	}
	if left = m.unheld(ctx, left); len(left) == 0 {
		return
	}
	tally, err := m.poll(ctx, owner, left)
	each(left, func(_ int, o orphan) { m.rescued(ctx, o, m.beginAnew(ctx, o, tally, err)) })
}

// stillOrphan reads whose a subnet is: nil means its old owner's still.
func (m *Manager) stillOrphan(ctx context.Context, old lease.Lease) error {
	if err := m.cfg.MayClaim(); err != nil {
		return err
	}
	best, _, err := m.cfg.Leases.Refresh(ctx, old.Subnet)
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

// patience is how long a subnet waits for its silent owner or a shadow. One that was
// claimed when its owner was last heard was its owner's for too short a time to have
// one: it waits less. An heir has its predecessor for a shadow at once.
func (m *Manager) patience(l lease.Lease) time.Duration {
	if undecided(l) && l.Issued.Add(m.cfg.Times.First+m.cfg.Times.Lost).After(m.lastHeard(l.Owner)) {
		return m.cfg.Times.Orphan
	}
	return m.cfg.Times.Anew
}

// undecided says that a lease is a claim after which nothing has been decided yet.
func undecided(l lease.Lease) bool { return l.Epoch == 1 && l.Proxy == nil }

// heldFor is how long a peer that has a copy may need to take over with it, in
// what is waited anyway: one that was started just now waits as long itself.
const heldFor = 2

// unheld returns those of which nobody who is there has a good copy, and those whose
// holders had time enough.
func (m *Manager) unheld(ctx context.Context, os []orphan) (left []orphan) {
	ls := make([]lease.Lease, len(os))
	for i, o := range os {
		ls[i] = o.lease
	}
	h := m.holders(ctx, ls)
	now := time.Now()
	for _, o := range os {
		p := o.lease.Subnet
		if _, ok := m.cfg.Replicas.Copy(p); ok || len(h.copies[p]) == 0 {
			left = append(left, o)
			continue
		}
		m.mu.Lock()
		was := m.orphans[p]
		if was != nil && was.held.IsZero() {
			was.held = now
		}
		over := was != nil && now.Sub(was.held) > heldFor*m.patience(o.lease)
		m.mu.Unlock()
		if over {
			left = append(left, o)
		} else {
			m.rescued(ctx, o, fmt.Errorf("%w: %v", errHeld, h.copies[p][0].by))
		}
	}
	return left
}

// poll asks the panel of a dead owner, which others may know.
func (m *Manager) poll(ctx context.Context, owner peer.ID, os []orphan) (witness.Tally, error) {
	steps := make([]witness.Step, len(os))
	for i, o := range os {
		steps[i] = witness.Step{Subnet: o.lease.Subnet, Epoch: o.lease.Epoch + 1}
	}
	return m.ask(ctx, owner, m.cfg.Witness.PanelOf(ctx, owner), steps)
}

// beginAnew makes an orphan ours by the votes there are, or by long silence. It begins
// with what is here of it, if anything is.
func (m *Manager) beginAnew(ctx context.Context, o orphan, tally witness.Tally, why error) error {
	old := o.lease
	h := shadow.Held{Subnet: old.Subnet, Owner: old.Owner, Epoch: old.Epoch, Lease: o.sealed}
	t, until, err := m.consent(h, tally, why)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l, sealed, err := m.cfg.Leases.TakeOver(ctx, old.Subnet, old.Epoch+1, t, old.Proxy)
	if err != nil {
		return err
	}
	_, held := m.cfg.Replicas.Copy(old.Subnet)
	if err := m.begin(l, sealed); err != nil {
		return err
	}
	if !held {
		m.takeovers.Add(1)
	}
	m.log.Warn("subnet of a dead owner begun anew", "subnet", old.Subnet, "owner", old.Owner, "epoch", l.Epoch)
	return nil
}

// rescued notes how a try went. What waits for the subnet is resolved anew unless it is
// its dead owner's still.
func (m *Manager) rescued(ctx context.Context, o orphan, err error) {
	p := o.lease.Subnet
	m.mu.Lock()
	switch was := m.orphans[p]; {
	case was == nil:
	case err == nil, errors.Is(err, errNotOurs), errors.Is(err, errOutdated):
		delete(m.orphans, p)
	default:
		wait := min(takeWait<<min(was.fails, 10), takeWaitMax)
		was.busy, was.next = false, time.Now().Add(wait/2+rand.N(wait/2+1))
		was.fails++
	}
	m.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, errNotOurs), errors.Is(err, errOutdated), errors.Is(err, errClearing):
		m.cfg.Moved(p)
	case ctx.Err() == nil:
		m.log.Info("a dead owner's subnet is not taken over", "subnet", p, "owner", o.lease.Owner, "err", err)
	}
}
