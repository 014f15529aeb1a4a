package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
)

const (
	peers = 4 // at most
	none  = -1
	tick  = 5 * time.Second // by the fastest clock
	leap  = 2 * ownership.LostAfter
	unit  = "192.0.2.0/24"
)

// data is a set of URLs.
type data uint8

// A node is a peer: what is in its memory, and what is on its disk.
type node struct {
	id    peer.ID
	store uint64
	up    bool
	gone  bool // it never comes back
	rate  int  // seconds that its clock shows per tick: 4 or 5

	unit    ownership.Unit
	ledger  ownership.Ledger
	quorum  ownership.Quorum
	started time.Duration
	heard   [peers]time.Duration
	copied  [peers]data // what the owner knows to be at its replicas

	disk struct {
		unit   ownership.Unit
		ledger ownership.Ledger
		urls   data
		fresh  bool // since the disk was lost
	}
}

// String returns the letter by which traces name the peer.
func (n *node) String() string { return string(n.id) }

func (n *node) self() ownership.Member { return ownership.Member{ID: n.id, Store: n.store} }

// A message is on its way from one peer to another.
type message struct {
	from, to int
	what     content
	request  ownership.Request
	reply    ownership.Reply
	record   ownership.Record
	lease    *ownership.Lease
	urls     data
	whole    bool             // the copy is complete with urls
	member   ownership.Member // the sender
}

type content uint8

const (
	aRequest content = iota
	aReply
	anOffer
	aConsent
	aFlush
	aFlushed
	aCession
	aConfirmation
	aRecord
	aCopy // of everything, or of what is new
	aCopied
)

var contents = []string{"request", "reply", "offer", "consent", "flush", "flushed", "cession",
	"confirmation", "record", "copy", "copied"}

// A world is one state of the model. Slices in it are never changed.
type world struct {
	nodes [peers]node
	net   []message // on their way, in the order of delivery
	late  []message // delayed: they arrive at any time, or never
	dht   [2]ownership.Record
	cut   [peers][peers]bool // messages that are lost
	cutAt time.Duration
	now   time.Duration // by a clock that is as fast as the fastest

	left budget

	// What no peer knows.
	acked  data
	served data // URLs that exist
	// waived: both peers of a network of two may act now, or the peers nearest to a key
	// replaced the witnesses.
	waived bool
	// lost: a unit was recreated without its copies, which come back later or never.
	lost      bool
	successor []succession
	signed    []signature
	broken    string // the first invariant that does not hold
}

// A succession is a lease that has a certificate.
type succession struct {
	prev, next ownership.Digest
	owner      ownership.Member
}

// A signature is what an elector has really signed.
type signature struct {
	by     int
	lease  ownership.Digest
	ballot ownership.Ballot
}

// budget bounds what happens in a run.
type budget struct {
	Faults, Ticks, Leaps, Writes, Moves, Copies, Attempts, Claims, Lies, Renewals int8
}

// clock returns the time by a peer's clock.
func (w *world) clock(p int) time.Duration {
	return time.Duration(int(w.now/tick)*w.nodes[p].rate) * time.Second
}

// index returns the number of a peer.
func index(id peer.ID) int { return int(id[0] - 'A') }

// near lists all peers that are not gone: the directory forgets those after a while.
func (w *world) near(string) (all []ownership.Member) {
	for i := range w.nodes {
		if n := &w.nodes[i]; !n.gone {
			all = append(all, n.self())
		}
	}
	return all
}

// witnesses returns the witness set for leases of p: all other peers.
func (w *world) witnesses(p int) (set []ownership.Member) {
	for i := range w.nodes {
		if n := &w.nodes[i]; i != p && !n.gone {
			set = append(set, n.self())
		}
	}
	return set
}

