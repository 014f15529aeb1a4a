package crawlsim

import (
	"fmt"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// triesMax is the maximum number of attempts per page.
const triesMax = 4

// leaveGap is the value of overlay/owner: the least time between two subnets that one owner
// hands over to the same peer.
const leaveGap = 2 * time.Second

// Subnet is the state of a subnet.
type Subnet struct {
	Server int
	// Owner is the current owner; -1 before the subnet is found.
	Owner int
	// Decided reports whether the strategy has chosen an owner. The times are those at which
	// the subnet was found and decided on.
	Decided          bool
	Finder           int
	FoundAt, DoneAt  time.Duration
	Estimations      int // pages fetched by other peers before the decision
	Probes           int // all measurements before the decision, connects included
	Calls            int // calls of Next
	Proxy            *coords.Proxy
	Predicted        map[string]time.Duration
	Range            map[string][2]time.Duration
	Moves            []Move
	Pages, Abandoned int

	samples []coords.Sample
	exclude map[string]bool
	watch   assign.ReviewState
	conns   map[int]time.Duration
	extra   time.Duration // additional delay of the server
	tries   int           // attempts for the current page
	before  int           // pages finished before the decision
	over    bool
}

// Move is one change of owner after the decision.
type Move struct {
	At       time.Duration
	From, To int
	// Needless reports that the new owner is in truth not at least 5 % faster.
	Needless bool
}

// find lets a peer find the subnet of a server.
func (s *Sim) find(server int) {
	n := &Subnet{Server: server, Owner: -1, conns: map[int]time.Duration{},
		exclude: map[string]bool{}}
	s.nets = append(s.nets, n)
	s.open++
	owner := s.rng.IntN(len(s.peers))
	if s.cfg.Finder != nil {
		owner = s.cfg.Finder(server)
	}
	at := s.cfg.WarmUp + time.Duration(s.rng.Float64()*float64(s.cfg.FoundWithin))
	s.clock.at(at, func() {
		n.Owner, n.Finder, n.FoundAt = owner, owner, s.clock.now
		s.robots(n)
	})
}

// robots lets the finder request the robots.txt of a server, of which a peer keeps the round trip
// (store.FetchReport.Measured).
func (s *Sim) robots(n *Subnet) {
	s.connect(n.Owner, n, func(x coords.Sample) {
		n.Probes++
		s.observe(n, x)
		s.clock.after(s.cfg.Gap, func() { s.step(n) })
	})
}

// left reports whether there are pages to fetch.
func (s *Sim) left(n *Subnet) bool {
	most := s.cfg.Pages
	if n.Decided && s.cfg.Assigned > 0 {
		most = n.before + s.cfg.Assigned
	}
	return most == 0 || n.Pages+n.Abandoned < most
}

// step runs the next action of the owner of a subnet.
func (s *Sim) step(n *Subnet) {
	if s.err != nil {
		return
	}
	who, scout := n.Owner, false
	switch {
	case !n.Decided:
		step, err := s.next(n)
		switch {
		case err != nil:
			s.err = fmt.Errorf("sim: subnet %v: %w", s.world.Servers[n.Server].Subnet, err)
			return
		case step.Choice != "":
			s.choose(n, step)
			return
		}
		who = s.byName[step.Probe]
		if step.Via == assign.ViaConnect {
			s.counts.Connects++
			n.Probes++
			s.away(n.Owner, who, func() {
				s.connect(who, n, func(x coords.Sample) {
					s.away(n.Owner, who, func() {
						s.observe(n, x)
						s.clock.after(s.cfg.Gap, func() { s.step(n) })
					})
				})
			})
			return
		}
	case !s.left(n):
		s.finish(n)
		return
	case s.cfg.Fetcher != nil:
		who = s.cfg.Fetcher(n)
	default:
		if id := n.watch.Scout(); id != "" {
			who, scout = s.byName[id], true
		}
	}
	s.away(n.Owner, who, func() {
		s.fetch(who, n, n.Pages+n.Abandoned, func(x coords.Sample, d Download) {
			s.away(n.Owner, who, func() {
				d.Probe, d.Scout = !n.Decided, scout
				s.fetched(n, x, d)
			})
		})
	})
}

// away calls then after half a round trip between the owner and who.
func (s *Sim) away(owner, who int, then func()) {
	if owner == who {
		then()
		return
	}
	s.clock.after(s.world.between(owner, who).MeanRTT()/2, then)
}

// next calls the strategy of the owner.
func (s *Sim) next(n *Subnet) (assign.Step, error) {
	s.counts.Decisions++
	n.Calls++
	return s.peers[n.Owner].strategy.Next(s.evidence(n))
}

func (s *Sim) evidence(n *Subnet) assign.Evidence {
	return assign.Evidence{
		Subnet: s.world.Servers[n.Server].Subnet, Self: s.peers[n.Owner].Name,
		Candidates: s.candidates(n.Owner),
		Samples:    n.samples, Exclude: n.exclude, CanProbe: s.left(n), Now: base.Add(s.clock.now),
		Delegations: known{s},
	}
}

// choose applies a choice of the strategy.
func (s *Sim) choose(n *Subnet, step assign.Step) {
	n.Decided, n.DoneAt, n.before = true, s.clock.now, n.Pages+n.Abandoned
	n.Proxy, n.Predicted, n.Range = step.Proxy, step.Predicted, step.Range
	to := s.byName[step.Choice]
	if to == n.Owner {
		s.step(n)
		return
	}
	s.counts.Handovers++
	s.hand(n, to, 0)
}

// hand hands a subnet over, which takes three round trips, as in overlay/handover, and at least
// until the end of the gap.
func (s *Sim) hand(n *Subnet, to int, gap time.Duration) {
	took := 3 * s.world.between(n.Owner, to).MeanRTT()
	s.clock.after(max(took, gap), func() {
		n.Owner = to
		s.step(n)
	})
}

// observe stores a sample, as an owner does.
func (s *Sim) observe(n *Subnet, x coords.Sample) {
	n.samples = append(n.samples, x)
	if most := s.cfg.Samples; len(n.samples) > most+most/4 {
		n.samples = assign.History(n.samples, most)
	}
}

// fetched processes the result of a download and schedules the next one.
func (s *Sim) fetched(n *Subnet, x coords.Sample, d Download) {
	s.downs = append(s.downs, d)
	s.observe(n, x)
	switch {
	case d.Probe:
		n.Probes++
		if d.Peer != n.Owner {
			n.Estimations++
			s.counts.Estimations++
		}
	case d.Scout:
		s.counts.Scouts++
	}
	s.count(n, d)
	gap := s.cfg.Gap
	if !d.Failed {
		gap = max(gap, min(time.Duration(s.cfg.Pace*float64(d.Took)), s.cfg.PaceMax))
	}
	if n.Decided {
		n.watch.Page()
		if to, ok := s.review(n); ok {
			s.move(n, to, gap)
			return
		}
	}
	s.clock.after(gap, func() { s.step(n) })
}

// count counts a page.
func (s *Sim) count(n *Subnet, d Download) {
	if !d.Failed {
		n.tries = 0
		n.Pages++
		s.counts.Pages++
		s.counts.Bytes += d.Bytes
		return
	}
	s.counts.Failed++
	if n.tries++; n.tries == triesMax {
		n.tries = 0
		n.Abandoned++
		s.counts.GivenUp++
	}
}

// review asks the strategy whether a decided subnet should move, if a review is due.
func (s *Sim) review(n *Subnet) (to int, ok bool) {
	reviewer, can := s.peers[n.Owner].strategy.(assign.Reviewer)
	now := base.Add(s.clock.now)
	if !can || s.cfg.Watch == nil || !n.watch.Due(now) {
		return 0, false
	}
	s.counts.Reviews++
	e := s.evidence(n)
	e.Exclude, e.CanProbe = nil, s.left(n) && n.watch.CanScout(*s.cfg.Watch)
	r, err := reviewer.Review(e)
	if err != nil {
		s.err = fmt.Errorf("sim: review of %v: %w", e.Subnet, err)
		return 0, false
	}
	id := n.watch.Reviewed(*s.cfg.Watch, r, now, s.rng.Float64())
	out := s.peers[n.Owner].outgoing
	if id == "" || !s.left(n) || s.clock.now-out[id] < leaveGap && out[id] > 0 {
		return 0, false
	}
	out[id] = s.clock.now
	return s.byName[id], true
}

// move makes another peer the owner of a decided subnet.
func (s *Sim) move(n *Subnet, to int, gap time.Duration) {
	needless := float64(s.Expected(to, n.Server)) > 0.95*float64(s.Expected(n.Owner, n.Server))
	n.Moves = append(n.Moves, Move{s.clock.now, n.Owner, to, needless})
	s.counts.Moves++
	n.watch.Moved(base.Add(s.clock.now))
	n.watch = assign.ReviewState{Moves: n.watch.Moves}
	s.hand(n, to, gap)
}

// finish ends a subnet after all its pages have been fetched.
func (s *Sim) finish(n *Subnet) {
	if !n.over {
		n.over = true
		s.open--
	}
}
