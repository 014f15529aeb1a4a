package crawlsim

import (
	"math/rand/v2"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/zone"
)

// The intervals of overlay/peers (its DefaultConfig and schedule), and how long gossip
// takes.
const (
	fast, slow  = 750 * time.Millisecond, 20 * time.Second
	settled     = 0.25
	haste       = 64 // largest number of fast measurements in a row
	fastPeers   = 2
	partners    = 32
	turnover    = 10 * time.Minute
	beaconEvery = 15 * time.Second
	beaconGap   = 2 * time.Second
	rounds      = 3
	gossipDelay = time.Second
)

// The intervals of choosing partners, of exchanging known peers in a network larger
// than a directory, and of the latter after the directories have filled.
const (
	circleEvery = time.Minute
	syncEvery   = 30 * time.Second
	syncLate    = 5 * time.Minute
	syncFriends = 3
)

// waitGain is the value of crawl/frontier: the weight of a new waiting time in the mean.
const waitGain = 0.05

// peer is the state of a crawler.
type peer struct {
	Peer
	strategy  assign.Strategy
	est       *coords.Estimator
	announcer coords.Announcer
	learner   *coords.Learner
	traits    *coords.Traits // that it has learned
	news      bool           // whether there were downloads since then
	halves    [2][]int       // near and random partners
	turn      int            // of the halves
	measured  map[int]time.Duration
	hasty     int
	knows     []int         // peers in its directory; nil: all
	due       time.Duration // of the next beacon
	line      line
	extra     time.Duration // additional lag, see Slow
	spell     time.Duration // additional lag during a spell

	busy  int // downloads in progress
	queue []job
	wait  float64 // mean waiting time, ns

	outgoing map[string]time.Duration // when a subnet last left for a peer
}

// job is a download that waits for a worker.
type job struct {
	since time.Duration
	run   func(waited time.Duration)
}

func (s *Sim) newPeer(i int) (*peer, error) {
	p := &peer{Peer: s.world.Peers[i], outgoing: map[string]time.Duration{},
		measured: map[int]time.Duration{}, hasty: haste}
	p.line.bps = p.Bps
	cfg := coords.DefaultConfig()
	cfg.Rand = rand.New(rand.NewPCG(s.cfg.Seed, uint64(i)))
	var err error
	p.est = coords.NewEstimator(cfg)
	p.learner = coords.NewLearner(coords.LearnerSubnets)
	p.strategy, err = s.cfg.Strategy(p.Name)
	return p, err
}

// meet adds a peer: it learns of others and starts its exchanges and beacons.
func (s *Sim) meet(i int) {
	p := s.peers[i]
	if len(s.peers) > s.cfg.Directory {
		for _, q := range s.rng.Perm(len(s.peers)) {
			if q != i && len(p.knows) < s.cfg.Directory/8 {
				p.knows = append(p.knows, q)
			}
		}
		s.clock.after(s.spread(syncEvery/2), func() { s.sync(i) })
	}
	s.befriend(i)
	if len(p.halves[0])+len(p.halves[1]) > 0 {
		s.clock.after(s.spread(fast), func() { s.measure(i) })
		s.clock.after(s.spread(circleEvery/2), func() { s.again(i) })
	}
	s.clock.after(s.spread(beaconGap), func() { s.announce(i) })
	if s.cfg.Traits > 0 {
		s.clock.after(s.spread(s.cfg.Traits), func() { s.learn(i) })
	}
	if s.world.Spells.Every > 0 {
		s.suffer(p, rand.New(rand.NewPCG(s.cfg.Seed^0x57e11, uint64(i))))
	}
}

// again chooses the partners of a peer periodically.
func (s *Sim) again(i int) {
	s.befriend(i)
	s.clock.after(s.spread(circleEvery), func() { s.again(i) })
}

