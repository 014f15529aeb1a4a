package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/ownership"
	"peerd/store"
)

// Placement is the part of a Manager that decides where a subnet belongs: it asks the strategy, has
// other peers fetch for that, and reviews what was decided.
type Placement struct {
	*table
	balance  *balance
	replicas *replicas
	searches queue[coords.Proxy] // for peers near servers
	scouts   atomic.Int64
	outgoing map[string]time.Time // when the last subnet left for a peer; guarded by mu
	barred   time.Time            // when the quorum lease was last missing; guarded by mu
}

// Where returns the peer that fetches the next URL of a subnet; "" is this peer. hold
// means that no peer does, because the subnet is leaving or has left, or because its
// replicas are behind and may soon take over.
func (c *Placement) Where(p netip.Prefix) (who string, hold bool) {
	if c.replicas.ahead(p, time.Now()) {
		return "", true
	}
	c.mu.Lock()
	s := c.subnets[p]
	if s == nil || !s.unit.Works() {
		c.mu.Unlock()
		return "", true
	}
	s.idleSince = time.Time{}
	deciding, asked := s.unit.Searches(), s.asked
	if !deciding && !s.again {
		if asked == "" { // one scout at a time
			who = s.watch.Scout()
		}
		c.mu.Unlock()
		return who, false
	}
	c.mu.Unlock()
	if asked != "" { // before a restart: it may be fetching still, and gives the same answer again
		if _, known := c.cfg.Directory.At(asked); known {
			return asked, false
		}
		if time.Since(c.started) < askedWait {
			return "", true
		}
	}
	if !deciding {
		c.mu.Lock()
		c.answered(s)
		c.mu.Unlock()
		return "", false
	}
	step, err := c.next(s, true)
	if err != nil {
		c.log.Error("failed to save decision", "subnet", p, "err", err)
	}
	c.probing(s, step)
	self := c.self
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
func (c *Placement) next(s *subnet, canProbe bool) (assign.Step, error) {
	e := c.evidence(s, c.candidates(), time.Now())
	e.CanProbe, e.Delegations = canProbe, c.delegations()
	c.mu.Lock()
	e.Exclude = maps.Clone(s.exclude)
	c.mu.Unlock()
	e.Exclude = c.balance.closedTo(e.Exclude, e.Candidates, true)
	step, err := c.cfg.Strategy.Next(unseen(e))
	if err != nil {
		c.log.Error("strategy failed; kept subnet", "subnet", s.prefix,
			"strategy", c.cfg.Strategy.Name(), "err", err)
		step = assign.Step{Choice: e.Self}
	}
	c.seek(s, step)
	if step.Choice != "" {
		return step, c.choose(s, step)
	}
	return step, nil
}

// choose makes the strategy's choice the subnet's owner: it stays, or it is to
// leave. Of several calls at once the first one counts.
func (c *Placement) choose(s *subnet, step assign.Step) error {
	c.mu.Lock()
	if s.unit.State != ownership.Deciding || c.subnets[s.prefix] != s {
		c.mu.Unlock()
		return nil
	}
	if step.Proxy != nil {
		s.lease.Proxy = step.Proxy
	}
	to := step.Choice
	if to == c.self {
		to = ""
	}
	save := c.step(s, ownership.Event{Kind: ownership.Chosen, To: to})
	estimations := s.estimations
	c.mu.Unlock()
	c.log.Debug("predicted times", "subnet", s.prefix, "ms", predicted(step.Predicted))
	c.log.Info("chose owner", "subnet", s.prefix, "owner", step.Choice,
		"estimations", estimations)
	c.wake()
	if save {
		return c.save(s)
	}
	return nil
}

// commission returns what it takes to ask a peer for something in a subnet of
// ours: its state, the lease to show and the peer's name. The errors wrap
// estimate.ErrNotSent.
func (c *Placement) commission(
	p netip.Prefix, who string,
) (s *subnet, sealed []byte, id peer.ID, err error) {
	c.mu.Lock()
	if s = c.subnets[p]; s != nil {
		sealed = s.sealed
	}
	c.mu.Unlock()
	if sealed == nil {
		return nil, nil, "", fmt.Errorf("%w: %v is not ours", estimate.ErrNotSent, p)
	}
	if id, err = peer.Decode(who); err != nil {
		return nil, nil, "", fmt.Errorf("%w: peer %q: %w", estimate.ErrNotSent, who, err)
	}
	return s, sealed, id, nil
}

// Remote has another peer fetch one URL of a subnet, or report it from a file. Errors wrap
// estimate.ErrNotSent or estimate.ErrNoReply.
func (c *Placement) Remote(
	ctx context.Context, p netip.Prefix, who string, r store.FetchRequest,
) (store.FetchReport, error) {
	s, sealed, id, err := c.commission(p, who)
	if err != nil {
		return store.FetchReport{}, err
	}
	if r.File {
		return c.cfg.Estimate.Fetch(ctx, id, sealed, r)
	}
	c.mu.Lock()
	s.asked = who
	c.mu.Unlock()
	if err := c.save(s); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: %w", estimate.ErrNotSent, err)
	}
	return c.cfg.Estimate.Fetch(ctx, id, sealed, r)
}

