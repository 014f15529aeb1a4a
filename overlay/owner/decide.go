package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
// nobody, because the subnet leaves or has left.
func (m *Manager) Where(p netip.Prefix) (who string, hold bool) {
	m.mu.Lock()
	s := m.subnets[p]
	if s == nil || s.leaving() || s.stale {
		m.mu.Unlock()
		return "", true
	}
	s.idleSince = time.Time{}
	deciding, asked := s.phase == store.PhaseDeciding, s.asked
	m.mu.Unlock()
	switch {
	case !deciding:
		return "", false
	case asked != "": // before a restart: it may be fetching still, and gives the same answer again
		if _, known := m.cfg.Directory.At(asked); known {
			return asked, false
		}
		if time.Since(m.started) < askedWait {
			return "", true
		}
	}
	step, err := m.next(s, true)
	if err != nil {
		m.log.Error("decision not written", "subnet", p, "err", err)
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

// askedWait is how long after a restart an estimator that cannot be reached is
// taken to be fetching: longer than a fetch may take.
const askedWait = 30 * time.Second

// next asks the strategy for the next step and carries a choice out. A strategy
// that fails leaves the subnet where it is: here. The error is one of the store.
func (m *Manager) next(s *subnet, canProbe bool) (assign.Step, error) {
	e := assign.Evidence{
		Subnet: s.prefix, Self: m.cfg.Self.String(), Candidates: m.cfg.Directory.Candidates(), CanProbe: canProbe,
	}
	slices.SortFunc(e.Candidates, func(a, b assign.Candidate) int { return strings.Compare(a.ID, b.ID) })
	m.mu.Lock()
	e.Samples = slices.Clone(s.samples)
	e.Exclude = maps.Clone(s.exclude)
	m.mu.Unlock()
	step, err := m.cfg.Strategy.Next(e)
	if err != nil {
		m.log.Error("no decision; the subnet stays", "subnet", s.prefix, "strategy", m.cfg.Strategy.Name(), "err", err)
		step = assign.Step{Choice: e.Self}
	}
	if step.Choice != "" {
		return step, m.choose(s, step)
	}
	return step, nil
}

// choose makes the strategy's choice the subnet's owner: it stays, or it is to
// leave. Of several calls at once the first one counts.
func (m *Manager) choose(s *subnet, step assign.Step) error {
	m.mu.Lock()
	if s.phase != store.PhaseDeciding || s.leaving() || m.subnets[s.prefix] != s {
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
		m.cfg.Frontier.Single(s.prefix, false)
	} else {
		s.to = step.Choice
		m.cfg.Frontier.Shut(s.prefix)
	}
	estimations := s.estimations
	m.mu.Unlock()
	m.log.Debug("times predicted", "subnet", s.prefix, "ms", predicted(step.Predicted))
	m.log.Info("subnet decided", "subnet", s.prefix, "owner", step.Choice, "estimations", estimations)
	m.wake()
	if stays {
		return m.save(s)
	}
	return nil
}

// Remote has another peer fetch one URL of a subnet. Errors wrap
// estimate.ErrNotSent or estimate.ErrLost.
func (m *Manager) Remote(ctx context.Context, p netip.Prefix, who string, r store.FetchRequest) (store.FetchReport, error) {
	m.mu.Lock()
	s := m.subnets[p]
	var sealed []byte
	if s != nil {
		sealed = s.sealed
	}
	m.mu.Unlock()
	if sealed == nil {
		return store.FetchReport{}, fmt.Errorf("%w: %v is not ours", estimate.ErrNotSent, p)
	}
	id, err := peer.Decode(who)
	if err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: peer %q: %w", estimate.ErrNotSent, who, err)
	}
	m.mu.Lock()
	s.asked = who
	m.mu.Unlock()
	if err := m.save(s); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: %w", estimate.ErrNotSent, err)
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
	if s.asked == who {
		s.asked = ""
	}
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
	if err != nil {
		m.log.Info("estimation failed", "subnet", p, "peer", who, "err", err)
	}
	if !deciding {
		return // written down only while it decides something
	}
	if err := m.save(s); err != nil {
		m.log.Error("subnet state not written", "subnet", p, "err", err)
	}
}

// predicted is a strategy's view for the log.
func predicted(times map[string]time.Duration) map[string]int64 {
	ms := make(map[string]int64, len(times))
	for p, t := range times {
		ms[p[max(0, len(p)-6):]] = t.Milliseconds()
	}
	return ms
}

// hostless is how long a subnet may be ours before its first host's home is
// settled.
const hostless = time.Minute

// decideIdle takes the decision for subnets that have had no URL to estimate
// with for a while. The error is one of the store.
func (m *Manager) decideIdle() error {
	now := time.Now()
	var idle []*subnet
	m.mu.Lock()
	for p, s := range m.subnets {
		if s.phase != store.PhaseDeciding || s.leaving() || s.stale {
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
