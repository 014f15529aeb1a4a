package witness

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/internal/order"
	"peerd/overlay/lease"
)

// maxSets is how many sets may be in force; no newer one is made while there are so many.
const maxSets = 4

// ownerState is the owner's part: which witnesses answered when, which witness sets are
// in force, and so whether the quorum lease holds. It has no clock and no lock, and
// does no I/O.
type ownerState struct {
	self    peer.ID
	size    int // wanted number of members
	hold    time.Duration
	gone    time.Duration
	sets    []sealedSet // in force, oldest first; the last one is published
	members map[peer.ID]*member
	lostAt  time.Time // when the quorum lease was lost; zero while it holds
	retired time.Time // when a set last ceased to be in force; zero: never
	node    Node      // nil: nothing is known of other peers
}

// sealedSet is a witness set and its sealed form.
type sealedSet struct {
	lease.WitnessSet
	sealed []byte
}

// member is the state of a witness, or of a peer that is to become one. Its times are of
// acknowledgements: a witness that is alive, but does not acknowledge, is of no use.
type member struct {
	added       time.Time // when it was added
	sent        time.Time // when the newest heartbeat was sent that counts
	heard       time.Time // when its last reply came
	known       uint64    // number of the newest own set that it has on disk
	expected    uint64    // number of a set that it had, or must have had before a restart
	countsFrom  time.Time // it has lost its disk: when it counts again; zero: it counts
	incarnation uint64    // of the witness
	struck      time.Time // when it was to be replaced; zero: not
	lastNotice  uint64    // last notice handled, in that incarnation
	voted       bool      // it has told of a vote since the leases were last read again
	told        time.Time // when it last told of a vote
}

func newOwnerState(self peer.ID, cfg Config, now time.Time, sets []sealedSet) *ownerState {
	h := &ownerState{self: self, size: cfg.Members, hold: cfg.Hold, gone: cfg.Gone,
		node: cfg.Node, members: map[peer.ID]*member{}, lostAt: now}
	for _, p := range sets {
		h.install(now, p)
		for _, id := range p.Members {
			h.members[id].expected = p.Seq
		}
	}
	return h
}

// newest returns the newest set, or a zero one.
func (h *ownerState) newest() sealedSet {
	if len(h.sets) == 0 {
		return sealedSet{}
	}
	return h.sets[len(h.sets)-1]
}

// install puts a set in force.
func (h *ownerState) install(now time.Time, p sealedSet) {
	h.sets = append(h.sets, p)
	for _, id := range p.Members {
		h.addMember(now, id)
	}
}

// addMember returns the member with that ID, added if need be.
func (h *ownerState) addMember(now time.Time, id peer.ID) *member {
	m := h.members[id]
	if m == nil {
		m = &member{added: now}
		h.members[id] = m
	}
	return m
}

// heartbeat returns the heartbeat to send to a witness now.
func (h *ownerState) heartbeat(id peer.ID) heartbeat {
	m := h.members[id]
	if m == nil {
		return heartbeat{}
	}
	b := heartbeat{Incarnation: m.incarnation, LastNotice: m.lastNotice}
	// Who must have the set is not sent it: its answer shows whether it has lost its disk.
	if p := h.newest(); max(m.known, m.expected) < p.Seq && (p.Has(id) || len(h.sets) > 1) {
		b.Set = p.sealed
	}
	return b
}

// onAck handles the acknowledgement of a heartbeat that was sent at sent, after its
// notices have been handled.
func (h *ownerState) onAck(now time.Time, id peer.ID, sent time.Time, a ack) {
	m := h.members[id]
	if m == nil {
		return
	}
	if m.incarnation != a.Incarnation {
		m.incarnation, m.lastNotice = a.Incarnation, 0
	}
	if n := len(a.Notices); n > 0 {
		m.lastNotice, m.voted, m.told = max(m.lastNotice, a.Notices[n-1].Num), true, now
	}
	m.heard = now
	if a.Known < m.expected { // it has lost its disk, and with it what it voted
		m.known, m.expected = a.Known, a.Known
		m.sent, m.countsFrom, m.struck = time.Time{}, now.Add(ReviveAfter), now
	}
	m.expected = max(m.expected, a.Known)
	if a.More {
		return // nothing counts before its last notice: it may have voted under older sets
	}
	if a.Known <= h.newest().Seq {
		m.known = max(m.known, a.Known)
	}
	if sent.After(m.sent) && m.countsFrom.IsZero() {
		m.sent = sent
	}
}

