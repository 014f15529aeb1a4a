package witness

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// choose returns who should be the members now, sorted: those of the newest panel
// that answer, filled up from the present ones by rendezvous hashing (Thaler and
// Ravishankar, 1998), so that witnesses are spread evenly and seldom change. All
// of an even number, as an odd one of votes wastes none.
func (h *holder) choose(now time.Time, present []peer.ID) []peer.ID {
	var stay, more []peer.ID
	for _, id := range h.newest().Members {
		if m := h.members[id]; m != nil && span(now, m.last()) <= h.gone {
			stay = append(stay, id)
		}
	}
	for _, id := range present {
		if id != h.self && !h.newest().Has(id) && !h.shuns(now, id) {
			more = append(more, id)
		}
	}
	h.rank(stay)
	h.rank(more)
	all := append(stay, slices.Compact(more)...)
	n := min(len(all), h.want) &^ 1
	all = all[:n]
	slices.Sort(all)
	return all
}

// shuns reports whether a peer that is no member was tried in vain not long ago.
func (h *holder) shuns(now time.Time, id peer.ID) bool {
	m := h.members[id]
	return m != nil && span(now, m.last()) > h.hold
}

// rank sorts peers by the hash over owner and peer.
func (h *holder) rank(ids []peer.ID) {
	score := func(id peer.ID) []byte {
		s := sha256.Sum256([]byte("peerd witness\x00" + string(h.self) + "\x00" + string(id)))
		return s[:]
	}
	slices.SortFunc(ids, func(a, b peer.ID) int {
		return cmp.Or(bytes.Compare(score(a), score(b)), cmp.Compare(a, b))
	})
}

// targets returns whom to send heartbeats: the members of all panels in force,
// and those who should be. Of others it remembers for a while only that they did
// not answer.
func (h *holder) targets(now time.Time, chosen []peer.ID) []peer.ID {
	var all []peer.ID
	for _, p := range h.panels {
		all = append(all, p.Members...)
	}
	all = append(all, chosen...)
	slices.Sort(all)
	all = slices.Compact(all)
	for _, id := range all {
		h.meet(now, id)
	}
	for id, m := range h.members {
		if _, found := slices.BinarySearch(all, id); !found && (!m.heard.IsZero() || span(now, m.added) > 4*h.gone) {
			delete(h.members, id)
		}
	}
	return all
}

// ready reports whether a panel of chosen should be made now: it differs from the
// newest, everybody new in it has answered just now, so that the right holds under
// it at once, and the right is there, or gone for so long that nobody waits for it.
func (h *holder) ready(now time.Time, chosen []peer.ID) bool {
	if slices.Equal(chosen, h.newest().Members) || len(h.panels) >= maxPanels {
		return false
	}
	for _, id := range chosen {
		if m := h.members[id]; m == nil || m.sent.IsZero() || span(now, m.sent) >= h.hold {
			return false
		}
	}
	ok, _ := h.right(now)
	return ok || !h.lost.IsZero() && span(now, h.lost) > lease.LongSilence
}
