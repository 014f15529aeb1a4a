package witness

import (
	"fmt"
	"slices"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/ownership"
)

// exRule is a rule that can be off, so that the explorer shows what it is for.
type exRule uint8

const (
	exAll               exRule = iota // no rule is off
	exQuorumLease                     // an owner acts only while enough witnesses have answered
	exFromSending                     // the quorum lease counts from when a heartbeat was sent
	exHoldShorter                     // it ends before the witness's promise
	exPromise                         // a witness does not vote for some time after a heartbeat
	exRestartPromise                  // nor after a restart
	exFreshWaits                      // one with an empty disk waits until lost votes are used
	exVoteSaved                       // a vote is on disk before it is sent
	exOneVote                         // a witness has one vote at a time
	exNoticesFirst                    // notices are noted before the acknowledgement counts
	exVotesStop                       // too many votes stop the owner
	exVoteNoted                       // that is on disk
	exDoubtSaved                      // a doubt outlasts a restart
	exReviveWaits                     // it lasts until the candidate's time is over
	exVoteQuorum                      // a takeover needs enough votes
	exWindow                          // a candidate uses votes for some time only
	exReadsFirst                      // it reads the lease before it asks
	exRanOn                           // it is not one that the owner may have replaced
	exWholeCopy                       // it has everything
	exYield                           // a better lease ends an owner's work
	exCopiesFirst                     // URLs are acknowledged when the replicas have them
	exLostWaits                       // a silent replica counts for some time
	exGrantStops                      // work stops before the grant
	exGrantSaved                      // the grant is on disk before it is sent
	exGrantKept                       // it outlasts a restart
	exGrantWithQuorum                 // none is signed without the quorum lease
	exGrantWithoutDoubt               // nor in doubt
	exFlushed                         // the successor has everything at the grant
	exFormerOwner                     // the successor counts on the former owner's copy
	exForgetfulWaits                  // a witness that has lost its disk counts after some time
	exForgetfulReread                 // and then the leases are read again
	exVotesKept                       // votes are not forgotten before a renewal in doubt
	exRules
)

var exRuleNames = []string{"", "quorum lease", "from sending", "hold shorter", "promise",
	"restart promise", "fresh disk waits", "vote saved", "one vote", "notices first", "votes stop",
	"vote noted", "doubt saved", "revive waits", "vote quorum", "window", "reads first", "ran on",
	"whole copy", "yield", "copies first", "lost waits", "grant stops", "grant saved", "grant kept",
	"grant with quorum", "grant without doubt", "flushed", "former owner", "forgetful waits",
	"forgetful reread", "votes kept"}

func (r exRule) String() string { return exRuleNames[r] }

// exFault is a set of kinds of faults.
type exFault uint8

const (
	exLose     exFault = 1 << iota // a message
	exDelay                        // a message, past any later ones
	exRepeat                       // a message, later
	exCrash                        // of a process, also where it saves something
	exLoseDisk                     // of a peer
	exCut                          // a peer, in one direction or both
	exLink                         // between two peers
)

// exScenario is where an exploration starts, and what may happen.
type exScenario struct {
	name   string
	budget exBudget
	kinds  exFault
	rates  [exPeers]time.Duration // of clocks, a tick; zero: exTick
	fair   uint64                 // one state in so many is continued without faults
	start  func(*exModel, *exWorld)
}

// exResult is what an exploration found.
type exResult struct {
	states, steps, fairRuns int
	epoch                   uint64 // the highest that any peer knew
	owned                   map[ownership.State]bool
	broken                  string
	trace                   []string
	unfinished              bool
}

type exSearch struct {
	m        *exModel
	seen     map[uint64]struct{}
	buf      []byte
	trace    []string
	res      exResult
	deadline time.Time
	most     int // states
}

// explore visits every state of a scenario, or the first most, or those that it can within a limit;
// 0 is no bound.
func explore(names exNames, sc exScenario, off exRule, most int, limit time.Duration) exResult {
	cfg := DefaultConfig()
	cfg.Members, cfg.Network = exPeers-1, "test"
	m := &exModel{exNames: names, exScenario: sc, off: off, cfg: cfg}
	if !m.on(exHoldShorter) {
		m.cfg.Hold += m.cfg.Promise
	}
	if !m.on(exPromise) {
		m.cfg.Promise = 0
	}
	s := &exSearch{m: m, most: most, seen: map[uint64]struct{}{},
		res: exResult{owned: map[ownership.State]bool{}}}
	if limit > 0 {
		s.deadline = time.Now().Add(limit)
	}
	s.visit(m.first())
	s.res.states = len(s.seen)
	return s.res
}

