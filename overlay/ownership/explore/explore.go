package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
	"peerd/overlay/ownership/internal/rule"
)

// A Scenario is where an exploration starts, and what may happen.
type Scenario struct {
	Name   string
	Budget budget
	// Rates are how many seconds a peer's clock shows when 5 s pass by the fastest: 4 or 5.
	Rates    [peers]int
	Owned    bool // A owns the unit; B and C are its witnesses
	Replicas []int
	Peers    int
	Kinds    Fault
	Recreate bool // URLs wait at peers without a copy
	Liar     int  // which peer lies, if the budget has lies
	// Start changes the first state.
	Start func(*model, *world)
	// Fair is of how many states one is continued without faults, to see that the unit gets
	// an owner; zero: of none.
	Fair uint64
	Off  rule.Set
}

// A Fault is a set of kinds of faults.
type Fault uint8

// The kinds of faults.
const (
	Lose     Fault = 1 << iota // a message
	Delay                      // a message, past any later ones
	Repeat                     // a message, later
	Crash                      // of a process, also between two actions
	LoseDisk                   // of a peer
	Gone                       // a peer, for good
	Cut                        // a peer, from all others, in one direction or both
	DHT                        // a record reaches one replica only
)

// A Result is what an exploration found.
type Result struct {
	States, Steps, FairRuns int
	// Broken is the first invariant that does not hold, and Trace how it came to that.
	Broken string
	Trace  []string
	// Cut reports that the time was over before all states were seen.
	Cut  bool
	Took time.Duration
}

// String sums the result up in one line.
func (r Result) String() string {
	s := fmt.Sprintf("%d states, %d steps, %d fair runs in %v", r.States, r.Steps, r.FairRuns,
		r.Took.Round(time.Millisecond))
	if r.Cut {
		s += ", not finished"
	}
	return s
}

// search is a depth-first search. Budgets only fall, so that it ends.
type search struct {
	m        *model
	seen     map[uint64]struct{}
	enc      encoder
	trace    []string
	res      Result
	deadline time.Time
}

// Explore visits every state of the scenario, or those that it can within a limit, if that is
// not zero.
func Explore(sc Scenario, limit time.Duration) Result {
	m := &model{Scenario: sc, rules: ownership.Without(sc.Off)}
	began := time.Now()
	s := &search{m: m, seen: map[uint64]struct{}{}}
	if limit > 0 {
		s.deadline = began.Add(limit)
	}
	w := m.start0()
	s.visit(&w)
	s.res.States, s.res.Took = len(s.seen), time.Since(began)
	return s.res
}

// visit reports whether the search goes on.
func (s *search) visit(w *world) bool {
	s.quiet(w)
	h := w.hash(&s.enc)
	if _, ok := s.seen[h]; ok {
		return true
	}
	s.seen[h] = struct{}{}
	if !s.deadline.IsZero() && len(s.seen)%1024 == 0 && time.Now().After(s.deadline) {
		s.res.Cut = true
		return false
	}
	if w.broken == "" && s.m.Fair > 0 && h%s.m.Fair == 0 && len(w.net) == 0 {
		if s.fair(*w); s.res.Broken != "" {
			return false
		}
	}
	if w.broken != "" {
		s.stop(w.broken)
		return false
	}
	return s.branch(w)
}

// quiet delivers messages to which nothing else can happen.
func (s *search) quiet(w *world) {
	for w.broken == "" && len(w.net) > 0 && !s.m.disturbs(w) {
		x := w.net[0]
		w.net = w.net[1:]
		s.m.deliver(w, x, none)
		s.m.settle(w)
		s.res.Steps++
		s.trace = append(s.trace, x.String()+" arrives")
	}
}

