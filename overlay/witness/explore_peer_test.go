package witness

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/lease"
	"peerd/overlay/ownership"
)

// exModel is one exploration: the scenario, the names of the peers, and which rule is off.
type exModel struct {
	exNames
	exScenario
	off exRule
	cfg Config
}

func (m *exModel) on(r exRule) bool { return m.off != r }

// judge returns the judge of a peer with what that has seen.
func (m *exModel) judge(w *exWorld, p int) *lease.Judge {
	now := w.clock(p)
	j := lease.NewJudge(clock.Of(func() time.Time { return now }), nil)
	for _, s := range w.peers[p].seen {
		j.See(s.step, s.at)
	}
	return j
}

// learn gives a lease to what a peer remembers.
func (m *exModel) learn(w *exWorld, p int, l lease.Lease) {
	x := &w.peers[p]
	if l.Epoch == 0 || x.known.Epoch > 0 && !m.judge(w, p).Replaces(x.known, l) {
		return
	}
	if l.Epoch < x.known.Epoch {
		w.fail("the epoch that %c knows fell from %d to %d", 'A'+p, x.known.Epoch, l.Epoch)
	}
	x.known = l
	if !slices.ContainsFunc(x.seen, func(s exSeen) bool { return s.step.Digest() == l.Digest() }) {
		x.seen = append(x.seen, exSeen{l, w.clock(p)})
	}
}

func (w *exWorld) reaches(p, q int) bool {
	return w.peers[q].up && !w.cut[p][q] && !w.cut[q][p]
}

// get reads the lease from the record holders that a peer reaches.
func (m *exModel) get(w *exWorld, p int) lease.Lease {
	for q := range w.peers {
		if w.reaches(p, q) {
			m.learn(w, p, w.peers[q].disk.record)
		}
	}
	return w.peers[p].known
}

// put writes a lease to the record holders that a peer reaches.
func (m *exModel) put(w *exWorld, p int, l lease.Lease) {
	for q := range w.peers {
		if x := &w.peers[q]; w.reaches(p, q) && (x.disk.record.Epoch == 0 ||
			m.judge(w, q).Replaces(x.disk.record, l)) {
			x.disk.record = l
		}
	}
}

// quorum reports whether a peer has the quorum lease without some witnesses.
func (m *exModel) quorum(w *exWorld, p int, without ...peer.ID) (bool, time.Time) {
	if !m.on(exQuorumLease) {
		return true, time.Time{}
	}
	return w.peers[p].owner.quorumLease(w.clock(p), without...)
}

// mayFetch reports whether a peer may fetch from the subnet.
func (m *exModel) mayFetch(w *exWorld, p int) bool {
	x := &w.peers[p]
	ok, _ := m.quorum(w, p)
	works := x.unit.Works() || !m.on(exGrantStops) && x.unit.State == ownership.Granted
	return x.up && works && ok
}

// tooFew is leases.tooFew of package owner.
func (m *exModel) tooFew(w *exWorld, p int) func(ownership.Votes) bool {
	return func(vs ownership.Votes) bool {
		ok, until := m.quorum(w, p, vs.By()...)
		return !ok || until.Sub(w.clock(p)) <= 2*time.Second
	}
}

// step gives an event to a peer's unit and does its actions; the peer crashes before the first
// one that is a Save if crash is set.
func (m *exModel) step(w *exWorld, p int, e ownership.Event, crash bool) (saves bool) {
	x := &w.peers[p]
	was := x.unit
	e.Revive = ReviveAfter
	next, acts := m.mutated(was, e)
	if !ownership.Listed(was.State, e.Kind, next.State) {
		w.fail("the table has no way from %v by %v to %v", was.State, e.Kind, next.State)
	}
	x.unit = next
	for _, a := range acts {
		switch a {
		case ownership.Save:
			saves = true
			if crash {
				m.crash(w, p, false)
				return true
			}
			m.save(w, p)
		case ownership.Renew:
			x.renewAt = w.clock(p)
		case ownership.Recheck:
			x.renewAt = next.VotedAt.Add(ReviveAfter)
		}
	}
	return saves
}

