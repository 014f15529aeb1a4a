package owner

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// Seek makes the Directory learn of the peers nearest to a web server, in a
// network of which it knows only a part; given by node, from overlay/nearest.
type Seek func(ctx context.Context, target coords.Proxy) error

// seeksAtOnce is how many searches are under way at a time: each asks a few
// peers, and a peer that found many subnets at once has one for each.
const seeksAtOnce = 8

// seeks reports whether peers near the server are to be sought after a step of the strategy: as
// soon as the server has a place, and again when twice as many samples place it. The table's
// mutex is held.
func (s *subnet) seeks(step assign.Step) bool {
	switch {
	case step.Choice != "":
		s.sought = 0
	case step.Proxy != nil && step.Proxy.Samples >= max(1, 2*s.sought):
		s.sought = step.Proxy.Samples
		return true
	}
	return false
}

// seek notes a step of a subnet's decision.
func (c *Placement) seek(s *subnet, step assign.Step) {
	if c.cfg.Seek == nil {
		return
	}
	c.mu.Lock()
	seeks := s.seeks(step)
	c.mu.Unlock()
	if seeks {
		at := *step.Proxy
		if !c.searches.change(s.prefix, func(e *entry[coords.Proxy]) { e.about = at }) {
			c.searches.add(s.prefix, time.Time{}, at)
		}
		c.wake()
	}
}

var errMoved = errors.New("owner: the server has another place by now")

// toSeek returns the searches that are due, some at a time. A decision does not wait for them: it
// goes on with who is known, and by the next step there may be better candidates.
func (c *Placement) toSeek() []func(context.Context) {
	return c.searches.tasks(c.env, time.Now(), c.deciding, c.search)
}

// search makes the Directory learn of the peers near the server of a subnet.
func (c *Placement) search(ctx context.Context, p netip.Prefix, target coords.Proxy) error {
	if err := c.cfg.Seek(ctx, target); err != nil && ctx.Err() == nil {
		c.log.Debug("failed to find peers near server", "subnet", p, "err", err)
	}
	if e, _ := c.searches.get(p); e.about.Samples > target.Samples {
		return errMoved
	}
	return nil
}
