package owner

import (
	"context"
	"net/netip"
	"slices"

	"peerd/coords/assign"
	"peerd/store"
)

// A probe is a measurement that a strategy asks for before it decides: a page that is
// fetched, or a connection that is opened and closed. Both use a job that the crawler
// created for a page of the subnet, so that there is one politeness clock; a page that
// was not fetched because its job made a connection stays in the queue.
//
// All are counted alike for every strategy: what it asked for, and the first measurement
// by a peer that it gets without asking, such as that of this peer's robots.txt request.

// probing notes what the strategy has asked for.
func (c *Placement) probing(s *subnet, step assign.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.probe = step
}

// connecting says whether the probe under way is a connection.
func (s *subnet) connecting() bool {
	return s.unit.Searches() && s.probe.Probe != "" && s.probe.Via == assign.ViaConnect
}

// probed counts a measurement by that peer before it is entered: 1 if the
// strategy had asked for it, or has it to go by for nothing.
func (s *subnet) probed(who string) int64 {
	if !s.unit.Searches() {
		return 0
	}
	if s.probe.Probe == who {
		s.probe = assign.Step{}
		return 1
	}
	if slices.ContainsFunc(s.history, func(d download) bool { return d.peer == who }) {
		return 0
	}
	return 1
}

// Connects says whether the peer that Where named last is to open a connection
// only, and fetch nothing.
func (c *Placement) Connects(p netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subnets[p]
	return s != nil && s.asked == "" && s.connecting()
}

// Connect has another peer open a connection to the server of a URL. Errors
// wrap estimate.ErrNotSent or estimate.ErrNoReply. Other than with Remote nothing
// is written down before: a connection that is made twice costs no page.
func (c *Placement) Connect(
	ctx context.Context, p netip.Prefix, who string, r store.FetchRequest,
) (store.FetchReport, error) {
	_, sealed, id, err := c.commission(p, who)
	if err != nil {
		return store.FetchReport{}, err
	}
	return c.cfg.Estimate.Connect(ctx, id, sealed, r)
}