// mutated is Unit.Step, but for the rule that is off.
func (m *exModel) mutated(
	u ownership.Unit, e ownership.Event,
) (ownership.Unit, []ownership.Action) {
	doubt := u.Doubt
	switch {
	case e.Kind == ownership.Granting && !m.on(exGrantWithoutDoubt):
		u.Doubt = 0
	case e.Kind == ownership.Granting && !m.on(exGrantWithQuorum):
		e.Quorum = true
	case e.Kind == ownership.Beaten && !m.on(exYield), e.Kind == ownership.Outvoted &&
		!m.on(exVotesStop):
		return u, nil
	case e.Kind == ownership.Renewed && !m.on(exReviveWaits):
		e.Revive = 0
	case e.Kind == ownership.Loaded && !m.on(exDoubtSaved):
		e.Saved.Doubt = 0
	}
	next, acts := u.Step(e)
	if e.Kind == ownership.Granting {
		next.Doubt = doubt
	}
	if e.Kind == ownership.Granting && !m.on(exGrantSaved) ||
		e.Kind == ownership.Outvoted && !m.on(exVoteNoted) {
		acts = slices.DeleteFunc(acts, func(a ownership.Action) bool { return a == ownership.Save })
	}
	return next, acts
}

// save writes the unit down as package owner does.
func (m *exModel) save(w *exWorld, p int) {
	x := &w.peers[p]
	u := ownership.Unit{State: ownership.Deciding, Decided: x.unit.Decided}
	switch {
	case x.unit.State == ownership.None:
		u.State = ownership.None
	case x.unit.State == ownership.Granted && m.on(exGrantKept):
		u.State, u.To = ownership.Granted, x.unit.To
	case x.unit.Decided:
		u.State = ownership.Owned
	}
	if u.State != ownership.None && (x.unit.Doubt != 0 || x.unit.State == ownership.Yielding) {
		u.Doubt = ownership.Stale
	}
	x.disk.unit, x.disk.lease, x.disk.copy = u, x.lease, x.copy
	for i, r := range x.replicas {
		x.disk.replicas[i] = r.chosen
	}
}

// own makes the subnet a peer's by a lease of its own; urls are on its disk.
func (m *exModel) own(w *exWorld, p int, l lease.Lease, e ownership.Event) {
	x := &w.peers[p]
	m.learn(w, p, l)
	if x.known.Digest() != l.Digest() {
		return // there is a better one
	}
	x.lease, x.since, x.copied, x.votes = l, w.clock(p), time.Time{}, nil
	x.copy, x.replicas = exCopy{}, [exPeers]exReplica{}
	x.renewAt = w.clock(p)
	m.step(w, p, e, false)
	m.save(w, p)
}

// crash stops a peer, and deletes its disk if that is lost.
func (m *exModel) crash(w *exWorld, p int, lost bool) {
	x := &w.peers[p]
	d := x.disk
	if lost {
		d = exDisk{fresh: true}
	}
	*x = exPeer{rate: x.rate, runs: x.runs, attempt: x.attempt, disk: d}
	w.acked &= w.disks()
}

// start starts a peer that has crashed.
func (m *exModel) start(w *exWorld, p int) {
	x := &w.peers[p]
	now := w.clock(p)
	x.up, x.started, x.awake = true, now, x.disk.awake
	x.runs++
	x.owner = newOwnerState(m.ids[p], m.cfg, now, []sealedSet{m.sets[p]})
	stored := storedState{sets: map[peer.ID]sealedSet{}, votes: x.votesOnDisk(&m.exNames)}
	for q, known := range x.disk.sets {
		if known {
			stored.sets[m.ids[q]] = m.sets[q]
		}
	}
	x.witness = newWitnessState(m.ids[p], m.cfg, now, x.runs, x.disk.fresh && m.on(exFreshWaits))
	if !m.on(exRestartPromise) {
		x.witness.votesFrom = now
	}
	stored.restore(x.witness, now)
	x.disk.fresh = false
	x.lease, x.copy, x.since = x.disk.lease, x.disk.copy, now
	for q, chosen := range x.disk.replicas {
		x.replicas[q] = exReplica{chosen: chosen, well: now}
		if chosen {
			x.copied = now
		}
	}
	if x.disk.unit.State != ownership.None {
		m.learn(w, p, x.lease)
		m.step(w, p, ownership.Event{Kind: ownership.Loaded, Saved: x.disk.unit}, false)
		x.renewAt = now
	} else if x.copy.held() {
		m.learn(w, p, x.copy.of)
	}
}

func (x *exPeer) votesOnDisk(n *exNames) exVotes {
	all := exVotes{}
	for q, votes := range x.disk.votes {
		if len(votes) > 0 {
			all[n.ids[q]] = votes
		}
	}
	return all
}

