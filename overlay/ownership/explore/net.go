package explore

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
	"peerd/overlay/ownership/internal/rule"
)

// deliver gives a message to its receiver.
func (m *model) deliver(w *world, x message, crash int) (actions int) {
	n := &w.nodes[x.to]
	if !n.up {
		return 0
	}
	switch x.what {
	case aRequest:
		return m.answer(w, x, crash)
	case aReply:
		return m.replied(w, x, crash)
	case aCopy:
		m.copied(w, x)
		return 0
	case aFlush:
		if n.unit.State == ownership.Replica && n.unit.Copy == ownership.Complete {
			n.disk.urls |= x.urls
			w.send(message{from: x.to, to: x.from, what: aFlushed})
		}
		return 0
	case aCession:
		n.disk.urls |= x.urls
	case aCopied:
		if !n.unit.Owns() || n.unit.Lease().ID() != x.lease.ID() {
			return 0
		}
		n.copied[x.from] |= x.urls
	}
	return m.step(w, x.to, ownership.Event{Kind: arrivals[x.what], Peer: x.member,
		Record: x.record, Lease: x.lease}, crash)
}

// arrivals are the events by which units learn of messages.
var arrivals = map[content]ownership.EventKind{
	anOffer: ownership.Offered, aConsent: ownership.Accepted, aFlushed: ownership.Flushed,
	aCession: ownership.StateReceived, aConfirmation: ownership.Received,
	aRecord: ownership.Seen, aCopied: ownership.ReplicaReady,
}

// copied takes in what an owner has sent to a replica: first everything, in two
// pieces, then changes.
func (m *model) copied(w *world, x message) {
	n := &w.nodes[x.to]
	if x.record != nil {
		m.step(w, x.to, ownership.Event{Kind: ownership.CopyStarted, Record: x.record}, none)
	}
	if n.unit.State != ownership.Replica || n.unit.Lease().ID() != x.lease.ID() {
		return
	}
	if x.record != nil {
		w.send(message{from: x.from, to: x.to, what: aCopy, lease: x.lease, urls: x.urls,
			whole: true})
		return
	}
	n.disk.urls |= x.urls
	if x.whole {
		m.step(w, x.to, ownership.Event{Kind: ownership.CopyComplete}, none)
	}
	if n.unit.Copy == ownership.Complete {
		w.send(message{from: x.to, to: x.from, what: aCopied, lease: x.lease, urls: x.urls})
	}
}

// acknowledge notes the URLs that an owner may acknowledge now.
func (m *model) acknowledge(w *world, p int) {
	n := &w.nodes[p]
	for urls := data(1); urls <= n.disk.urls; urls <<= 1 {
		var on []peer.ID
		for i, have := range n.copied {
			if have&urls != 0 {
				on = append(on, w.nodes[i].id)
			}
		}
		if n.disk.urls&urls != 0 && m.rules.MayAcknowledge(n.unit, n.quorum, w.clock(p), on) {
			w.acked |= urls
		}
	}
}

// answer lets an elector answer. Its ledger is saved before the reply leaves.
func (m *model) answer(w *world, x message, crash int) (actions int) {
	n := &w.nodes[x.to]
	q := x.request
	q.From = x.member
	was := n.ledger
	owner := 0
	if l := q.Record.Newest(); l != nil {
		owner = index(l.Owner.ID)
	}
	next, re := m.rules.Answer(was, ownership.Hearing{
		Self: n.self(), Now: w.clock(x.to), Started: n.started, Heard: n.heard[owner],
		NewDisk: n.disk.fresh, Near: w.near,
	}, q)
	if a, b := was.Record.Newest(), next.Record.Newest(); a != nil && b.Epoch < a.Epoch {
		w.fail("the epoch that elector %v knows fell from %d", n, a.Epoch)
	}
	n.ledger = next
	if re.Refusal == ownership.Consented && q.Topic == ownership.Sign {
		w.sign(x.to, q)
	}
	if re.Refusal == ownership.Consented && q.Topic == ownership.Heartbeat {
		n.heard[owner] = w.clock(x.to)
	}
	save := func() { n.disk.ledger = next }
	reply := func() { w.send(message{from: x.to, to: x.from, what: aReply, reply: re}) }
	todo := []func(){save, reply}
	if m.Off.Has(rule.SignerSaves) {
		todo = []func(){reply, save}
	}
	for i, do := range todo {
		if i == crash {
			w.crash(x.to, false)
			break
		}
		do()
	}
	// A peer that learns of a lease as an elector knows it as a reader, too.
	if n.up && next.Record.Newest().ID() != was.Record.Newest().ID() {
		m.step(w, x.to, ownership.Event{Kind: ownership.Seen, Record: next.Record}, none)
	}
	return len(todo)
}

