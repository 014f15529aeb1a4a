package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"peerd/coords/assign"
)

// drainsAtOnce is how many subnets leave at a time while this peer drains: their
// pages rest meanwhile.
const drainsAtOnce = 16

// ErrLeft is returned by Drain when not all subnets could be handed over.
var ErrLeft = errors.New("owner: subnets are left")

// Drain hands all subnets over: those that a shadow holds to it, others to the
// nearest peer that takes them. Nothing is taken in any more, from its call on
// until the end of this process. Run must be running. It returns when nothing
// is left, or at the end of ctx with an error that wraps ErrLeft.
func (m *Manager) Drain(ctx context.Context) error {
	m.draining.Store(true)
	t := time.NewTicker(m.cfg.Tick)
	defer t.Stop()
	for {
		left := m.drain(time.Now())
		if left == 0 {
			return nil
		}
		m.wake()
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of them", ErrLeft, left)
		case <-t.C:
		}
	}
}

// Draining says whether this peer is about to leave.
func (m *Manager) Draining() bool { return m.draining.Load() }

// drain sends subnets off, some at a time, and returns how many are left.
func (m *Manager) drain(now time.Time) (left int) {
	all := m.candidates()
	m.mu.Lock()
	defer m.mu.Unlock()
	under := 0
	for _, s := range m.subnets {
		if s.leaving() || s.to != "" {
			under++
		}
	}
	for _, s := range m.subnets {
		if under >= drainsAtOnce {
			break
		}
		if s.leaving() || s.to != "" || s.doubted() {
			continue
		}
		to := m.successor(s, all, now)
		if to == "" {
			continue
		}
		s.to, s.syncing = to, true
		under++
		m.log.Info("subnet leaves as this peer does", "subnet", s.prefix, "to", to)
	}
	return len(m.subnets)
}

// successor returns who is to have a subnet when this peer leaves; "" if there is
// nobody now. The Manager's mutex is held.
func (m *Manager) successor(s *subnet, all []assign.Candidate, now time.Time) string {
	not := maps.Clone(s.exclude)
	for who, until := range s.avoid {
		if until.After(now) {
			not[who] = true
		}
	}
	for _, k := range s.keepers {
		if k.synced && !not[k.id.String()] {
			return k.id.String()
		}
	}
	q := nomination{subnet: s.prefix, self: m.cfg.Self.String(), proxy: s.lease.Proxy, not: not, anywhere: true}
	if ids := q.choose(all, 1); len(ids) > 0 {
		return ids[0].String()
	}
	clear(s.exclude) // perhaps they take it now
	return ""
}
