package witness

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/internal/order"
	"peerd/overlay/lease"
)

// choose returns the peers that should be members now, sorted: those of the newest set
// that answer and were not struck, filled up with present peers by rendezvous hashing (Thaler and
// Ravishankar, 1998), so that witnesses are spread evenly and rarely change. Those that have been
// known for long come first, and as few as possible are of one network: these may end together.
// The number is even, because with the owner's vote an odd total wastes none; or one, in a network
// of two (lease.WitnessSet.Pair).
func (h *ownerState) choose(now time.Time, present []peer.ID) []peer.ID {
	var stay, more, young, last []peer.ID
	for _, id := range h.newest().Members {
		m := h.members[id]
		switch {
		case m == nil || clock.Elapsed(now, m.last()) > h.gone:
		case h.struck(now, id):
			last = append(last, id)
		default:
			stay = append(stay, id)
		}
	}
	for _, id := range present {
		switch {
		case id == h.self || h.newest().Has(id) || h.failedRecently(now, id):
		case h.struck(now, id):
			last = append(last, id)
		case !h.originOf(id).Old:
			young = append(young, id)
		default:
			more = append(more, id)
		}
	}
	for _, some := range [][]peer.ID{stay, more, young, last} {
		h.rank(some)
	}
	all := h.spread(slices.Concat(stay, slices.Compact(more)), slices.Compact(young),
		slices.Compact(last))
	if len(all) == 0 && h.newest().Pair() {
		return h.newest().Members // it may come back, and has no other witness in its place
	}
	n := min(len(all), h.size)
	if n > 1 || others(present, h.self) > 1 { // a third peer only does not answer
		n &^= 1
	}
	all = all[:n]
	slices.Sort(all)
	return all
}

// spread joins lists of peers, and moves those in each list back that are of the network of others
// before them: the first of each network come first, then the second ones, and so on. A peer of an
// unknown network is one by itself.
func (h *ownerState) spread(lists ...[]peer.ID) (all []peer.ID) {
	count := map[netip.Prefix]int{}
	turn := map[peer.ID]int{}
	for _, ids := range lists {
		for _, id := range ids {
			if p := h.originOf(id).Network; p.IsValid() {
				turn[id] = count[p]
				count[p]++
			}
		}
		order.SortStableFunc(ids, func(a, b peer.ID) int { return cmp.Compare(turn[a], turn[b]) })
		all = append(all, ids...)
	}
	return all
}

// originOf returns what is known of a peer that may become a witness.
func (h *ownerState) originOf(id peer.ID) Origin {
	if h.node == nil {
		return Origin{}
	}
	return h.node.Origin(id)
}

// others returns the number of peers without self.
func others(present []peer.ID, self peer.ID) int {
	if slices.Contains(present, self) {
		return len(present) - 1
	}
	return len(present)
}

// struckFor is how long a witness that was struck is chosen only if there is no other.
const struckFor = time.Hour

func (h *ownerState) struck(now time.Time, id peer.ID) bool {
	m := h.members[id]
	return m != nil && !m.struck.IsZero() && clock.Elapsed(now, m.struck) < struckFor
}

// failedRecently reports whether a peer that is not a member did not answer recently.
func (h *ownerState) failedRecently(now time.Time, id peer.ID) bool {
	m := h.members[id]
	return m != nil && clock.Elapsed(now, m.last()) > h.hold
}

// rank sorts peers by the hash of owner and peer.
func (h *ownerState) rank(ids []peer.ID) {
	scores := make(map[peer.ID][sha256.Size]byte, len(ids))
	owner := "peerd witness\x00" + string(h.self) + "\x00"
	for _, id := range ids {
		scores[id] = sha256.Sum256([]byte(owner + string(id)))
	}
	order.SortFunc(ids, func(a, b peer.ID) int {
		x, y := scores[a], scores[b]
		return cmp.Or(bytes.Compare(x[:], y[:]), cmp.Compare(a, b))
	})
}

// targets returns the peers to send heartbeats to: the members of all sets in force and
// those that should be members. Other peers are remembered for a time, only as peers
// that did not answer.
func (h *ownerState) targets(now time.Time, chosen []peer.ID) []peer.ID {
	var all []peer.ID
	for _, p := range h.sets {
		all = append(all, p.Members...)
	}
	all = append(all, chosen...)
	slices.Sort(all)
	all = slices.Compact(all)
	for _, id := range all {
		h.addMember(now, id)
	}
	for id, m := range h.members {
		if _, found := slices.BinarySearch(all, id); !found &&
			(!m.heard.IsZero() || clock.Elapsed(now, m.added) > 4*h.gone) && !h.struck(now, id) {
			delete(h.members, id)
		}
	}
	return all
}

// ready reports whether a set of chosen should be made now: it differs from the newest
// one; all its new members have answered just now, so that the quorum lease holds under
// it at once; and the quorum lease holds, or was lost so long ago that it does not matter.
func (h *ownerState) ready(now time.Time, chosen []peer.ID) bool {
	if slices.Equal(chosen, h.newest().Members) || len(h.sets) >= maxSets {
		return false
	}
	for _, id := range chosen {
		if m := h.members[id]; m == nil || m.sent.IsZero() || clock.Elapsed(now, m.sent) >= h.hold {
			return false
		}
	}
	ok, _ := h.quorumLease(now)
	return ok || !h.lostAt.IsZero() && clock.Elapsed(now, h.lostAt) > lease.LongSilence
}