// befriend chooses the partners of a peer among those that it knows.
func (s *Sim) befriend(i int) {
	p := s.peers[i]
	here := p.est.Coordinate()
	known := make([]coords.KnownPeer, 0, s.cfg.Directory)
	add := func(q int) {
		known = append(known, coords.KnownPeer{ID: s.peers[q].Name,
			Distance: here.Distance(s.shown[q].At)})
	}
	for _, q := range p.knows {
		add(q)
	}
	for q := range s.peers {
		if p.knows == nil && q != i {
			add(q)
		}
	}
	chosen := coords.ChoosePartners(known, partners, s.cfg.Seed+uint64(i)+
		uint64(s.clock.now/turnover))
	for h, names := range [][]string{chosen.Near, chosen.Random} {
		p.halves[h] = p.halves[h][:0]
		for _, name := range names {
			p.halves[h] = append(p.halves[h], s.byName[name])
		}
	}
}

// sync merges the directories of some peers that a peer knows into its own, and drops the same
// peers as a full directory does.
func (s *Sim) sync(i int) {
	p := s.peers[i]
	seen := map[int]bool{i: true}
	var all []int
	var known []zone.Peer
	add := func(q int) {
		if !seen[q] {
			seen[q] = true
			all = append(all, q)
			known = append(known, zone.Peer{ID: s.peers[q].Name, At: s.shown[q].At})
		}
	}
	for _, q := range p.knows {
		add(q)
	}
	for range syncFriends {
		q := p.knows[s.rng.IntN(len(p.knows))]
		add(q)
		for _, r := range s.peers[q].knows {
			add(r)
		}
	}
	kept := make([]int, 0, s.cfg.Directory)
	for _, k := range zone.Keep(p.est.Coordinate(), known, s.cfg.Directory-1, zone.DefaultConfig(),
		s.cfg.Seed^uint64(i)*2654435761) {
		kept = append(kept, all[k])
	}
	p.knows = kept
	pause := syncEvery
	if s.clock.now > 2*s.cfg.WarmUp {
		pause = syncLate
	}
	s.clock.after(s.spread(pause), func() { s.sync(i) })
}

// spread returns d, randomly changed by up to a quarter.
func (s *Sim) spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + 0.5*s.rng.Float64()))
}

// measure schedules exchanges with near and random partners in turn, each time with the partner
// that was measured least recently. Exchanges are fast while the coordinate is uncertain and
// fast measurements help.
func (s *Sim) measure(i int) {
	p := s.peers[i]
	n, pause := 1, slow
	if p.est.Coordinate().Error <= settled {
		p.hasty = haste
	} else if p.hasty > 0 {
		p.hasty--
		n, pause = fastPeers, fast
	}
	for range n {
		p.turn++
		half := p.halves[p.turn%2]
		if len(half) == 0 {
			half = p.halves[(p.turn+1)%2]
		}
		first := half[0]
		for _, q := range half {
			if p.measured[q] < p.measured[first] {
				first = q
			}
		}
		p.measured[first], s.peers[first].measured[i] = s.clock.now, s.clock.now
		s.exchange(i, first)
	}
	s.clock.after(s.spread(pause), func() { s.measure(i) })
}

// exchange measures the round trip between two peers, the least of three; both update their
// coordinates.
func (s *Sim) exchange(i, j int) {
	p, q := s.peers[i], s.peers[j]
	link := s.world.between(i, j)
	least := time.Duration(1 << 62)
	for range rounds {
		rtt := link.RTT + time.Duration(s.rng.Float64()*float64(link.Jitter)) + s.lag(p) + s.lag(q)
		least = min(least, rtt)
	}
	s.counts.Exchanges++
	s.clock.after(rounds*least, func() {
		here, there := p.est.Coordinate(), q.est.Coordinate()
		// The Estimator ignores outliers.
		_ = p.est.Observe(q.Name, s.placed(i, q.Name, there), least)
		_ = q.est.Observe(p.Name, s.placed(j, p.Name, here), least)
	})
}

// lag returns the delay that a peer's processor adds to a small message: a quarter of what it
// adds to a page.
func (s *Sim) lag(p *peer) time.Duration {
	return time.Duration(s.rng.ExpFloat64() * 0.25 * float64(p.Lag+p.extra+p.spell))
}

