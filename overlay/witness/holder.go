package witness

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// maxPanels is how many panels may be in force at once before there is no newer.
const maxPanels = 4

// holder is the owner's half: it knows which witnesses answered when, which panels
// are in force, and so whether the right holds. It has no clock and no lock, and
// sends nothing.
type holder struct {
	self    peer.ID
	want    int // members
	hold    time.Duration
	gone    time.Duration
	panels  []held // in force, oldest first; the last is shown to others
	members map[peer.ID]*member
	lost    time.Time // since when there is no right; zero while there is
}

type held struct {
	lease.Panel
	sealed []byte
}

// member is what is known of a witness, or of a peer that is to become one.
type member struct {
	added time.Time // when it was first spoken to
	sent  time.Time // when the newest heartbeat was sent whose answer counts
	heard time.Time // when its last answer came
	known uint64    // the newest of our panels that it has on disk
	boot  uint64    // its life, and
	seen  uint64    // the last notice of it that we took
}

// span is the time from then to now by the clock that says more: the monotonic one
// stands still while a machine sleeps, the other may be set back.
func span(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

func newHolder(self peer.ID, cfg Config, now time.Time, panels []held) *holder {
	h := &holder{self: self, want: cfg.Members, hold: cfg.Hold, gone: cfg.Gone, members: map[peer.ID]*member{}, lost: now}
	for _, p := range panels {
		h.install(now, p)
	}
	return h
}

// newest is the panel that is shown; zero when there is none.
func (h *holder) newest() held {
	if len(h.panels) == 0 {
		return held{}
	}
	return h.panels[len(h.panels)-1]
}

// install puts p in force: from now on it may be shown.
func (h *holder) install(now time.Time, p held) {
	h.panels = append(h.panels, p)
	for _, id := range p.Members {
		h.meet(now, id)
	}
}

func (h *holder) meet(now time.Time, id peer.ID) *member {
	m := h.members[id]
	if m == nil {
		m = &member{added: now}
		h.members[id] = m
	}
	return m
}

// beat is what to send to a witness now.
func (h *holder) beat(id peer.ID) beat {
	m := h.members[id]
	if m == nil {
		return beat{}
	}
	b := beat{Boot: m.boot, Seen: m.seen}
	if p := h.newest(); m.known < p.Seq && (p.Has(id) || len(h.panels) > 1) {
		b.Panel = p.sealed
	}
	return b
}

// acked takes the answer to a heartbeat that was sent at sent. Its notices have
// been dealt with.
func (h *holder) acked(now time.Time, id peer.ID, sent time.Time, a ack) {
	m := h.members[id]
	if m == nil {
		return
	}
	if m.boot != a.Boot {
		m.boot, m.seen = a.Boot, 0
	}
	if n := len(a.Notices); n > 0 {
		m.seen = max(m.seen, a.Notices[n-1].Num)
	}
	m.heard = now
	if a.Known <= h.newest().Seq {
		m.known = max(m.known, a.Known)
	}
	if !a.More && sent.After(m.sent) {
		m.sent = sent
	}
}

// right says whether this peer may act as owner, and until when if nobody answers
// any more; the zero time is for ever. Each panel in force has to consent.
func (h *holder) right(now time.Time) (ok bool, until time.Time) {
	for _, p := range h.panels {
		keep := p.Keep()
		if keep == 0 {
			continue
		}
		var sent []time.Time
		for _, id := range p.Members {
			if m := h.members[id]; m != nil && !m.sent.IsZero() {
				sent = append(sent, m.sent)
			}
		}
		if len(sent) < keep {
			return false, time.Time{}
		}
		slices.SortFunc(sent, func(a, b time.Time) int { return b.Compare(a) })
		if span(now, sent[keep-1]) >= h.hold {
			return false, time.Time{}
		}
		if end := sent[keep-1].Add(h.hold); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return true, until
}

// settle takes panels out of force that nobody can be outvoted with any more: so
// many of its members know a newer one that the others are too few. changed tells
// whether there were any, doubt whether members counted that were merely silent
// for lease.LongSilence.
func (h *holder) settle(now time.Time) (changed, doubt bool) {
	if ok, _ := h.right(now); ok {
		h.lost = time.Time{}
	} else if h.lost.IsZero() {
		h.lost = now
	}
	var left []held
	for i, p := range h.panels {
		if i == len(h.panels)-1 {
			left = append(left, p)
			continue
		}
		know, lapsed := 0, 0
		for _, id := range p.Members {
			switch m := h.meet(now, id); {
			case m.known > p.Seq:
				know++
			case span(now, m.last()) > lease.LongSilence:
				lapsed++
			}
		}
		switch {
		case know >= p.Keep():
		case know+lapsed >= p.Keep():
			doubt = true
		default:
			left = append(left, p)
			continue
		}
		changed = true
	}
	h.panels = left
	return changed, doubt
}

// last is when m was last known to be there.
func (m *member) last() time.Time {
	if m.heard.After(m.added) {
		return m.heard
	}
	return m.added
}