// branch visits what can follow a state.
func (s *search) branch(w *world) bool {
	depth := len(s.trace)
	for _, mv := range s.m.moves(w) {
		next := *w
		mv.do(&next)
		s.m.settle(&next)
		s.res.Steps++
		s.trace = append(s.trace, mv.text)
		if !s.visit(&next) {
			return false
		}
		s.trace = s.trace[:depth]
	}
	return true
}

func (s *search) stop(why string) {
	s.res.Broken = why
	s.res.Trace = append([]string(nil), s.trace...)
}

// start0 returns the first state.
func (m *model) start0() world {
	var w world
	w.left = m.Budget
	w.now = leap
	for i := range w.nodes {
		n := &w.nodes[i]
		n.id, n.rate, n.up = peer.ID([]byte{byte('A' + i)}), 5, true
		if r := m.Rates[i]; r != 0 {
			n.rate = r
		}
		n.unit = ownership.Unit{Name: unit, Self: n.self()}
		n.disk.unit = n.unit
	}
	for i := m.Peers; i < peers; i++ {
		w.nodes[i].up, w.nodes[i].gone = false, true
	}
	if m.Owned {
		m.startOwned(&w)
	}
	if m.Start != nil {
		m.Start(m, &w)
	}
	m.settle(&w)
	return w
}

// startOwned makes A the owner, by a claim that A and B have signed.
func (m *model) startOwned(w *world) {
	a := &w.nodes[0]
	claim := ownership.Lease{Unit: unit, Epoch: 1, Kind: ownership.Claim, Owner: a.self(),
		Witnesses: w.witnesses(0)}
	for _, i := range m.Replicas {
		claim.Replicas = append(claim.Replicas, w.nodes[i].id)
	}
	l, err := ownership.NewLease(claim)
	if err != nil {
		panic(err)
	}
	rec := ownership.Record{{Lease: l, Cert: ownership.Certificate{
		Ballot: ownership.Ballot{N: 1, By: "A"}, Near: true}}}
	for i := range ownership.Need(m.Peers) {
		rec[0].Cert.Signatures = append(rec[0].Cert.Signatures,
			ownership.Signature{By: w.nodes[i].self()})
	}
	w.dht[0], w.dht[1] = rec, rec
	w.successor = []succession{{next: l.ID(), owner: l.Owner}}
	w.served, a.disk.urls = 1, 1
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.gone {
			continue
		}
		n.unit.Record, n.unit.State = rec, ownership.None
		n.ledger = ownership.Ledger{Record: rec, Replicas: claim.Replicas}
		n.heard[0] = w.clock(i)
		n.quorum = ownership.Quorum{Lease: l.ID(), Since: w.clock(i)}
	}
	for _, i := range m.Replicas {
		n := &w.nodes[i]
		n.unit.State, n.unit.Copy, n.disk.urls = ownership.Replica, ownership.Complete, 1
		a.copied[i] = 1
	}
	a.unit.State, a.unit.Copy, a.unit.Replicas = ownership.Owned, ownership.Complete, claim.Replicas
	for _, x := range l.Witnesses {
		a.quorum.Acks = append(a.quorum.Acks, ownership.Ack{By: x, Sent: w.clock(0)})
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		n.disk.unit, n.disk.ledger = n.unit, n.ledger
	}
}

// fair continues a world without faults until the unit has an owner that all peers know.
func (s *search) fair(w world) {
	s.res.FairRuns++
	m := *s.m
	w.left = budget{Attempts: 100, Copies: 2}
	w.cut, w.net, w.late = [peers][peers]bool{}, nil, nil
	w.waived = true
	for p := range w.nodes {
		if n := &w.nodes[p]; !n.up && !n.gone {
			m.start(&w, p)
		}
	}
	if !slices.ContainsFunc(w.nodes[:], func(n node) bool { return n.up }) {
		return
	}
	m.Budget.Leaps = 1
	for round := range 60 {
		if round == 20 || round == 40 {
			m.leap(&w)
		} else {
			m.pass(&w)
		}
		m.drain(&w)
		for i := range w.nodes {
			m.serve(&w, (i+round)%peers, round)
		}
		if m.owned(&w) {
			return
		}
		if w.broken != "" {
			break
		}
	}
	if w.broken == "" {
		w.broken = "without faults the unit gets no owner that all know: " + w.states()
	}
	s.trace = append(s.trace, "no more faults")
	s.stop(w.broken)
}