// suffer schedules the spells of overload of a peer, which may be in one at the start. The
// random source is its own, so that all strategies have the same spells.
func (s *Sim) suffer(p *peer, dice *rand.Rand) {
	w := s.world.Spells
	draw := func(mean time.Duration) time.Duration {
		return time.Duration(dice.ExpFloat64() * float64(mean))
	}
	var begin, end func()
	begin = func() {
		p.spell = draw(w.Lag)
		s.clock.after(draw(w.Last), end)
	}
	end = func() {
		p.spell = 0
		s.clock.after(draw(w.Every), begin)
	}
	if dice.Float64() < float64(w.Last)/float64(w.Last+w.Every) {
		begin()
		return
	}
	end()
}

// announce sends a beacon when one is due or enough has changed.
func (s *Sim) announce(i int) {
	p := s.peers[i]
	wait := p.waiting()
	p.est.SetLoad(wait)
	if changed := p.announcer.Consider(p.est.Announced()); changed || s.clock.now >= p.due {
		p.due = s.clock.now + s.spread(beaconEvery)
		s.counts.Beacons++
		at := p.est.Coordinate()
		traits, trips := p.traits, p.est.Trips()
		s.clock.after(gossipDelay, func() {
			s.trips[i] = trips
			s.shown[i].At, s.shown[i].Wait, s.shown[i].Traits = at, wait, traits
		})
	}
	s.clock.after(beaconGap, func() { s.announce(i) })
}

// waiting returns the waiting time in the beacon: 0 if no download waits or runs.
func (p *peer) waiting() time.Duration {
	if p.busy == 0 && len(p.queue) == 0 {
		return 0
	}
	return time.Duration(p.wait)
}

// candidates returns the peers that a peer knows, and the peer itself in its current state. The
// result is valid until the next call.
func (s *Sim) candidates(i int) []assign.Candidate {
	p := s.peers[i]
	self := assign.Candidate{ID: p.Name, Addr: p.Addr, Capacity: 1, At: p.est.Coordinate(),
		Wait: p.waiting(), Traits: p.traits}
	if p.knows == nil {
		s.asked = append(s.asked[:0], s.shown...)
		s.asked[i] = self
	} else {
		s.asked = append(s.asked[:0], self)
		for _, q := range p.knows {
			s.asked = append(s.asked, s.shown[q])
		}
	}
	observed := s.observed(i)
	for k, c := range s.asked {
		s.asked[k].At, s.asked[k].Place = p.est.Judge(c.ID, c.At, observed.Of(c.ID))
	}
	return s.asked
}

// observed returns what peer i and those that it knows have published.
func (s *Sim) observed(i int) *coords.Observations {
	all := coords.NewObservations()
	add := func(q int) { all.Add(s.peers[q].Name, s.shown[q].At, s.trips[q]) }
	add(i)
	for _, q := range s.peers[i].knows {
		add(q)
	}
	for q := range s.peers {
		if s.peers[i].knows == nil && q != i {
			add(q)
		}
	}
	return all
}

// placed returns where peer i takes a peer to be that claims to be at a place.
func (s *Sim) placed(i int, name string, claim coords.Coordinate) coords.Coordinate {
	at, _ := coords.Place(claim, s.observed(i).Of(name))
	return at
}

// take runs run in a worker of peer p, at once or when one is free.
func (s *Sim) take(p *peer, run func(waited time.Duration)) {
	if p.busy < s.cfg.Workers {
		p.busy++
		p.wait -= waitGain * p.wait
		run(0)
		return
	}
	p.queue = append(p.queue, job{s.clock.now, run})
}

// free returns a worker.
func (s *Sim) free(p *peer) {
	if len(p.queue) == 0 {
		p.busy--
		return
	}
	next := p.queue[0]
	p.queue = p.queue[1:]
	waited := s.clock.now - next.since
	p.wait += waitGain * (float64(waited) - p.wait)
	next.run(waited)
}