// tick lets 5 s pass.
func (m *exModel) tick(w *exWorld) {
	w.ticks++
	for p := range w.peers {
		if w.peers[p].up {
			m.tickPeer(w, p)
		}
	}
	for p := range w.peers {
		if w.peers[p].up {
			m.beat(w, p)
		}
	}
	m.gossip(w)
}

// gossip tells each peer when those that it reaches have heard the others.
func (m *exModel) gossip(w *exWorld) {
	for p := range w.peers {
		for q := range w.peers {
			if x, y := &w.peers[p], &w.peers[q]; x.up && p != q && w.reaches(p, q) {
				for r, at := range y.heard {
					if at = w.clock(p).Add(at.Sub(w.clock(q))); at.After(x.told[r]) {
						x.told[r] = at
					}
				}
			}
		}
	}
}

// tickPeer does what follows from a peer's clock.
func (m *exModel) tickPeer(w *exWorld, p int) {
	x := &w.peers[p]
	now := w.clock(p)
	x.witness.expire(now)
	if x.owner.recovered(now) && m.on(exForgetfulReread) {
		x.owner.reread()
		m.step(w, p, ownership.Event{Kind: ownership.Suspected}, false)
	}
	if v := x.vote; v != nil && now.After(v.until) && m.on(exWindow) {
		m.release(w, p)
	}
	if now.Sub(x.started) >= exLost {
		x.disk.awake = now
	}
	if x.copy.held() {
		x.disk.copy.confirmed = x.copy.confirmed
	}
	if x.unit.State == ownership.None {
		return
	}
	if !m.on(exVotesKept) {
		x.votes = x.votes.Since(now.Add(-VoteLife))
	}
	votes, what := x.votes.Recounted(x.unit, now, VoteLife, ReviveAfter, m.tooFew(w, p),
		x.owner.retired)
	x.votes = votes
	if what != 0 {
		m.step(w, p, ownership.Event{Kind: what, At: now}, false)
	}
	m.maintain(w, p)
	m.depart(w, p)
}

// renews reports whether a peer's lease is due for renewal.
func (m *exModel) renews(w *exWorld, p int) bool {
	x := &w.peers[p]
	return x.up && x.unit.State != ownership.None && !x.renewAt.IsZero() &&
		!x.renewAt.After(w.clock(p)) && !x.unit.Leaves()
}

// renew reads the lease, and writes it again unless there is a better one.
func (m *exModel) renew(w *exWorld, p int) {
	x := &w.peers[p]
	x.renewAt = time.Time{}
	began := w.clock(p)
	if m.beaten(w, p, m.get(w, p)) {
		return
	}
	m.put(w, p, x.lease)
	doubted := x.unit.Doubt&ownership.VotedAway != 0
	m.step(w, p, ownership.Event{Kind: ownership.Renewed, At: began}, false)
	if doubted && x.unit.Doubt&ownership.VotedAway == 0 {
		x.votes = nil
	}
}

// beaten yields the subnet if a lease is better than a peer's.
func (m *exModel) beaten(w *exWorld, p int, by lease.Lease) bool {
	x := &w.peers[p]
	if x.unit.State == ownership.None || by.Owner == m.ids[p] || by.Epoch == 0 ||
		!m.judge(w, p).Replaces(x.lease, by) {
		return false
	}
	m.step(w, p, ownership.Event{Kind: ownership.Beaten}, false)
	return x.unit.State == ownership.Yielding
}

// maintain looks after the replicas of a peer's subnet. One is enough.
func (m *exModel) maintain(w *exWorld, p int) {
	x := &w.peers[p]
	now := w.clock(p)
	lost, chosen := exLost, false
	if !m.on(exLostWaits) {
		lost = 0
	}
	for q := range x.replicas {
		r := &x.replicas[q]
		if !r.chosen {
			continue
		}
		if now.Sub(r.well) > lost {
			*r = exReplica{}
			x.shunned[q] = now.Add(time.Minute)
			m.save(w, p)
			continue
		}
		if !r.until.IsZero() && now.After(r.until) && r.replied.IsZero() {
			r.synced = false
		}
		if r.synced {
			x.copied = now
		}
		chosen = true
	}
	if chosen || !x.unit.Works() {
		return
	}
	for i := 1; i < exPeers; i++ {
		q := (p + i) % exPeers
		if now.Sub(x.heard[q]) < exSilence && x.heard[q].After(x.started) &&
			now.After(x.shunned[q]) {
			x.replicas[q] = exReplica{chosen: true, well: now}
			m.save(w, p)
			return
		}
	}
}