// Observe is told how a fetch in a subnet went; who is "" for this peer.
func (c *Placement) Observe(p netip.Prefix, who string, r store.FetchReport, err error) {
	if who == "" {
		who = c.self
	}
	at, _ := c.cfg.Directory.At(who)
	c.mu.Lock()
	s := c.subnets[p]
	if s == nil {
		c.mu.Unlock()
		return
	}
	s.idleSince = time.Time{}
	deciding := s.unit.Searches()
	connected, probes := s.connecting() && s.probe.Probe == who, int64(0)
	scout := !deciding && who != c.self
	if s.asked == who {
		c.answered(s)
	}
	s.watch.Page()
	x := sampleOf(who, at, r, err)
	if who == c.self && !x.Failed {
		s.contact = contact{}
	}
	switch {
	case errors.Is(err, estimate.ErrNotSent):
		s.notSent(who, deciding, err)
	case showsNothing(r):
	default:
		probes = s.probed(who)
		s.observe(x)
		if deciding && who != c.self && !connected {
			s.estimations++
		}
		if scout {
			c.scouts.Add(1)
		}
	}
	c.mu.Unlock()
	if err != nil {
		c.log.Info("estimation failed", "subnet", p, "peer", who, "err", err)
	}
	if !deciding && !scout {
		return // saved with many others, by a review
	}
	if err := c.saveCounting(s, store.Counters{Probes: probes}); err != nil {
		c.log.Error("failed to save subnet state", "subnet", p, "err", err)
	}
}

// showsNothing reports whether r is that of a file over an old connection (Measured).
func showsNothing(r store.FetchReport) bool {
	return r.File && r.Outcome.Answered() && r.Timing.Connect == 0
}

// sampleOf returns what a fetch that just ended says about the peer that made it.
func sampleOf(who string, at coords.Coordinate, r store.FetchReport, err error) coords.Sample {
	r = r.Measured()
	return coords.Sample{
		Peer: who, At: at, Connect: r.Timing.Connect, FirstByte: r.Timing.FirstByte,
		Body: r.Timing.Body, Reused: r.Timing.Reused, Bytes: r.Bytes,
		Failed: err != nil || !r.Outcome.Answered(), Taken: time.Now(),
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

// hostless is how long a subnet may be ours, and this peer able to act, before the subnet's
// first host's home is settled.
const hostless = time.Minute

// decideIdle takes the decision for subnets that have had no URL to estimate
// with for a while. Time without the quorum lease, or in doubt, does not count, because this
// peer accepts no URLs then. The error is one of the store.
func (c *Placement) decideIdle() error {
	now, mayAct := time.Now(), c.HasQuorumLease()
	var idle []*subnet
	c.mu.Lock()
	if !mayAct {
		c.barred = now
	}
	for p, s := range c.subnets {
		if !s.unit.Searches() {
			continue
		}
		hosts, pending, inFlight, _ := c.cfg.Frontier.SubnetLoad(p)
		switch {
		case !mayAct, !s.unit.Usable(), pending > 0, inFlight > 0,
			hosts == 0 && min(now.Sub(s.since), now.Sub(c.barred)) < hostless:
			s.idleSince = time.Time{}
		case s.idleSince.IsZero():
			s.idleSince = now
		case now.Sub(s.idleSince) > c.cfg.DecideIdle:
			idle = append(idle, s)
		}
	}
	c.mu.Unlock()
	for _, s := range idle {
		if _, err := c.next(s, false); c.noteDiskFull(err) != nil {
			return err
		}
	}
	return nil
}

// Predict returns how long this peer should take for a page of that many bytes, over an open
// connection, by the proxy coordinate of the subnet. It returns false if the subnet is not ours or
// has no proxy coordinate.
func (c *Placement) Predict(p netip.Prefix, bytes int64) (time.Duration, bool) {
	c.mu.Lock()
	s := c.subnets[p]
	if s == nil || s.lease.Proxy == nil {
		c.mu.Unlock()
		return 0, false
	}
	proxy := s.lease.Proxy // replaced, never modified
	c.mu.Unlock()
	at, ok := c.cfg.Directory.At(c.self)
	return proxy.Predict(at, bytes), ok
}

// answered ends the wait for whoever was asked; the table's mutex is held.
func (c *Placement) answered(s *subnet) {
	again := s.again
	s.asked, s.again = "", false
	if again {
		c.show(s)
	}
}