// first returns the first state: A owns the subnet, and B has a complete copy.
func (m *exModel) first() *exWorld {
	w := &exWorld{left: m.budget, ticks: 1000}
	claim := lease.Lease{Network: "test", Subnet: exSubnet, Owner: m.ids[0], Epoch: 1,
		Issued: exStart, Claimed: exStart, Expires: exStart.Add(24 * time.Hour)}
	for p := range w.peers {
		x := &w.peers[p]
		x.rate = exTick
		if r := m.rates[p]; r != 0 {
			x.rate = r
		}
		x.disk.record = claim
		for q := range w.peers {
			x.disk.sets[q] = q != p
		}
		m.start(w, p)
		x.started = x.started.Add(-time.Hour)
		x.witness.votesFrom = x.started
		m.learn(w, p, claim)
		x.seen[0].at = x.started
	}
	a, b := &w.peers[0], &w.peers[1]
	w.served, a.disk.urls, b.disk.urls = 1, 1, 1
	a.lease, a.since, a.copied = claim, a.started, w.clock(0)
	m.step(w, 0, ownership.Event{Kind: ownership.Arrived, Decided: true}, false)
	a.replicas[1] = exReplica{chosen: true, synced: true, well: w.clock(0), has: 1,
		replied: w.clock(1)}
	b.copy = exCopy{of: claim, complete: true, confirmed: w.clock(1), replied: w.clock(1)}
	b.disk.copy = b.copy
	m.save(w, 0)
	m.tick(w)
	m.drain(w)
	if m.exScenario.start != nil {
		m.exScenario.start(m, w)
	}
	m.check(w)
	return w
}

func (m *exModel) drain(w *exWorld) {
	for n := 0; len(w.net) > 0 && n < 1000; n++ {
		x := w.net[0]
		w.net = w.net[1:]
		m.deliver(w, x, false)
		m.check(w)
	}
}

// visit reports whether the search goes on.
func (s *exSearch) visit(w *exWorld) bool {
	for w.broken == "" && len(w.net) > 0 && !s.m.disturbs(w) {
		x := w.net[0]
		w.net = w.net[1:]
		s.m.deliver(w, x, false)
		s.m.check(w)
		s.res.steps++
		s.trace = append(s.trace, x.String()+" arrives")
	}
	s.note(w)
	h := s.hash(w)
	if _, ok := s.seen[h]; ok {
		return true
	}
	s.seen[h] = struct{}{}
	if !s.deadline.IsZero() && len(s.seen)%256 == 0 && time.Now().After(s.deadline) ||
		len(s.seen) == s.most {
		s.res.unfinished = true
		return false
	}
	if w.broken == "" && s.m.fair > 0 && h%s.m.fair == 0 && len(w.net) == 0 {
		s.continued(w.clone())
		if s.res.broken != "" {
			return false
		}
	}
	if w.broken != "" {
		s.stop(w.broken)
		return false
	}
	depth := len(s.trace)
	for _, mv := range s.m.moves(w) {
		next := w.clone()
		mv.do(next)
		s.m.check(next)
		s.res.steps++
		s.trace = append(s.trace, mv.text)
		if !s.visit(next) {
			return false
		}
		s.trace = s.trace[:depth]
	}
	return true
}

// note records how far the exploration came.
func (s *exSearch) note(w *exWorld) {
	for p := range w.peers {
		x := &w.peers[p]
		s.res.epoch = max(s.res.epoch, x.known.Epoch)
		s.res.owned[x.unit.State] = true
	}
}

func (s *exSearch) stop(why string) {
	s.res.broken, s.res.trace = why, slices.Clone(s.trace)
}

// continued lets a world go on without faults until one peer owns the subnet and all know that.
func (s *exSearch) continued(w *exWorld) {
	s.res.fairRuns++
	w.left, w.net, w.late = exBudget{}, nil, nil
	w.cut = [exPeers][exPeers]bool{}
	for p := range w.peers {
		if !w.peers[p].up {
			s.m.start(w, p)
		}
	}
	for range 120 {
		s.m.tick(w)
		s.m.drain(w)
		for p := range w.peers {
			if s.m.renews(w, p) {
				s.m.renew(w, p)
			}
			if s.m.candidate(w, p) {
				s.m.attemptTakeover(w, p)
				s.m.drain(w)
			}
			if v := w.peers[p].vote; v != nil && v.won && !w.clock(p).After(v.until) {
				if s.m.lookup(w, p); w.peers[p].vote != nil {
					s.m.publish(w, p, false)
				}
				s.m.drain(w)
			}
		}
		if w.broken != "" || s.m.settled(w) {
			break
		}
	}
	if w.broken == "" && !s.m.settled(w) {
		w.broken = "without faults the subnet gets no single owner: " + s.m.states(w)
	}
	if w.broken != "" {
		s.trace = append(s.trace, "no more faults")
		s.stop(w.broken)
	}
}