// depart goes on with a subnet that is on its way to another peer.
func (m *exModel) depart(w *exWorld, p int) {
	x := &w.peers[p]
	switch x.unit.State {
	case ownership.Copying:
		if r := x.replicas[m.to(x)]; r.synced {
			m.step(w, p, ownership.Event{Kind: ownership.Ready}, false)
			m.offer(w, p)
		} else if !r.chosen {
			m.step(w, p, ownership.Event{Kind: ownership.Failed}, false)
		}
	case ownership.Closed: // the offer was not answered
		m.step(w, p, ownership.Event{Kind: ownership.Failed}, false)
	case ownership.Granted:
		if l := m.get(w, p); l.Owner != m.ids[p] {
			m.gone(w, p, l)
			return
		}
		m.offer(w, p)
	case ownership.Yielding:
		x.disk.outbox |= x.disk.urls
		m.leave(w, p, ownership.Event{Kind: ownership.Left})
	}
}

// to returns the successor of a peer's subnet.
func (m *exModel) to(x *exPeer) int { return strings.IndexByte("ABC", x.unit.To[0]) }

func (m *exModel) offer(w *exWorld, p int) {
	x := &w.peers[p]
	q := m.to(x)
	w.send(exMessage{from: p, to: q, what: exPulse, lease: x.lease, urls: x.disk.urls,
		stamp: w.clock(p), got: x.replicas[q].replied})
	w.send(exMessage{from: p, to: q, what: exOffer, lease: x.lease, urls: x.disk.urls})
}

// gone ends a handover: another peer owns the subnet by the lease.
func (m *exModel) gone(w *exWorld, p int, l lease.Lease) {
	x := &w.peers[p]
	m.learn(w, p, l)
	best := x.known
	switch {
	case x.unit.State == ownership.None || best.Owner == m.ids[p] ||
		!m.judge(w, p).Replaces(x.lease, best):
		return
	case x.unit.State == ownership.Granted && l.Epoch == x.lease.Epoch+1 &&
		l.Owner == m.ids[m.to(x)]:
		now := w.clock(p)
		x.copy = exCopy{of: l, complete: true, confirmed: now, replied: now}
		m.leave(w, p, ownership.Event{Kind: ownership.Taken})
		return
	}
	m.step(w, p, ownership.Event{Kind: ownership.Elsewhere}, false)
	m.step(w, p, ownership.Event{Kind: ownership.Beaten}, false)
}

// leave removes the subnet from a peer.
func (m *exModel) leave(w *exWorld, p int, e ownership.Event) {
	x := &w.peers[p]
	m.step(w, p, e, false)
	if e.Kind == ownership.Left {
		x.disk.urls, x.copy = 0, exCopy{}
	}
	x.replicas, x.votes, x.lease = [exPeers]exReplica{}, nil, lease.Lease{}
	m.save(w, p)
}

// beat sends a peer's heartbeats. Those of a peer that owns nothing arrive at once, if they do.
func (m *exModel) beat(w *exWorld, p int) {
	x := &w.peers[p]
	now := w.clock(p)
	for q := range w.peers {
		if q == p {
			continue
		}
		b := x.owner.heartbeat(m.ids[q])
		if x.unit.State != ownership.None {
			w.send(exMessage{from: p, to: q, what: exHeartbeat, stamp: now, beat: b})
			if r := x.replicas[q]; r.chosen {
				w.send(exMessage{from: p, to: q, what: exPulse, lease: x.lease, urls: x.disk.urls,
					stamp: now, got: r.replied})
			}
			continue
		}
		if !w.reaches(p, q) {
			continue
		}
		y := &w.peers[q]
		y.heard[p] = w.clock(q)
		if a, err := y.witness.onHeartbeat(w.clock(q), m.ids[p], netip.Prefix{}, b); err == nil {
			y.disk.sets[p] = a.Known > 0
			x.owner.onAck(now, m.ids[q], now, a)
			x.heard[q] = now
		}
	}
	if x.disk.outbox != 0 {
		m.deliverOutbox(w, p)
	}
}

// deliverOutbox gives URLs that a peer found, or had, to the owner.
func (m *exModel) deliverOutbox(w *exWorld, p int) {
	x := &w.peers[p]
	for q := range w.peers {
		if q != p && w.reaches(p, q) && m.mayFetch(w, q) {
			w.peers[q].disk.urls |= x.disk.outbox
			x.disk.outbox = 0
		}
	}
}
