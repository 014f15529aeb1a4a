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
// nobody, because the subnet leaves or has left, or its shadows do not follow and may
// soon act for us.
func (m *Manager) Where(p netip.Prefix) (who string, hold bool) {
	if m.ahead(p, time.Now()) {
		return "", true
	}
	m.mu.Lock()
	s := m.subnets[p]
	if s == nil || s.leaving() || s.doubted() {
		m.mu.Unlock()
		return "", true
	}
	s.idleSince = time.Time{}
	deciding, asked := s.phase == store.PhaseDeciding, s.asked
	if !deciding && !s.again {
		if asked == "" { // one scout at a time
			who = s.watch.Scout(time.Now())
		}
		m.mu.Unlock()
		return who, false
	}
	m.mu.Unlock()
	if asked != "" { // before a restart: it may be fetching still, and gives the same answer again
		if _, known := m.cfg.Directory.At(asked); known {
			return asked, false
		}
		if time.Since(m.started) < askedWait {
			return "", true
		}
	}
	if !deciding {
		m.mu.Lock()
		m.answered(s)
		m.mu.Unlock()
		return "", false
	}
	step, err := m.next(s, true)
	if err != nil {
		m.log.Error("decision not written", "subnet", p, "err", err)
	}
	m.probing(s, step)
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
	e := m.evidence(s, m.candidates(), time.Now())
	e.CanProbe, e.Known = canProbe, m.known()
	m.mu.Lock()
	e.Exclude = maps.Clone(s.exclude)
	m.mu.Unlock()
	e.Exclude = m.closedTo(e.Exclude, e.Candidates, true)
	step, err := m.cfg.Strategy.Next(unseen(e))
	if err != nil {
		m.log.Error("no decision; the subnet stays", "subnet", s.prefix, "strategy", m.cfg.Strategy.Name(), "err", err)
		step = assign.Step{Choice: e.Self}
	}
	m.seek(s.prefix, step)
	if step.Choice != "" {
		return step, m.choose(s, step)
	}
	return step, nil
}

// evidence is what is known of a subnet by its downloads.
func (m *Manager) evidence(s *subnet, candidates []assign.Candidate, now time.Time) assign.Evidence {
	m.mu.Lock()
	defer m.mu.Unlock()
	return assign.Evidence{
		Subnet: s.prefix, Self: m.cfg.Self.String(), Candidates: candidates, Samples: slices.Clone(s.samples), Now: now,
	}
}

// candidates are the peers of the directory, by name.
func (m *Manager) candidates() []assign.Candidate {
	all := m.cfg.Directory.Candidates()
	slices.SortFunc(all, func(a, b assign.Candidate) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// known is what is known of other subnets; nil without anybody who knows.
func (m *Manager) known() assign.Known {
	if m.cfg.Known == nil {
		return nil
	}
	return m.cfg.Known()
}

// choose makes the strategy's choice the subnet's owner: it stays, or it is to
// leave. Of several calls at once the first one counts.
func (m *Manager) choose(s *subnet, step assign.Step) error {
	m.mu.Lock()
	if s.phase != store.PhaseDeciding || s.leaving() || s.to != "" || m.subnets[s.prefix] != s {
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
		s.to, s.decided = step.Choice, true
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

// commission returns what it takes to ask a peer for something in a subnet of
// ours: its state, the lease to show and the peer's name. The errors wrap
// estimate.ErrNotSent.
func (m *Manager) commission(p netip.Prefix, who string) (s *subnet, sealed []byte, id peer.ID, err error) {
	m.mu.Lock()
	if s = m.subnets[p]; s != nil {
		sealed = s.sealed
	}
	m.mu.Unlock()
	if sealed == nil {
		return nil, nil, "", fmt.Errorf("%w: %v is not ours", estimate.ErrNotSent, p)
	}
	if id, err = peer.Decode(who); err != nil {
		return nil, nil, "", fmt.Errorf("%w: peer %q: %w", estimate.ErrNotSent, who, err)
	}
	return s, sealed, id, nil
}

// Remote has another peer fetch one URL of a subnet. Errors wrap
// estimate.ErrNotSent or estimate.ErrLost.
func (m *Manager) Remote(ctx context.Context, p netip.Prefix, who string, r store.FetchRequest) (store.FetchReport, error) {
	s, sealed, id, err := m.commission(p, who)
	if err != nil {
		return store.FetchReport{}, err
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
	connected, probes := s.connecting() && s.probe.Probe == who, int64(0)
	scout := !deciding && who != m.cfg.Self.String()
	if s.asked == who {
		m.answered(s)
	}
	s.watch.Page()
	switch {
	case errors.Is(err, estimate.ErrNotSent) && deciding:
		s.exclude[who] = true
	case errors.Is(err, estimate.ErrNotSent):
		s.shun(who, time.Now())
	default:
		probes = s.probed(who)
		s.observe(coords.Sample{
			Peer: who, At: at, Connect: r.Timing.Connect, FirstByte: r.Timing.FirstByte, Body: r.Timing.Body,
			Reused: r.Timing.Reused, Bytes: r.Bytes, Failed: err != nil || !r.Outcome.Answered(), Taken: time.Now(),
		})
		if deciding && who != m.cfg.Self.String() && !connected {
			s.estimations++
		}
		if scout {
			m.scouts.Add(1)
		}
	}
	m.mu.Unlock()
	if err != nil {
		m.log.Info("estimation failed", "subnet", p, "peer", who, "err", err)
	}
	if !deciding && !scout {
		return // written down only while it decides something, or others were asked
	}
	if err := m.saveCounting(s, store.Counters{Probes: probes}); err != nil {
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
		if s.phase != store.PhaseDeciding || s.leaving() || s.to != "" || s.doubted() {
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
		if _, err := m.next(s, false); m.stall(err) != nil {
			return err
		}
	}
	return nil
}
