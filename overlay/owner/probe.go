package owner

import (
	"context"
	"net/netip"
	"slices"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/store"
)

// A probe is what a strategy has measured before it decides: a page that is
// fetched, or a connection that is opened and closed again. Both are made in a
// job that the crawler took for a page of the subnet, so that there is one
// politeness clock; a page whose job went into a connection stays in its queue
// and comes again after the gap.
//
// All are counted alike, for every strategy: what it asked for, and the first
// measurement of a peer that it has for nothing, as this peer's of a robots.txt.

// probing notes what the strategy has asked for.
func (m *Manager) probing(s *subnet, step assign.Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.probe = step
}

// connecting says whether the probe under way is a connection.
func (s *subnet) connecting() bool {
	return s.phase == store.PhaseDeciding && s.probe.Probe != "" && s.probe.Via == assign.ViaConnect
}

// probed counts a measurement by that peer before it is entered: 1 if the
// strategy had asked for it, or has it to go by for nothing.
func (s *subnet) probed(who string) int64 {
	if s.phase != store.PhaseDeciding {
		return 0
	}
	if s.probe.Probe == who {
		s.probe = assign.Step{}
		return 1
	}
	if slices.ContainsFunc(s.samples, func(x coords.Sample) bool { return x.Peer == who }) {
		return 0
	}
	return 1
}

// Connects says whether the peer that Where named last is to open a connection
// only, and fetch nothing.
func (m *Manager) Connects(p netip.Prefix) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subnets[p]
	return s != nil && s.asked == "" && s.connecting()
}

// Connect has another peer open a connection to the server of a URL. Errors
// wrap estimate.ErrNotSent or estimate.ErrLost. Other than with Remote nothing
// is written down before: a connection that is made twice costs no page.
func (m *Manager) Connect(ctx context.Context, p netip.Prefix, who string, r store.FetchRequest) (store.FetchReport, error) {
	_, sealed, id, err := m.commission(p, who)
	if err != nil {
		return store.FetchReport{}, err
	}
	return m.cfg.Estimate.Connect(ctx, id, sealed, r)
}