// replied handles a reply: first the unit, then the quorum.
func (m *model) replied(w *world, x message, crash int) (actions int) {
	re := x.reply
	re.By = x.member
	if re.Topic == ownership.Sign {
		re.By = x.reply.By
	}
	actions = m.step(w, x.to, ownership.Event{Kind: ownership.Answered, Reply: re}, crash)
	if n := &w.nodes[x.to]; n.up {
		n.quorum = m.rules.Count(n.quorum, re, w.clock(x.to))
	}
	return actions
}

// beat sends the heartbeats of all owners.
func (m *model) beat(w *world) {
	for p := range w.nodes {
		n := &w.nodes[p]
		u := n.unit
		switch {
		case !n.up || u.Lease() == nil || u.Lease().Owner.ID != n.id:
			continue
		case !u.Owns() && u.State == ownership.Orphaned: // it owns other units
		case u.State < ownership.Deciding || u.State > ownership.Suspended ||
			u.State == ownership.Ceded:
			continue
		}
		for _, x := range u.Lease().Witnesses {
			w.send(message{from: p, to: index(x.ID), what: aRequest, request: ownership.Request{
				Topic: ownership.Heartbeat, From: n.self(), Unit: unit, Record: u.Record,
				Sent: w.clock(p), Seq: u.Seq, Replicas: u.Replicas,
			}})
		}
	}
}

// settle gives the events that follow from the clocks at once, acknowledges what can be
// acknowledged, and checks the invariants.
func (m *model) settle(w *world) {
	for p := range w.nodes {
		n := &w.nodes[p]
		if !n.up || n.unit.Lease() == nil {
			continue
		}
		holds := m.rules.Holds(n.quorum, n.unit.Lease(), w.clock(p))
		switch st := n.unit.State; {
		case !holds && (st == ownership.Deciding || st == ownership.Owned || st ==
			ownership.HandingOver && n.unit.Ask.Phase < ownership.Preparing):
			m.step(w, p, ownership.Event{Kind: ownership.QuorumLost}, none)
		case holds && st == ownership.Suspended && n.unit.Reasons&ownership.NoQuorum != 0:
			m.step(w, p, ownership.Event{Kind: ownership.QuorumBack}, none)
		}
	}
	m.check(w)
}

// succeeded reports whether another peer's certificate ends the owner's lease.
func (w *world) succeeded(u ownership.Unit) bool {
	for _, s := range w.successor {
		if s.prev == u.Lease().ID() && s.owner != u.Self {
			return true
		}
	}
	return false
}

// check acknowledges URLs and checks the invariants that hold in every state.
func (m *model) check(w *world) {
	fetching := none
	for p := range w.nodes {
		n := &w.nodes[p]
		if !n.up || !m.rules.MayFetch(n.unit, n.quorum, w.clock(p)) {
			continue
		}
		if fetching != none && !w.waived {
			w.fail("%v and %v may fetch", &w.nodes[fetching], n)
		}
		fetching = p
		if w.succeeded(n.unit) && !w.waived {
			w.fail("%v may fetch although its successor has a certificate", n)
		}
		if w.acked&^n.disk.urls != 0 && !w.waived && !w.lost {
			w.fail("%v may fetch and lacks acknowledged URLs", n)
		}
		m.acknowledge(w, p)
	}
	if w.acked&^w.disks() != 0 {
		w.fail("acknowledged URLs are on no disk")
	}
}