// recovered lets witnesses count again that have lost their disks, and reports whether their votes
// may have led to a takeover that is not known. What they voted before has been used by now, and
// its result is in the DHT: the caller has the leases read again. That is not so if the quorum
// lease holds by witnesses that have told of no vote since that was last done, because each
// takeover needs the vote of one of these. So a witness that says again and again that it has lost
// its disk changes nothing.
func (h *ownerState) recovered(now time.Time) (unsure bool) {
	var voters []peer.ID
	for id, m := range h.members {
		back := !m.countsFrom.IsZero() && !now.Before(m.countsFrom)
		if back {
			m.countsFrom, unsure = time.Time{}, true
		}
		if back || m.voted {
			voters = append(voters, id)
		}
	}
	if unsure {
		ok, _ := h.quorumLease(now, voters...)
		unsure = !ok
	}
	return unsure
}

// quorumLease reports whether this peer may act as owner, and until when if no witness
// answers any more; the zero time means without end. Each set in force has to agree. Some
// witnesses do not count; without any of a Pair there is no quorum.
func (h *ownerState) quorumLease(
	now time.Time, without ...peer.ID,
) (ok bool, until time.Time) {
	for _, p := range h.sets {
		keep := p.HoldQuorum()
		if p.Pair() && slices.Contains(without, p.Members[0]) {
			return false, time.Time{}
		}
		if p.Pair() && !h.mayBeAlone(now, p.Members[0]) {
			return false, time.Time{}
		}
		if keep == 0 {
			continue
		}
		var sent []time.Time
		for _, id := range p.Members {
			m := h.members[id]
			if m != nil && !m.sent.IsZero() && !slices.Contains(without, id) {
				sent = append(sent, m.sent)
			}
		}
		if len(sent) < keep {
			return false, time.Time{}
		}
		order.SortFunc(sent, func(a, b time.Time) int { return b.Compare(a) })
		if clock.Elapsed(now, sent[keep-1]) >= h.hold {
			return false, time.Time{}
		}
		if end := sent[keep-1].Add(h.hold); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return true, until
}

// reread takes in that all leases are read again before the quorum lease holds: what was voted so
// far will be known.
func (h *ownerState) reread() {
	for _, m := range h.members {
		m.voted = false
	}
}

// mayBeAlone reports whether the owner of a Pair may act without an acknowledgement. It may
// not just after a start, because its witness may have voted while it was away.
func (h *ownerState) mayBeAlone(now time.Time, id peer.ID) bool {
	m := h.members[id]
	return m != nil && (!m.sent.IsZero() || clock.Elapsed(now, m.added) >= AloneAfter)
}

// retireSets removes sets that can no longer produce a takeover, because so many of
// their members know a newer set that the others are too few. A member that has told of a vote
// is no such one as long as its vote may be used with those of the others. It reports whether
// members counted only because they were silent for lease.LongSilence.
func (h *ownerState) retireSets(now time.Time) (unsure bool) {
	if ok, _ := h.quorumLease(now); ok {
		h.lostAt = time.Time{}
	} else if h.lostAt.IsZero() {
		h.lostAt = now
	}
	var left []sealedSet
	for i, p := range h.sets {
		if i == len(h.sets)-1 {
			left = append(left, p)
			continue
		}
		know, lapsed := 0, 0
		for _, id := range p.Members {
			switch m := h.addMember(now, id); {
			case m.known > p.Seq && (m.told.IsZero() || clock.Elapsed(now, m.told) >= ReviveAfter):
				know++
			case clock.Elapsed(now, m.last()) > lease.LongSilence:
				lapsed++
			}
		}
		need := max(p.HoldQuorum(), min(len(p.Members), 1))
		switch {
		case know >= need:
		case know+lapsed >= need:
			unsure = true
		default:
			left = append(left, p)
			continue
		}
	}
	if len(left) < len(h.sets) {
		h.retired = now
	}
	h.sets = left
	return unsure
}

// last returns when m was last known to be running.
func (m *member) last() time.Time {
	if m.heard.After(m.added) {
		return m.heard
	}
	return m.added
}
