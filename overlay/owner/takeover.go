package owner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/overlay/lease"
	"peerd/overlay/shadow"
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
	takeWait    = 2 * time.Second
	takeWaitMax = time.Minute
	// looks is how often it is looked whether a takeover that broke off has come to
	// stand: a write that was given up may still be on its way, or have reached a part of
	// the DHT that comes back later. With takeWait that is over half a minute.
	looks = 5
)

var (
	// errOutdated says that the subnet is another's than the copy tells.
	errOutdated = errors.New("the copy is of an earlier epoch")
	// errReplaced says that the owner lived on after it had lost this shadow.
	errReplaced = errors.New("the copy may have been replaced by another")
	// errOurs and errNotOurs end an attempt that has found out what it was for.
	errOurs    = errors.New("the subnet is ours already")
	errNotOurs = errors.New("the subnet is its owner's")
	// errVotes says that the witnesses did not agree.
	errVotes = errors.New("too few votes")
)

// attempt is what is remembered of a copy whose owner is silent, or that may be
// ours already.
type attempt struct {
	busy   bool
	resume int // so often only look whether it is ours
	fails  int
	next   time.Time // not before
}

// toTake returns what is to be done for the copies here whose owners are silent.
func (m *Manager) toTake(now time.Time) []func(context.Context) {
	if m.cfg.Witness == nil || m.cfg.Replicas == nil || m.turn%slowly != 0 || m.draining.Load() {
		return nil
	}
	groups := map[peer.ID][]shadow.Held{}
	quiet := map[peer.ID]time.Duration{}
	m.mu.Lock()
	free := asksAtOnce - m.asking
	m.mu.Unlock()
	for _, h := range m.cfg.Replicas.Held() {
		if _, known := quiet[h.Owner]; !known {
			quiet[h.Owner] = now.Sub(m.lastHeard(h.Owner))
		}
		g, begun := groups[h.Owner]
		if !h.Complete && m.dead(h, now) {
			m.wreck(h.Subnet)
		}
		if !h.Complete || len(g) == askSteps || !begun && len(groups) >= free {
			continue
		}
		if m.attempt(h.Subnet, min(quiet[h.Owner], now.Sub(h.Heard)), now) {
			groups[h.Owner] = append(g, h)
		}
	}
	var tasks []func(context.Context)
	for _, g := range groups {
		m.mu.Lock()
		m.asking++
		m.mu.Unlock()
		tasks = append(tasks, func(ctx context.Context) {
			m.takeAll(ctx, g)
			m.mu.Lock()
			m.asking--
			m.mu.Unlock()
			m.wake()
		})
	}
	return tasks
}

// lastHeard returns when a peer was last heard, since our start at the least.
func (m *Manager) lastHeard(who peer.ID) time.Time {
	at := m.started
	if m.cfg.Heard != nil {
		if heard := m.cfg.Heard(who); heard.After(at) {
			at = heard
		}
	}
	return at
}

// attempt says whether a copy is to be made ours now, and if so marks it as
// busy; quiet is for how long its owner is silent.
func (m *Manager) attempt(p netip.Prefix, quiet time.Duration, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.attempts[p]
	switch {
	case a != nil && (a.busy || now.Before(a.next)):
		return false
	case a != nil && a.resume > 0:
	case quiet <= m.cfg.Times.Silence+m.share(p):
		delete(m.attempts, p)
		return false
	case a == nil:
		a = &attempt{}
		m.attempts[p] = a
	}
	a.busy = true
	return true
}

// resume has a copy looked at that may be ours by the DHT: the takeover of it
// was broken off.
func (m *Manager) resume(p netip.Prefix) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.attempts[p]; a != nil {
		a.resume = max(a.resume, looks)
	} else if m.subnets[p] == nil {
		m.attempts[p] = &attempt{resume: looks}
	}
}

// share is this peer's part of Times.Spread: the same whenever it is asked, and
// another for each peer and subnet.
func (m *Manager) share(p netip.Prefix) time.Duration {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v %s", p, m.cfg.Self)
	return time.Duration(float64(m.cfg.Times.Spread) * float64(h.Sum32()) / (1 << 32))
}