// drain delivers all messages.
func (m *model) drain(w *world) {
	for n := 0; len(w.net) > 0 && n < 500; n++ {
		x := w.net[0]
		w.net = w.net[1:]
		m.deliver(w, x, none)
		m.settle(w)
	}
}

// serve gives a peer the events that its surroundings lead to.
func (m *model) serve(w *world, p, round int) {
	n := &w.nodes[p]
	if !n.up {
		return
	}
	for _, rec := range w.dht {
		m.step(w, p, ownership.Event{Kind: ownership.Seen, Record: rec}, none)
	}
	give := func(k ownership.EventKind, peer ownership.Member) {
		m.step(w, p, ownership.Event{Kind: k, Peer: peer}, none)
		m.settle(w)
		m.drain(w)
	}
	hears := m.hears(w, p)
	if k := m.next(w, p, round, hears); k != 0 {
		give(k, n.self())
	}
	if round > 20 && m.lost(w, p) && (!hears || n.unit.State == ownership.Suspended) {
		give(ownership.WitnessesLost, ownership.Member{})
	}
	if !m.owned(w) {
		give(ownership.Retried, ownership.Member{})
	}
	for i := range w.nodes {
		if x := &w.nodes[i]; !x.up {
			give(ownership.ReplicaLost, x.self())
		}
	}
}

// next returns the event by which a peer's state goes on, if there is one.
func (m *model) next(w *world, p, round int, hears bool) ownership.EventKind {
	u := w.nodes[p].unit
	switch u.State {
	case ownership.Deciding:
		return ownership.Decided
	case ownership.None:
		if u.Lease() == nil {
			return ownership.Wanted
		}
		fallthrough
	case ownership.Replica, ownership.Ceded:
		if !hears {
			return ownership.OwnerSilent
		}
	case ownership.Electing:
		if hears {
			return ownership.OwnerHeard
		}
	case ownership.Orphaned:
		if round > 20 {
			return ownership.OwnerLost
		}
	}
	return 0
}

// owned reports whether one peer may fetch, and all others that run know that.
func (m *model) owned(w *world) bool {
	owner := none
	for p := range w.nodes {
		n := &w.nodes[p]
		if n.up && m.rules.MayFetch(n.unit, n.quorum, w.clock(p)) {
			if owner != none {
				return false
			}
			owner = p
		}
	}
	if owner == none {
		return false
	}
	for p := range w.nodes {
		n := &w.nodes[p]
		if n.up && n.unit.Lease().ID() != w.nodes[owner].unit.Lease().ID() {
			return false
		}
	}
	return true
}

// states describes all peers.
func (w *world) states() (s string) {
	for p := range w.nodes {
		n := &w.nodes[p]
		s += fmt.Sprintf("%s: %v", string(n.id), n.unit)
		if l := n.unit.Lease(); l != nil {
			s += fmt.Sprintf(" under %s's epoch %d", string(l.Owner.ID), l.Epoch)
		}
		if !n.up {
			s += " (down)"
		}
		s += "; "
	}
	return s
}

// String describes a message.
func (x message) String() string {
	what := contents[x.what]
	switch x.what {
	case aRequest:
		what = topics[x.request.Topic]
	case aReply:
		what = fmt.Sprintf("answer to %s (%d)", topics[x.reply.Topic], x.reply.Refusal)
	}
	return fmt.Sprintf("%s from %c to %c", what, 'A'+x.from, 'A'+x.to)
}

var topics = []string{"", "heartbeat", "prepare", "sign"}
