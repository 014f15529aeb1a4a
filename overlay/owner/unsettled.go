package owner

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/overlay/lease"
)

// A lease of ours may stand in the DHT for a subnet that this peer does not act upon:
// a claim that broke off after it was written, by a crash or because nobody
// acknowledged it, or a disk that was lost. Nobody else may claim such a subnet
// for as long as the lease lasts, and all send its URLs here. So whoever sends some,
// and a claim that failed, has it looked at: what is ours there is settled
// again, which makes it ours here or tells the winner.

const (
	// unsettledMost bounds the subnets that are looked at, unsettledAtOnce those at a time.
	unsettledMost   = 1024
	unsettledAtOnce = 4
	// unsettledWait is the wait after a look that told nothing; it doubles up to
	// unsettledWaitMax. unsettledRest is how long a subnet is not looked at again that
	// was found to be none of ours.
	unsettledWait    = 5 * time.Second
	unsettledWaitMax = time.Minute
	unsettledRest    = 30 * time.Second
	// unsettledLook bounds one look.
	unsettledLook = time.Minute
)

// unsettled is a subnet that may be ours by a lease in the DHT.
type unsettled struct {
	next  time.Time
	fails int
	busy  bool
	done  bool // found out; forgotten at next
	broke bool // a claim of this process did
}

// loose has it looked at whether a subnet is ours by a lease in the DHT.
func (m *Manager) loose(p netip.Prefix, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.subnets[p] == nil && m.unsettled[p] == nil && len(m.unsettled) < unsettledMost {
		m.unsettled[p] = &unsettled{next: now}
	}
}

// brokeOff notes that a claim did: it may stand all the same.
func (m *Manager) brokeOff(p netip.Prefix) {
	m.loose(p, time.Now().Add(unsettledWait))
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.unsettled[p]; u != nil {
		u.broke = true
	}
}

// broke says whether a claim broke off, and it is not known yet what became of it.
func (m *Manager) broke(p netip.Prefix) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.unsettled[p]
	return u != nil && u.broke && !u.done
}

// ours says whether the best lease that is known of a subnet is one of this peer; unknown,
// that none is.
func (m *Manager) ours(p netip.Prefix) (ours, unknown bool) {
	l, ok := m.cfg.Leases.Cached(p)
	return ok && l.Owner == m.cfg.Self, !ok
}

// toSettle returns what is to be done for subnets that may be ours.
func (m *Manager) toSettle(now time.Time) []func(context.Context) {
	if m.draining.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []func(context.Context)
	busy := 0
	for _, u := range m.unsettled {
		if u.busy {
			busy++
		}
	}
	for p, u := range m.unsettled {
		switch {
		case u.busy || now.Before(u.next):
		case u.done:
			delete(m.unsettled, p)
		case busy < unsettledAtOnce:
			busy++
			u.busy = true
			due = append(due, func(ctx context.Context) { m.settleAgain(ctx, p, u) })
		}
	}
	return due
}

// settleAgain looks whether a subnet is ours by the DHT, and if so settles that.
func (m *Manager) settleAgain(ctx context.Context, p netip.Prefix, u *unsettled) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Rest+unsettledLook)
	defer cancel()
	_, _, err := m.cfg.Leases.Refresh(ctx, p)
	if errors.Is(err, lease.ErrUnowned) {
		err = nil
	}
	if ours, _ := m.ours(p); ours && !m.Live(p) {
		if err = m.claimLate(ctx, p); err == nil {
			m.log.Info("a claim of ours that had not settled is settled", "subnet", p, "ours", m.Live(p))
			m.cfg.Moved(p)
		}
	}
	if err != nil && ctx.Err() == nil {
		m.log.Debug("not known whether a subnet is ours", "subnet", p, "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u.busy, u.done = false, err == nil
	u.next = time.Now().Add(unsettledRest)
	if err != nil {
		u.next = time.Now().Add(min(unsettledWait<<min(u.fails, 10), unsettledWaitMax))
		u.fails++
	}
}

// claimLate settles a claim that broke off. Somebody whose claim came later may have
// settled that meanwhile, and fetch already: so the subnet rests before it is begun, as
// one that was taken over does, and the other reads who has won.
func (m *Manager) claimLate(ctx context.Context, p netip.Prefix) error {
	if l, _, err := m.settle(ctx, p); err != nil || l.Owner != m.cfg.Self {
		return err
	}
	rest := time.NewTimer(m.cfg.Rest)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-rest.C:
	}
	return m.claim(ctx, p)
}
