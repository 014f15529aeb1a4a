package witness

import (
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/ownership"
)

type exVotes = map[peer.ID]map[netip.Prefix]storedVote

// isAnswer reports whether a message ends with the process that waits for it.
func (x exMessage) isAnswer() bool {
	switch x.what {
	case exAck, exVoted, exPulseReply, exPrepared, exDone, exUnready:
		return true
	}
	return false
}

// deliver gives a message to its receiver, which crashes where it has to save something if crash
// is set. It reports whether the receiver saved something.
func (m *exModel) deliver(w *exWorld, x exMessage, crash bool) (saves bool) {
	y := &w.peers[x.to]
	if !y.up || x.isAnswer() && x.run != y.runs {
		return false
	}
	now := w.clock(x.to)
	y.heard[x.from] = now
	answer := func(z exMessage) {
		z.from, z.to, z.stamp, z.run = x.to, x.from, x.stamp, x.run
		w.send(z)
	}
	switch x.what {
	case exHeartbeat:
		if a, err := y.witness.onHeartbeat(now, m.ids[x.from], netip.Prefix{}, x.beat); err == nil {
			y.disk.sets[x.from] = a.Known > 0
			answer(exMessage{what: exAck, ack: a})
		}
	case exAck:
		return m.acknowledged(w, x, crash)
	case exAsk:
		return m.asked(w, x, crash)
	case exVoted:
		m.voted(w, x)
	case exRelease:
		y.witness.release(m.ids[x.from], x.lease.Owner, m.proposals(x.lease), x.attempt)
		m.saveVotes(w, x.to)
	case exPulse:
		m.pulsed(w, x, answer)
	case exPulseReply:
		r := &y.replicas[x.from]
		if y.unit.State != ownership.None && r.chosen && y.lease.Digest() == x.lease.Digest() {
			r.well, r.replied = now, x.got
			r.has |= x.urls
			r.synced = r.synced || x.granted
		}
	case exOffer:
		answer(m.offered(w, x))
	case exPrepared:
		return m.prepared(w, x, crash)
	case exUnready:
		m.step(w, x.to, ownership.Event{Kind: ownership.Failed}, false)
	case exCommit:
		return m.committed(w, x, crash, answer)
	case exDone:
		if y.unit.State != ownership.None {
			m.gone(w, x.to, x.lease)
		}
	}
	return false
}

// acknowledged is Service.sendHeartbeat: what witnesses have voted is noted before the
// acknowledgement counts.
func (m *exModel) acknowledged(w *exWorld, x exMessage, crash bool) (saves bool) {
	y := &w.peers[x.to]
	now := w.clock(x.to)
	for _, n := range x.ack.Notices {
		if !m.on(exNoticesFirst) || y.unit.State == ownership.None ||
			y.unit.State >= ownership.Granted || y.lease.Epoch >= n.Epoch {
			continue
		}
		votes, what := y.votes.Told(y.unit, m.ids[x.from], now, false, m.tooFew(w, x.to))
		y.votes = votes
		switch what {
		case ownership.Outvoted:
			saves = m.step(w, x.to, ownership.Event{Kind: what, At: now}, crash)
		case ownership.Renewed:
			y.renewAt = now
		}
		if !y.up {
			return true
		}
	}
	sent := x.stamp
	if !m.on(exFromSending) {
		sent = now
	}
	y.owner.onAck(now, m.ids[x.from], sent, x.ack)
	if w := y.owner.members[m.ids[x.from]]; !w.countsFrom.IsZero() && !m.on(exForgetfulWaits) {
		w.countsFrom, w.sent = time.Time{}, sent
	}
	return saves
}

func (m *exModel) proposals(ended lease.Lease) []proposal {
	return []proposal{{Subnet: exSubnet, Epoch: ended.Epoch + 1, Ended: ended.Digest()}}
}

// ballot lets a witness vote for a candidate.
func (m *exModel) ballot(w *exWorld, by, to int, ended lease.Lease, attempt uint64) bool {
	y := &w.peers[by]
	set := m.sets[m.index(ended.Owner)]
	if watched := y.witness.watched[ended.Owner]; watched != nil && !m.on(exOneVote) {
		delete(watched.votes, exSubnet)
	}
	status, granted, _ := y.witness.vote(w.clock(by), m.ids[to], set.WitnessSet, set.sealed,
		m.proposals(ended), attempt)
	return status == statusVoted && granted[0]
}

// asked lets a witness answer a candidate: its vote is on disk before it is sent.
func (m *exModel) asked(w *exWorld, x exMessage, crash bool) (saves bool) {
	granted := m.ballot(w, x.to, x.from, x.lease, x.attempt)
	answer := func() {
		w.send(exMessage{from: x.to, to: x.from, what: exVoted, granted: granted,
			attempt: x.attempt, run: x.run})
	}
	if !granted {
		answer()
		return false
	}
	if m.on(exVoteSaved) {
		m.saveVotes(w, x.to)
		if crash {
			m.crash(w, x.to, false)
			return true
		}
		answer()
		return true
	}
	answer()
	if crash {
		m.crash(w, x.to, false)
		return true
	}
	m.saveVotes(w, x.to)
	return true
}