// takeAll tries to make copies ours whose owner is silent, all of one, and notes
// how that went. The leases come into the DHT first, as votes are for a short
// time only, then the subnets onto our disk. Broken off in between, a lease of
// ours is found there by the next try.
func (m *Manager) takeAll(ctx context.Context, hs []shadow.Held) {
	ctx, cancel := context.WithTimeout(ctx, 3*witness.VoteWindow)
	defer cancel()
	var left []shadow.Held
	errs := make([]error, len(hs))
	each(hs, func(i int, h shadow.Held) { errs[i] = m.whose(ctx, h) })
	for i, h := range hs {
		if errs[i] == nil {
			if unpin, ok := m.cfg.Replicas.Pin(h.Subnet, h.Epoch); ok {
				defer unpin() // from the votes on it has to be what it is
				left = append(left, h)
				continue
			}
			errs[i] = errOutdated
		}
		m.tried(ctx, h, errs[i])
	}
	if len(left) == 0 {
		return
	}
	tally, err := m.vote(ctx, left)
	each(left, func(_ int, h shadow.Held) { m.tried(ctx, h, m.take(ctx, h, tally, err)) })
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
func (m *Manager) tried(ctx context.Context, h shadow.Held, err error) {
	ours := m.Live(h.Subnet)
	m.mu.Lock()
	switch a := m.attempts[h.Subnet]; {
	case a == nil:
	case ours:
		delete(m.attempts, h.Subnet)
	default:
		wait := min(takeWait<<min(a.fails, 10), takeWaitMax)
		a.busy, a.next = false, time.Now().Add(wait/2+rand.N(wait/2+1))
		a.fails++
	}
	m.mu.Unlock()
	switch {
	case ours || ctx.Err() != nil:
	case errors.Is(err, errNotOurs), errors.Is(err, errOutdated):
		m.log.Debug("a copy is not ours", "subnet", h.Subnet, "owner", h.Owner, "err", err)
	default:
		m.log.Info("a silent owner's subnet is not taken over", "subnet", h.Subnet, "owner", h.Owner, "err", err)
	}
}

// whose asks the DHT whose a subnet is: nil means its old owner's still. A lease of
// ours that is found there is made good.
func (m *Manager) whose(ctx context.Context, h shadow.Held) error {
	best, _, err := m.cfg.Leases.Refresh(ctx, h.Subnet)
	known := err == nil
	if !known { // ours that is not known to stand, perhaps
		best, known = m.cfg.Leases.Cached(h.Subnet)
	}
	switch {
	case known && best.Owner == m.cfg.Self && best.Epoch > h.Epoch:
		l, sealed, err := m.cfg.Leases.Renew(ctx, best)
		if err == nil {
			err = m.promote(h, l, sealed)
		}
		if err == nil {
			err = errOurs
		}
		return err
	case known && passed(h, best):
		return fmt.Errorf("%w: given away", errNotOurs)
	case known && (best.Owner != h.Owner || best.Epoch != h.Epoch):
		if best.Epoch >= h.Epoch && m.dead(h, time.Now()) {
			m.wreck(h.Subnet)
		}
		return fmt.Errorf("%w: %v has epoch %d", errOutdated, best.Owner, best.Epoch)
	}
	silent := m.quiet(h, time.Now()) > m.cfg.Times.Silence+m.share(h.Subnet)
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.attempts[h.Subnet]; a != nil && a.resume > 0 {
		a.resume--
		if !silent {
			return errNotOurs
		}
	}
	return nil
}

// vote asks the silent owner's panel about all copies that may be the newest.
func (m *Manager) vote(ctx context.Context, hs []shadow.Held) (witness.Tally, error) {
	var steps []witness.Step
	err := errVotes
	for _, h := range hs {
		if why := m.replaced(h); why != nil {
			err = why
			continue
		}
		steps = append(steps, witness.Step{Subnet: h.Subnet, Epoch: h.Epoch + 1})
	}
	if len(steps) == 0 {
		return witness.Tally{}, err
	}
	panel := hs[0].Panel
	if len(panel) == 0 { // it has come to own the subnet, and has not opened it here
		panel = m.cfg.Witness.PanelOf(ctx, hs[0].Owner)
	}
	return m.ask(ctx, hs[0].Owner, panel, steps)
}

// ask asks the panel of a silent owner, if it is known.
func (m *Manager) ask(ctx context.Context, owner peer.ID, panel []byte, steps []witness.Step) (witness.Tally, error) {
	if len(panel) == 0 {
		return witness.Tally{}, fmt.Errorf("%w: nobody knows its witnesses", errVotes)
	}
	return m.cfg.Witness.Ask(ctx, owner, panel, steps)
}

// take makes a copy ours by the votes there are, or by long silence.
func (m *Manager) take(ctx context.Context, h shadow.Held, tally witness.Tally, why error) error {
	old, err := lease.OpenLease(h.Lease)
	if err != nil {
		return fmt.Errorf("the copy's lease: %w", err)
	}
	t, until, err := m.consent(h, tally, why)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l, sealed, err := m.cfg.Leases.TakeOver(ctx, h.Subnet, h.Epoch+1, t, old.Proxy)
	if err != nil {
		m.resume(h.Subnet) // it may stand all the same
		return err
	}
	return m.promote(h, l, sealed)
}

// consent returns what allows a takeover, and until when: the votes there are, or
// long silence. why is what has kept us from asking for votes.
func (m *Manager) consent(h shadow.Held, tally witness.Tally, why error) (lease.Takeover, time.Time, error) {
	t, ok := tally.Takeover(h.Subnet)
	switch {
	case ok:
		return t, tally.Until, nil
	case time.Since(later(m.lastHeard(h.Owner), h.Heard)) > lease.LongSilence:
		return lease.Takeover{Last: h.Lease}, time.Now().Add(witness.VoteWindow), nil
	case why != nil:
		return t, time.Time{}, why
	}
	return t, time.Time{}, fmt.Errorf("%w: %d of %d; %d hear the owner, %d voted otherwise, of others: %v",
		errVotes, len(tally.Votes[h.Subnet]), tally.Needed, len(tally.Hears), len(tally.Taken), tally.Failed)
}

// replaced says whether the owner may have lived for so long after it counted on
// this copy that it has given it up: then it has acknowledged what is not in it, and
// there is another. Witnesses cannot know that.
func (m *Manager) replaced(h shadow.Held) error {
	now := time.Now()
	if m.cfg.Heard == nil || !h.Live && m.quiet(h, now) > m.cfg.Times.Anew+8*m.share(h.Subnet) {
		return nil // nobody has taken over with a newer one in all that time
	}
	link, heard := h.Counted, m.cfg.Heard(h.Owner)
	switch {
	case link.IsZero() && m.awake.IsZero():
		return fmt.Errorf("%w: its owner has not opened it", errReplaced)
	case link.IsZero() && heard.IsZero():
		return fmt.Errorf("%w: nobody knows how long its owner lived", errReplaced)
	case link.IsZero(): // not in step since our start: our own absence counts too
		link = m.awake
	case link.Before(m.started): // since then we would have heard it
		heard = later(heard, m.started)
	}
	if heard.Sub(link) > m.cfg.Times.Lost {
		return fmt.Errorf("%w: its owner lived on for %v", errReplaced, heard.Sub(link).Round(time.Second))
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