// settled reports whether one peer may fetch, and no other takes itself for the owner.
func (m *exModel) settled(w *exWorld) bool {
	owner := exNone
	for p := range w.peers {
		if m.mayFetch(w, p) {
			if owner != exNone {
				return false
			}
			owner = p
		}
	}
	if owner == exNone {
		return false
	}
	for p := range w.peers {
		if p != owner && w.peers[p].unit.State != ownership.None {
			return false
		}
	}
	return true
}

func (m *exModel) states(w *exWorld) (s string) {
	for p := range w.peers {
		x := &w.peers[p]
		ok, _ := m.quorum(w, p)
		s += fmt.Sprintf("%c: %v, quorum lease %v, epoch %d, copy of epoch %d (complete %v); ",
			'A'+p, x.unit, ok, x.lease.Epoch, x.copy.of.Epoch, x.copy.complete)
	}
	return s
}

// check acknowledges the URLs that can be, and checks what holds in every state.
func (m *exModel) check(w *exWorld) {
	fetching := exNone
	for p := range w.peers {
		x := &w.peers[p]
		if !x.up || !m.mayFetch(w, p) {
			continue
		}
		if fetching != exNone {
			w.fail("%c and %c may fetch", 'A'+fetching, 'A'+p)
		}
		fetching = p
		if w.acked&^x.disk.urls != 0 {
			w.fail("%c may fetch and lacks acknowledged URLs", 'A'+p)
		}
		if x.disk.unit.State == ownership.None || x.disk.lease.Digest() != x.lease.Digest() {
			w.fail("%c fetches under a lease that is not on its disk", 'A'+p)
		}
		m.acknowledge(w, p)
	}
	if w.acked&^w.disks() != 0 {
		w.fail("acknowledged URLs are on no disk")
	}
}

// acknowledge is replicas.Safe of package owner.
func (m *exModel) acknowledge(w *exWorld, p int) {
	x := &w.peers[p]
	safe, synced := x.disk.urls, false
	for _, r := range x.replicas {
		if r.synced {
			safe &= r.has
			synced = true
		}
	}
	recent := x.since
	if x.copied.After(recent) {
		recent = x.copied
	}
	switch {
	case !m.on(exCopiesFirst):
		safe = x.disk.urls
	case !synced && w.clock(p).Sub(recent) < exFirst:
		return
	}
	w.acked |= safe
}

// exMove is one thing that can happen. do changes a copy of the world.
type exMove struct {
	text string
	do   func(*exWorld)
}

// disturbs reports whether anything but its delivery can happen to a message now.
func (m *exModel) disturbs(w *exWorld) bool {
	return w.left.Faults > 0 && m.kinds&(exLose|exDelay|exRepeat|exCrash) != 0
}

// moves lists what can happen.
func (m *exModel) moves(w *exWorld) (list []exMove) {
	add := func(do func(*exWorld), format string, args ...any) {
		list = append(list, exMove{fmt.Sprintf(format, args...), do})
	}
	if len(w.net) > 0 {
		m.deliveries(w, add)
		return list
	}
	for p := range w.peers {
		if !w.peers[p].up {
			add(func(w *exWorld) { m.start(w, p) }, "%c starts", 'A'+p)
			continue
		}
		m.peerMoves(w, p, add)
	}
	for i, x := range w.late {
		add(func(w *exWorld) {
			w.late = slices.Delete(w.late, i, i+1)
			w.net = []exMessage{x}
		}, "delayed %v arrives", x)
	}
	if w.left.Ticks > 0 {
		add(func(w *exWorld) { w.left.Ticks--; m.tick(w) }, "time passes")
	}
	if w.left.Longs > 0 {
		add(m.long, "two minutes pass")
	}
	if w.cut != [exPeers][exPeers]bool{} {
		add(func(w *exWorld) { w.cut = [exPeers][exPeers]bool{} }, "the network heals")
	}
	if w.left.Faults > 0 {
		m.faults(w, add)
	}
	return list
}

// long lets two minutes pass, in which nothing else happens.
func (m *exModel) long(w *exWorld) {
	w.left.Longs--
	for range exLong {
		m.tick(w)
		m.drain(w)
	}
}

type exAdder func(do func(*exWorld), format string, args ...any)

func (m *exModel) deliveries(w *exWorld, add exAdder) {
	x := w.net[0]
	rest := func(w *exWorld) { w.net = slices.Clone(w.net[1:]) }
	add(func(w *exWorld) { rest(w); m.deliver(w, x, false) }, "%v arrives", x)
	fault := func(kind exFault, do func(*exWorld), text string) {
		if w.left.Faults > 0 && m.kinds&kind != 0 {
			add(func(w *exWorld) { w.left.Faults--; rest(w); do(w) }, "%v %s", x, text)
		}
	}
	later := func(w *exWorld) { w.late = append(w.late, x) }
	fault(exLose, func(*exWorld) {}, "is lost")
	fault(exDelay, later, "is delayed")
	fault(exRepeat, func(w *exWorld) { later(w); m.deliver(w, x, false) },
		"arrives, and later again")
	if !w.peers[x.to].up {
		return
	}
	fault(exCrash, func(w *exWorld) { m.crash(w, x.to, false) }, "arrives after a crash")
	probe := w.clone()
	rest(probe)
	if m.deliver(probe, x, false) {
		fault(exCrash, func(w *exWorld) { m.deliver(w, x, true) }, "arrives, crash where it saves")
	}
}