// saveVotes writes down the votes of a witness.
func (m *exModel) saveVotes(w *exWorld, p int) {
	x := &w.peers[p]
	for q := range w.peers {
		x.disk.votes[q] = nil
		if s := x.witness.watched[m.ids[q]]; s != nil {
			for k, v := range s.votes {
				is := storedVote{v.epoch, v.to, v.since.UnixMilli()}
				x.disk.votes[q] = map[netip.Prefix]storedVote{k: is}
			}
		}
	}
}

// voted counts a witness's answer.
func (m *exModel) voted(w *exWorld, x exMessage) {
	y := &w.peers[x.to]
	v := y.vote
	switch {
	case v == nil || v.attempt != x.attempt || v.won:
	case !x.granted:
		m.release(w, x.to)
	case !slices.Contains(v.by, m.ids[x.from]):
		v.by = append(v.by, m.ids[x.from])
		need := m.sets[v.owner].TakeoverQuorum()
		if !m.on(exVoteQuorum) {
			need = 1
		}
		v.won = len(v.by) >= need
	}
}

// release ends a peer's attempt to take over.
func (m *exModel) release(w *exWorld, p int) {
	x := &w.peers[p]
	v := x.vote
	x.vote = nil
	if v.won { // the votes may be in use
		return
	}
	for q := range w.peers {
		switch {
		case q == p && v.owner != p:
			x.witness.release(m.ids[p], m.ids[v.owner], m.proposals(v.ended), v.attempt)
			m.saveVotes(w, p)
		case q != p && q != v.owner:
			w.send(exMessage{from: p, to: q, what: exRelease, lease: v.ended, attempt: v.attempt})
		}
	}
}

// pulsed lets a replica receive what its owner has.
func (m *exModel) pulsed(w *exWorld, x exMessage, answer func(exMessage)) {
	y := &w.peers[x.to]
	if y.unit.State != ownership.None {
		return
	}
	m.learn(w, x.to, x.lease)
	if y.known.Digest() != x.lease.Digest() {
		return // it has another owner
	}
	now := w.clock(x.to)
	c := &y.copy
	begins := c.of.Digest() != x.lease.Digest()
	switch {
	case begins && c.held() && x.urls&^y.disk.urls == 0: // the log goes on
		*c = exCopy{of: x.lease, complete: true}
	case begins:
		*c = exCopy{of: x.lease}
	default:
		c.complete = true
	}
	if x.got.After(c.confirmed) {
		c.confirmed = x.got
	}
	c.replied = now
	var has exData
	if c.complete || !m.on(exWholeCopy) {
		y.disk.urls |= x.urls
		has = x.urls
	}
	y.disk.copy = *c
	answer(exMessage{what: exPulseReply, lease: x.lease, got: now, urls: has, granted: c.complete})
}

// offered lets a peer answer the offer of a subnet.
func (m *exModel) offered(w *exWorld, x exMessage) exMessage {
	y := &w.peers[x.to]
	m.learn(w, x.to, x.lease)
	switch {
	case y.unit.State != ownership.None && y.lease.Epoch > x.lease.Epoch:
		return exMessage{what: exDone, lease: y.lease}
	case y.unit.State != ownership.None:
		m.beaten(w, x.to, y.known)
	case y.known.Epoch > x.lease.Epoch:
		return exMessage{what: exDone, lease: y.known}
	case m.ready(w, x):
		return exMessage{what: exPrepared, lease: x.lease, urls: x.urls}
	}
	return exMessage{what: exUnready}
}

// ready reports whether a peer's copy is what the owner has offered.
func (m *exModel) ready(w *exWorld, x exMessage) bool {
	y := &w.peers[x.to]
	return y.unit.State == ownership.None && y.known.Digest() == x.lease.Digest() &&
		y.copy.of.Digest() == x.lease.Digest() && y.copy.complete &&
		(x.urls&^y.disk.urls == 0 || !m.on(exFlushed))
}

// prepared signs the grant for a successor that is ready.
func (m *exModel) prepared(w *exWorld, x exMessage, crash bool) (saves bool) {
	y := &w.peers[x.to]
	if y.unit.State != ownership.Closed && y.unit.State != ownership.Granted ||
		m.to(y) != x.from || y.lease.Digest() != x.lease.Digest() {
		return false
	}
	quorum, _ := m.quorum(w, x.to)
	saves = m.step(w, x.to, ownership.Event{Kind: ownership.Granting, Quorum: quorum}, crash)
	if y.up && y.unit.State == ownership.Granted {
		w.send(exMessage{from: x.to, to: x.from, what: exCommit, lease: y.lease, urls: x.urls})
	}
	return saves
}

