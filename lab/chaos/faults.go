package chaos

import (
	"net/netip"
	"time"

	"peerd/lab/emulate/web"
)

// Takeover describes what happened to the subnets of a peer that was killed or stopped.
type Takeover struct {
	Kind kind    `json:"kind"`
	Peer int     `json:"peer"`
	At   float64 `json:"at"`
	Down float64 `json:"down"` // seconds until it was started again or the run ended
	// Subnets is the number of subnets that it owned and that had pages left, without those that
	// were continued only after its next fault. Returned of them were continued by the same peer,
	// Taken of them by a new owner; the others got no request until the end.
	Subnets  int `json:"subnets"`
	Returned int `json:"returned"`
	Taken    int `json:"taken"`
	// MedianSeconds and MaxSeconds are the times from the fault to the first fetch by a new
	// owner. A later kill or start of that one, or of a peer that owned the subnet in between,
	// counts as the fault.
	MedianSeconds float64 `json:"median_seconds"`
	MaxSeconds    float64 `json:"max_seconds"`
	// ReturnMaxSeconds is the longest time from the restart to the first fetch in a returned
	// subnet.
	ReturnMaxSeconds float64 `json:"return_max_seconds"`
}

// takeover returns what happened to the subnets of a peer after a kill or a stop.
func (h *history) takeover(e event) Takeover {
	back := h.next(e, start, resume)
	t := Takeover{Kind: e.Kind, Peer: e.Peer, At: h.since(e.Begin), Down: seconds(back.Sub(e.End))}
	up := e
	up.End = back
	again := h.next(up, kill, lose, pause, leave)
	all, pages := h.bySubnet(), h.pages()
	var times, returns []float64
	for _, p := range h.ownedBy(e.Peer, e.Begin) {
		hits := all[p]
		if fetchedBefore(hits, e.Begin) >= pages[p] {
			continue
		}
		by, at := h.successor(p, hits, e)
		if at.After(again) {
			continue
		}
		t.Subnets++
		switch {
		case at.IsZero():
		case by == e.Peer:
			t.Returned++
			returns = append(returns, seconds(at.Sub(back)))
		default:
			t.Taken++
			times = append(times, seconds(at.Sub(h.ownerless(p, by, e, at))))
		}
	}
	t.MedianSeconds, t.MaxSeconds, t.ReturnMaxSeconds = median(times), most(times), most(returns)
	return t
}

// successor returns the first peer that fetched in a subnet after e while it owned the subnet,
// and the time of that fetch. Remote fetches for another owner and requests that had begun
// before e are ignored. The time is zero if there is no such peer.
func (h *history) successor(p netip.Prefix, hits []web.Hit, e event) (peer int, at time.Time) {
	for _, hit := range hits {
		by := peerOf(hit.Agent)
		if !hit.Start.After(e.End) || by < 0 {
			continue
		}
		if by == e.Peer || h.owned(by, p, e.End, hit.Start.Add(2*lookInterval)) {
			return by, hit.Start
		}
	}
	return -1, time.Time{}
}

// ownerless returns since when a peer could continue a subnet that e left without an owner, which
// it did at a time. Its own later kills and starts count, and those of peers that owned the subnet
// in between.
func (h *history) ownerless(p netip.Prefix, by int, e event, at time.Time) time.Time {
	since := e.End
	for _, o := range h.events {
		if o.Kind != kill && o.Kind != lose && o.Kind != start || o.End.Before(since) ||
			o.End.After(at) {
			continue
		}
		if o.Peer == by || o.Peer != e.Peer && h.owned(o.Peer, p, e.End, o.Begin) {
			since = o.End
		}
	}
	return since
}

// owned reports whether a peer reported a subnet as its own between from and to.
func (h *history) owned(peer int, p netip.Prefix, from, to time.Time) bool {
	for _, l := range h.looks {
		if l.at.Before(from) || l.at.After(to) {
			continue
		}
		for _, o := range l.owns[peer] {
			if o == p {
				return true
			}
		}
	}
	return false
}

// Cut describes the effects of a cut.
type Cut struct {
	At      float64 `json:"at"`
	Lasted  float64 `json:"lasted"`
	Pairs   int     `json:"pairs"`
	Doubled int     `json:"doubled"` // subnets with two owners because of it: see history.cause
	// OneOwnerSeconds is the time from the healing until none of these had two owners; 0 if none
	// had. It ends with the run at the latest.
	OneOwnerSeconds float64 `json:"one_owner_seconds"`
	// PagesA and PagesB are the pages fetched during the cut by the side of the first peer and
	// by the other side. Busy is the number of subnets that had pages left at the healing,
	// Served the number of these with a request during the cut.
	PagesA int `json:"pages_a"`
	PagesB int `json:"pages_b"`
	Busy   int `json:"busy"`
	Served int `json:"served"`
}