func (m *exModel) peerMoves(w *exWorld, p int, add exAdder) {
	x := &w.peers[p]
	if w.left.Writes > 0 && m.mayFetch(w, p) {
		add(func(w *exWorld) { w.left.Writes--; m.write(w, p) }, "%c finds a URL", 'A'+p)
	}
	if x.unit.Usable() && w.left.Moves > 0 {
		for q := range w.peers {
			if r := x.replicas[q]; r.chosen {
				add(func(w *exWorld) { w.left.Moves--; m.move(w, p, q) }, "%c moves it to %c",
					'A'+p, 'A'+q)
			}
		}
	}
	if w.left.Attempts > 0 && m.candidate(w, p) {
		add(func(w *exWorld) { w.left.Attempts--; m.attemptTakeover(w, p) },
			"%c asks for votes", 'A'+p)
	}
	if v := x.vote; v != nil && v.won && (!w.clock(p).After(v.until) || !m.on(exWindow)) {
		if !v.read {
			add(func(w *exWorld) { m.lookup(w, p) }, "%c has the votes", 'A'+p)
			return
		}
		add(func(w *exWorld) { m.publish(w, p, false) }, "%c publishes its lease", 'A'+p)
		if w.left.Faults > 0 && m.kinds&exCrash != 0 {
			add(func(w *exWorld) { w.left.Faults--; m.publish(w, p, true) },
				"%c publishes its lease and crashes", 'A'+p)
		}
	}
	if m.renews(w, p) {
		add(func(w *exWorld) { m.renew(w, p) }, "%c renews its lease", 'A'+p)
	}
	if w.left.Reads > 0 && m.news(w, p) {
		add(func(w *exWorld) { w.left.Reads--; m.beaten(w, p, m.get(w, p)) },
			"%c reads the lease", 'A'+p)
	}
}

// news reports whether there is a lease in the DHT that an owner does not know.
func (m *exModel) news(w *exWorld, p int) bool {
	x := &w.peers[p]
	for q := range w.peers {
		if r := w.peers[q].disk.record; x.unit.State != ownership.None && w.reaches(p, q) &&
			r.Epoch > 0 && r.Digest() != x.known.Digest() {
			return true
		}
	}
	return false
}

// write lets an owner find a URL.
func (m *exModel) write(w *exWorld, p int) {
	x := &w.peers[p]
	url := w.served + 1
	w.served |= url
	x.disk.urls |= url
	for q, r := range x.replicas {
		if r.chosen {
			w.send(exMessage{from: p, to: q, what: exPulse, lease: x.lease, urls: x.disk.urls,
				stamp: w.clock(p), got: r.replied})
		}
	}
}

// move begins to hand the subnet over.
func (m *exModel) move(w *exWorld, p, q int) {
	m.step(w, p, ownership.Event{Kind: ownership.Moved, To: "ABC"[q : q+1]}, false)
	m.depart(w, p)
}

func (m *exModel) faults(w *exWorld, add exAdder) {
	for p := range w.peers {
		x := &w.peers[p]
		if x.up && m.kinds&exCrash != 0 {
			add(func(w *exWorld) { w.left.Faults--; m.crash(w, p, false) }, "%c crashes", 'A'+p)
		}
		if m.kinds&exLoseDisk != 0 && !x.disk.fresh {
			add(func(w *exWorld) { w.left.Faults--; m.crash(w, p, true) },
				"%c loses its disk", 'A'+p)
		}
		if w.cut != [exPeers][exPeers]bool{} {
			continue
		}
		if q := (p + 1) % exPeers; m.kinds&exLink != 0 {
			add(func(w *exWorld) { w.left.Faults--; w.cut[p][q], w.cut[q][p] = true, true },
				"the link of %c and %c fails", 'A'+p, 'A'+q)
		}
		if m.kinds&exCut == 0 {
			continue
		}
		for i, text := range []string{"is cut off", "is not heard", "hears nothing"} {
			add(func(w *exWorld) {
				w.left.Faults--
				for q := range w.peers {
					w.cut[p][q], w.cut[q][p] = q != p && i != 2, q != p && i != 1
				}
			}, "%c %s", 'A'+p, text)
		}
	}
}