// committed makes a peer the owner by a grant, on the disk before it answers.
func (m *exModel) committed(
	w *exWorld, x exMessage, crash bool, answer func(exMessage),
) (saves bool) {
	y := &w.peers[x.to]
	if !m.ready(w, x) {
		return false
	}
	if x.urls&^y.disk.urls != 0 {
		w.fail("%c lacks URLs after a handover", 'A'+x.to)
	}
	l := x.lease.Next(m.ids[x.to])
	l.Grant, l.Issued = []byte{1}, w.clock(x.to)
	m.own(w, x.to, l, ownership.Event{Kind: ownership.Arrived, Decided: true})
	if y.unit.State == ownership.None {
		return false
	}
	now := w.clock(x.to)
	if m.on(exFormerOwner) {
		y.replicas[x.from] = exReplica{chosen: true, synced: true, well: now, has: x.urls,
			until: now.Add(exLost)}
	}
	m.save(w, x.to)
	if crash {
		m.crash(w, x.to, false)
		return true
	}
	answer(exMessage{what: exDone, lease: l})
	return true
}

// silent reports whether a peer has not heard another one for a time, since its start at least.
func (m *exModel) silent(w *exWorld, p, q int, d time.Duration) bool {
	x := &w.peers[p]
	at := x.started
	if x.heard[q].After(at) {
		at = x.heard[q]
	}
	return w.clock(p).Sub(at) > d
}

// candidate reports whether a peer may try to take the subnet over.
func (m *exModel) candidate(w *exWorld, p int) bool {
	x := &w.peers[p]
	switch {
	case !x.up || x.vote != nil:
		return false
	case x.unit.State == ownership.Granted:
		q, _ := m.quorum(w, p)
		return q && m.silent(w, p, m.to(x), exOrphan)
	}
	return x.unit.State == ownership.None && x.copy.held() &&
		(x.copy.complete || !m.on(exWholeCopy)) &&
		(m.silent(w, p, m.index(x.copy.of.Owner), exSilence) || m.resumes(w, p))
}

// resumes reports whether a takeover by a peer has broken off: others send it URLs, because its
// lease is in the DHT.
func (m *exModel) resumes(w *exWorld, p int) bool {
	for q := range w.peers {
		r := w.peers[q].disk.record
		if w.reaches(p, q) && r.Owner == m.ids[p] && r.Epoch > w.peers[p].copy.of.Epoch {
			return true
		}
	}
	return false
}

// attemptTakeover asks for votes, unless the subnet has another owner than the copy tells.
func (m *exModel) attemptTakeover(w *exWorld, p int) {
	x := &w.peers[p]
	ended := x.copy.of
	best := m.get(w, p)
	if x.unit.State == ownership.Granted {
		ended = x.lease.Next(m.ids[m.to(x)])
		ended.Grant = []byte{1}
		if best.Owner != m.ids[p] {
			return
		}
	} else {
		if best.Owner == m.ids[p] && best.Epoch > ended.Epoch { // an attempt that broke off
			m.own(w, p, best, ownership.Event{Kind: ownership.Arrived, Decided: true})
			return
		}
		if best.Digest() != ended.Digest() && m.on(exReadsFirst) ||
			!m.silent(w, p, m.index(ended.Owner), exSilence) {
			return
		}
		owner := m.index(ended.Owner)
		heard := x.heard[owner]
		if x.told[owner].After(heard) {
			heard = x.told[owner]
		}
		ranOn, known := ownership.RanOn(x.copy.confirmed, heard, x.started, x.awake)
		if (!known || ranOn > exLost) && m.on(exRanOn) {
			return
		}
	}
	x.attempt++
	v := &exVote{attempt: x.attempt, owner: m.index(ended.Owner), ended: ended,
		until: w.clock(p).Add(VoteWindow)}
	x.vote = v
	for q := range w.peers {
		switch q {
		case v.owner:
		case p:
			if !m.ballot(w, p, p, ended, v.attempt) {
				m.release(w, p)
				return
			}
			m.saveVotes(w, p)
			v.by = append(v.by, m.ids[p])
			v.won = !m.on(exVoteQuorum)
		default:
			w.send(exMessage{from: p, to: q, what: exAsk, lease: ended, attempt: v.attempt})
		}
	}
}

// lookup reads the lease before that of a takeover is written.
func (m *exModel) lookup(w *exWorld, p int) {
	x := &w.peers[p]
	x.vote.read = true
	if best := m.get(w, p); best.Epoch > x.vote.ended.Epoch {
		x.vote = nil
	}
}

// publish writes the lease of a takeover to the DHT, then the subnet to the disk.
func (m *exModel) publish(w *exWorld, p int, crash bool) {
	x := &w.peers[p]
	v := x.vote
	x.vote = nil
	l := v.ended.Next(m.ids[p])
	l.Takeover, l.Issued = &lease.Takeover{}, w.clock(p)
	m.put(w, p, l)
	if crash {
		m.crash(w, p, false)
		return
	}
	if x.unit.State == ownership.Granted {
		m.learn(w, p, l)
		if x.known.Digest() == l.Digest() {
			x.lease = l
			m.step(w, p, ownership.Event{Kind: ownership.Reclaimed}, false)
		}
		return
	}
	m.own(w, p, l, ownership.Event{Kind: ownership.Arrived, Decided: true})
}