// cut returns the effects of the cut e until it was healed, and afterwards.
func (h *history) cut(e event) Cut {
	healed := h.next(e, heal)
	c := Cut{At: h.since(e.Begin), Lasted: seconds(healed.Sub(e.Begin)), Pairs: len(e.Pairs)}
	other := map[int]bool{} // side
	for _, p := range e.Pairs {
		if p.From == e.Pairs[0].From {
			other[p.To] = true
		}
	}
	doubled := map[netip.Prefix]bool{}
	for _, d := range h.doublings() {
		if cause, ok := h.cause(d); ok && cause.Cut == e.Cut {
			doubled[d.subnet] = true
			c.OneOwnerSeconds = max(c.OneOwnerSeconds, seconds(d.to.Sub(healed)))
		}
	}
	c.Doubled = len(doubled)
	pages := h.pages()
	for p, hits := range h.bySubnet() {
		busy, served := fetchedBefore(hits, healed) < pages[p], false
		for _, hit := range hits {
			if !hit.Page || hit.Start.Before(e.End) || hit.Start.After(healed) {
				continue
			}
			served = true
			if other[peerOf(hit.Agent)] {
				c.PagesB++
			} else {
				c.PagesA++
			}
		}
		if busy {
			c.Busy++
			if served {
				c.Served++
			}
		}
	}
	return c
}

// cause returns the cut to which a doubling is charged: the one that was healed last of those that
// had begun before. It returns false if there is none. Cuts that come later do not excuse it.
func (h *history) cause(d doubling) (last event, ok bool) {
	for _, e := range h.events {
		if e.Kind == cut && !e.Begin.After(d.from) &&
			(!ok || h.next(e, heal).After(h.next(last, heal))) {
			last, ok = e, true
		}
	}
	return last, ok
}

// Leave describes the effects of a peer's leaving.
type Leave struct {
	Peer int     `json:"peer"`
	At   float64 `json:"at"`
	Took float64 `json:"took"`
	// Subnets is the number of subnets that it owned and that had pages left after the
	// leave. Orphaned of them got no request until the end.
	Subnets  int `json:"subnets"`
	Orphaned int `json:"orphans"`
	// MedianIdleSeconds and MaxIdleSeconds describe the longest pause at each of the other
	// subnets, minus the politeness gap.
	MedianIdleSeconds float64 `json:"median_idle_seconds"`
	MaxIdleSeconds    float64 `json:"max_idle_seconds"`
}

// leave returns the effects of the leave e.
func (h *history) leave(e event) Leave {
	l := Leave{Peer: e.Peer, At: h.since(e.Begin), Took: seconds(e.End.Sub(e.Begin))}
	all, pages := h.bySubnet(), h.pages()
	var idle []float64
	for _, p := range h.ownedBy(e.Peer, e.Begin) {
		hits := all[p]
		if fetchedBefore(hits, e.End) >= pages[p] {
			continue
		}
		l.Subnets++
		longest, asked := pauses(hits, e.Begin, e.End)
		if !asked {
			l.Orphaned++
			continue
		}
		idle = append(idle, seconds(max(0, longest-h.gap)))
	}
	l.MedianIdleSeconds, l.MaxIdleSeconds = median(idle), most(idle)
	return l
}

// pauses returns the longest time without a request that overlaps the leave from begin to end,
// and whether a request started after it.
func pauses(hits []web.Hit, begin, end time.Time) (longest time.Duration, asked bool) {
	free := time.Time{} // since when no request is in progress
	for _, h := range hits {
		if !free.IsZero() && !free.After(end) && h.Start.After(begin) {
			longest = max(longest, h.Start.Sub(free))
		}
		if h.End.After(free) {
			free = h.End
		}
		asked = asked || h.Start.After(end)
	}
	return longest, asked
}

// Refetched counts the pages that were fetched again because a peer was lost for good.
type Refetched struct {
	Peer int `json:"peer"`
	// ArchivedThere are the pages that only the lost peer had fetched. InFlight are the pages
	// that it was fetching when it was killed or had fetched within the last 30 s. Again are
	// the pages of both that other peers fetched afterwards, Old those of Again that were older
	// than 30 s.
	ArchivedThere int `json:"archived_there"`
	InFlight      int `json:"in_flight"`
	Again         int `json:"again"`
	Old           int `json:"old"`
}

// replicaTime is the longest delay of a replica behind its owner.
const replicaTime = 30 * time.Second

// refetched counts the pages of a lost peer that other peers fetched again.
func (h *history) refetched(e event) Refetched {
	r := Refetched{Peer: e.Peer}
	there := map[string]web.Hit{}
	again := map[string]bool{}
	for _, hit := range h.hits {
		key, by := hit.Host+hit.Path, peerOf(hit.Agent)
		switch {
		case hit.Bare || hit.Site < 0:
		case by == e.Peer && hit.Start.Before(e.End):
			if hit.Page {
				r.ArchivedThere++
			}
			if hit.End.IsZero() || e.Begin.Sub(hit.End) < replicaTime {
				r.InFlight++
			}
			there[key] = hit
		case hit.Page && hit.Start.After(e.Begin):
			if old, fetched := there[key]; fetched && !again[key] {
				again[key] = true
				r.Again++
				if !old.End.IsZero() && e.Begin.Sub(old.End) >= replicaTime {
					r.Old++
				}
			}
		}
	}
	return r
}
