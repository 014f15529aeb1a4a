package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/store"
)

// Where says who fetches the next URL of a subnet: "" is this peer; hold says
// nobody, because the subnet leaves.
func (m *Manager) Where(p netip.Prefix) (who string, hold bool) {
	m.mu.Lock()
	s := m.subnets[p]
	phase := store.PhaseNone
	if s != nil {
		phase = s.phase
		s.idleSince = time.Time{}
		if s.moving {
			phase = store.PhaseCommitting
		}
	}
	m.mu.Unlock()
	switch phase {
	case store.PhaseOwned:
		return "", false
	case store.PhaseDeciding:
	default:
		return "", true
	}
	step, err := m.next(s, true)
	if err != nil {
		m.log.Error("no decision", "subnet", p, "err", err)
		return "", false
	}
	self := m.cfg.Self.String()
	switch {
	case step.Probe == self, step.Choice == self:
		return "", false
	case step.Choice != "":
		return "", true
	}
	return step.Probe, false
}

// next asks the strategy for the next step and carries a choice out.
func (m *Manager) next(s *subnet, canProbe bool) (assign.Step, error) {
	e := assign.Evidence{
		Subnet: s.prefix, Self: m.cfg.Self.String(), Candidates: m.cfg.Directory.Candidates(), CanProbe: canProbe,
	}
	slices.SortFunc(e.Candidates, func(a, b assign.Candidate) int { return strings.Compare(a.ID, b.ID) })
	m.mu.Lock()
	e.Samples = slices.Clone(s.samples)
	e.Exclude = make(map[string]bool, len(s.exclude))
	for p := range s.exclude {
		e.Exclude[p] = true
	}
	m.mu.Unlock()
	step, err := m.cfg.Strategy.Next(e)
	if err != nil {
		return step, fmt.Errorf("owner: strategy %s: %w", m.cfg.Strategy.Name(), err)
	}
	if step.Choice != "" {
		return step, m.choose(s, step)
	}
	return step, nil
}

// choose makes the strategy's choice the subnet's owner: it stays, or it
// leaves.
func (m *Manager) choose(s *subnet, step assign.Step) error {
	m.mu.Lock()
	if s.phase != store.PhaseDeciding || s.moving {
		m.mu.Unlock()
		return nil
	}
	if step.Proxy != nil {
		s.lease.Proxy = step.Proxy
	}
	stays := step.Choice == m.cfg.Self.String()
	if stays {
		s.phase = store.PhaseOwned
		s.renewAt = time.Now() // announces the proxy coordinate
	} else {
		s.to = step.Choice
		s.moving = false
	}
	m.mu.Unlock()
	m.log.Info("subnet decided", "subnet", s.prefix, "owner", step.Choice, "estimations", s.estimations)
	if stays {
		m.cfg.Frontier.Single(s.prefix, false)
		return m.save(s)
	}
	m.cfg.Frontier.Shut(s.prefix)
	m.wake()
	return nil
}

// Remote has another peer fetch one URL of a subnet.
func (m *Manager) Remote(ctx context.Context, p netip.Prefix, who string, r store.FetchRequest) (store.FetchReport, error) {
	m.mu.Lock()
	s := m.subnets[p]
	var sealed []byte
	if s != nil {
		sealed = s.sealed
	}
	m.mu.Unlock()
	id, err := peer.Decode(who)
	if err != nil || sealed == nil {
		return store.FetchReport{}, fmt.Errorf("%w: %s: %w", estimate.ErrNotSent, who, err)
	}
	return m.cfg.Estimate.Fetch(ctx, id, sealed, r)
}

// Observe is told how a fetch in a subnet went; who is "" for this peer.
func (m *Manager) Observe(p netip.Prefix, who string, r store.FetchReport, err error) {
	if who == "" {
		who = m.cfg.Self.String()
	}
	at, _ := m.cfg.Directory.At(who)
	m.mu.Lock()
	s := m.subnets[p]
	if s == nil {
		m.mu.Unlock()
		return
	}
	s.idleSince = time.Time{}
	deciding := s.phase == store.PhaseDeciding
	switch {
	case errors.Is(err, estimate.ErrNotSent):
		s.exclude[who] = true
	default:
		s.observe(coords.Sample{
			Peer: who, At: at, Connect: r.Timing.Connect, FirstByte: r.Timing.FirstByte, Body: r.Timing.Body,
			Reused: r.Timing.Reused, Bytes: r.Bytes, Failed: err != nil || !r.Outcome.Answered(),
		})
		if deciding && who != m.cfg.Self.String() {
			s.estimations++
		}
	}
	m.mu.Unlock()
	if err := errorOr(deciding, m, s); err != nil {
		m.log.Error("subnet state not written", "subnet", p, "err", err)
	}
}

// errorOr saves what was learnt while it still decides something.
func errorOr(deciding bool, m *Manager, s *subnet) error {
	if !deciding {
		return nil
	}
	return m.save(s)
}

// hostless is how long a subnet may be ours before its first host's home is
// settled.
const hostless = time.Minute

// decideIdle takes the decision for subnets that have had no URL to estimate
// with for a while.
func (m *Manager) decideIdle() error {
	now := time.Now()
	var idle []*subnet
	m.mu.Lock()
	for p, s := range m.subnets {
		if s.phase != store.PhaseDeciding || s.moving || s.to != "" {
			continue
		}
		hosts, pending, inFlight, _ := m.cfg.Frontier.Load(p)
		switch {
		case pending > 0 || inFlight > 0 || hosts == 0 && now.Sub(s.since) < hostless:
			s.idleSince = time.Time{}
		case s.idleSince.IsZero():
			s.idleSince = now
		case now.Sub(s.idleSince) > m.cfg.DecideIdle:
			idle = append(idle, s)
		}
	}
	m.mu.Unlock()
	for _, s := range idle {
		if _, err := m.next(s, false); err != nil {
			return err
		}
	}
	return nil
}