// send puts a message on its way, unless the link is cut.
func (w *world) send(m message) {
	if m.from != m.to && w.cut[m.from][m.to] {
		return
	}
	m.member = w.nodes[m.from].self()
	w.net = append(slices.Clip(w.net), m)
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// A model has the rules and bounds of one exploration.
type model struct {
	Scenario
	rules ownership.Rules
}

// step gives an event to a peer's unit and does what follows. The peer crashes after so
// many actions if crash is not negative.
func (m *model) step(w *world, p int, e ownership.Event, crash int) (actions int) {
	n := &w.nodes[p]
	if !n.up {
		return 0
	}
	e.Near, e.Set = w.near, w.witnesses(p)
	was := n.unit
	next, acts := m.rules.Step(was, e)
	if !ownership.Listed(was.State, e.Kind, next.State) {
		w.fail("the table has no way from %v by %v to %v", was.State, e.Kind, next.State)
	}
	if was.Lease() != nil && next.Lease().Epoch < was.Lease().Epoch {
		w.fail("the epoch of %v fell from %d", n, was.Lease().Epoch)
	}
	n.unit = next
	if was.Lease().ID() != next.Lease().ID() {
		n.quorum = ownership.Quorum{Lease: next.Lease().ID(), Since: w.clock(p)}
		n.copied = [peers]data{}
		w.lost = w.lost || next.Lease().Kind == ownership.Recreate
		if m.Budget.Lies > 0 {
			m.genuine(w, n, next.Record)
		}
	}
	for i, a := range acts {
		if i == crash {
			w.crash(p, false)
			return len(acts)
		}
		m.act(w, p, was, a)
	}
	return len(acts)
}

// sign notes a signature. A certificate exists when a majority has signed at one ballot, even
// if no peer has put it together; a lease must not have two successors.
func (w *world) sign(by int, q ownership.Request) {
	x := signature{by, q.Lease.ID(), q.Ballot}
	if slices.Contains(w.signed, x) {
		return
	}
	w.signed = append(slices.Clip(w.signed), x)
	have, electors := 0, len(w.near(""))
	for _, y := range w.signed {
		if y.lease == x.lease && y.ballot == x.ballot {
			have++
		}
	}
	if l := q.Record.Newest(); l != nil && !q.Near {
		electors = max(1, len(l.Witnesses))
	}
	if have < ownership.Need(electors) {
		return
	}
	s := succession{q.Lease.Prev, x.lease, q.Lease.Owner}
	i := slices.IndexFunc(w.successor, func(x succession) bool { return x.prev == s.prev })
	switch {
	case i < 0:
		w.successor = append(slices.Clip(w.successor), s)
	case w.successor[i] != s && !w.waived:
		w.fail("two certificates for epoch %d", q.Lease.Epoch)
	}
}

// genuine checks that a majority really signed the lease that a peer has accepted. The liar
// may have signed anything.
func (m *model) genuine(w *world, n *node, rec ownership.Record) {
	l := rec.Newest()
	for _, link := range rec {
		if link.Lease.ID() != l.Prev {
			continue
		}
		have := 0
		for _, e := range link.Lease.Witnesses {
			i := index(e.ID)
			if i == m.Liar || slices.ContainsFunc(w.signed, func(x signature) bool {
				return x.by == i && x.lease == l.ID()
			}) {
				have++
			}
		}
		if have >= ownership.Need(len(link.Lease.Witnesses)) {
			return
		}
	}
	w.fail("%v believes a lease that no majority has signed", n)
}

// sent are the messages of actions.
var sent = map[ownership.ActionKind]content{
	ownership.Send: aRequest, ownership.Offer: anOffer, ownership.Accept: aConsent,
	ownership.FlushTo: aFlush, ownership.CedeTo: aCession, ownership.Confirm: aConfirmation,
	ownership.Inform: aRecord,
}

// act does one action.
func (m *model) act(w *world, p int, was ownership.Unit, a ownership.Action) {
	n := &w.nodes[p]
	if what, ok := sent[a.Kind]; ok {
		var urls data
		if what == aFlush || what == aCession {
			urls = n.disk.urls
		}
		for _, x := range a.To {
			w.send(message{from: p, to: index(x.ID), what: what, request: a.Request,
				record: a.Record, lease: a.Lease, urls: urls})
		}
	}
	switch a.Kind {
	case ownership.Save:
		n.disk.unit = n.unit
	case ownership.Publish:
		w.publish(m, p, a.Record)
	case ownership.Adopt:
		if n.disk.unit.Lease().ID() != n.unit.Lease().ID() {
			w.fail("%v adopts a lease that is not on its disk", n)
		}
		w.handedOver(p)
	case ownership.Drop:
		if was.State != ownership.Replica {
			w.dropped(p, n.unit)
		}
		n.disk.urls = 0
	}
}

// handedOver checks that a handover lost nothing, also of what was not acknowledged.
func (w *world) handedOver(p int) {
	u := w.nodes[p].unit
	if n := len(u.Record); n > 1 && u.Lease().Kind == ownership.Handover {
		before := u.Record[n-2].Lease.Owner
		x := &w.nodes[index(before.ID)]
		if x.store == before.Store && x.disk.urls&^w.nodes[p].disk.urls != 0 &&
			x.disk.unit.State != ownership.None {
			w.fail("%v lacks URLs of %v after a handover", &w.nodes[p], x)
		}
	}
}

// dropped checks that the successor had what is deleted.
func (w *world) dropped(p int, u ownership.Unit) {
	for i := range w.nodes {
		x := &w.nodes[i]
		l := x.disk.unit.Lease()
		if i != p && l != nil && l.Epoch >= u.Lease().Epoch && x.disk.unit.Copy ==
			ownership.Complete && w.nodes[p].disk.urls&^x.disk.urls == 0 &&
			x.disk.unit.State != ownership.Replica {
			return
		}
	}
	w.fail("%v deleted its state before its successor had it", &w.nodes[p])
}

// reaches reports whether a peer reaches a replica of the DHT: replica 0 is on the side of a
// peer that is cut off, replica 1 on the side of the others.
func (w *world) reaches(p, replica int) bool {
	if w.cut == [peers][peers]bool{} {
		return true
	}
	links := 0
	for i := range w.nodes {
		if w.cut[p][i] || w.cut[i][p] {
			links++
		}
	}
	return (replica == 0) == (links > 1 || w.nodes[2].gone && p == 0)
}

func (w *world) publish(m *model, p int, rec ownership.Record) {
	for i := range w.dht {
		if w.reaches(p, i) {
			w.put(m, i, rec)
		}
	}
}

func (w *world) put(m *model, replica int, rec ownership.Record) {
	if m.rules.Read(w.dht[replica].Newest(), rec, w.near) != ownership.Unrelated {
		w.dht[replica] = rec
	}
}

// crash stops a peer, and deletes its disk if it is lost.
func (w *world) crash(p int, lost bool) {
	n := &w.nodes[p]
	n.up = false
	n.quorum, n.heard, n.copied = ownership.Quorum{}, [peers]time.Duration{}, [peers]data{}
	if lost {
		n.store++
		n.disk.unit = ownership.Unit{Name: unit, Self: n.self()}
		n.disk.ledger, n.disk.urls, n.disk.fresh = ownership.Ledger{}, 0, true
		w.acked &= w.disks()
	}
	n.unit, n.ledger = n.disk.unit, n.disk.ledger
}

// disks returns what is on any disk or on its way.
func (w *world) disks() (all data) {
	for i := range w.nodes {
		all |= w.nodes[i].disk.urls
	}
	return all
}

// start starts a peer that has crashed.
func (m *model) start(w *world, p int) {
	n := &w.nodes[p]
	n.up, n.started = true, w.clock(p)
	n.unit.Self = n.self()
	n.quorum = ownership.Quorum{Lease: n.unit.Lease().ID(), Since: w.clock(p)}
	m.step(w, p, ownership.Event{Kind: ownership.Restarted}, none)
}
