package main

import (
	"net/netip"
	"time"

	"peerd/node/emulate/web"
)

// Takeover says what became of the subnets of a peer that was killed or stopped.
type Takeover struct {
	Kind kind    `json:"kind"`
	Peer int     `json:"peer"`
	At   float64 `json:"at"`
	Down float64 `json:"down"` // until it was started again, or the run ended
	// Subnets are those that it owned and that had pages left. Each was Returned
	// to, by the same peer, or Taken by another one that then called it its own;
	// what is in neither was asked for nothing until the end.
	Subnets  int `json:"subnets"`
	Returned int `json:"returned"`
	Taken    int `json:"taken"`
	// From the fault to the first fetch of a new owner.
	MedianSeconds float64 `json:"median_seconds"`
	MaxSeconds    float64 `json:"max_seconds"`
	// ReturnMaxSeconds is the same of those returned to, from the new start.
	ReturnMaxSeconds float64 `json:"return_max_seconds"`
}

// takeover follows the subnets of a peer after a kill or a stop.
func (h *history) takeover(e event) Takeover {
	back := h.next(e, start, resume)
	t := Takeover{Kind: e.Kind, Peer: e.Peer, At: h.since(e.Begin), Down: seconds(back.Sub(e.End))}
	all, pages := h.bySubnet(), h.pages()
	var times, returns []float64
	for _, p := range h.ownedBy(e.Peer, e.Begin) {
		hits := all[p]
		if fetchedBefore(hits, e.Begin) >= pages[p] {
			continue
		}
		t.Subnets++
		by, at := h.successor(p, hits, e)
		switch {
		case at.IsZero():
		case by == e.Peer:
			t.Returned++
			returns = append(returns, seconds(at.Sub(back)))
		default:
			t.Taken++
			times = append(times, seconds(at.Sub(e.End)))
		}
	}
	t.MedianSeconds, t.MaxSeconds, t.ReturnMaxSeconds = median(times), most(times), most(returns)
	return t
}

// successor returns the first peer that fetched in a subnet after an event and
// owned it then, and when: fetches at an owner's request do not count, and
// neither do those that were under way. A zero time means nobody did.
func (h *history) successor(p netip.Prefix, hits []web.Hit, e event) (peer int, at time.Time) {
	for _, hit := range hits {
		by := peerOf(hit.Agent)
		if !hit.Start.After(e.End) || by < 0 {
			continue
		}
		if by == e.Peer || h.owned(by, p, e.End, hit.Start.Add(2*lookEvery)) {
			return by, hit.Start
		}
	}
	return -1, time.Time{}
}

// owned says whether a peer called a subnet its own in a time.
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

// Cut says how a cut went.
type Cut struct {
	At      float64 `json:"at"`
	Lasted  float64 `json:"lasted"`
	Pairs   int     `json:"pairs"`
	Doubled int     `json:"doubled"` // subnets with two owners, during it or after
	// OneOwnerSeconds is how long after the healing a subnet still had two owners;
	// 0 if none had. Until the next cut of many, or the end.
	OneOwnerSeconds float64 `json:"one_owner_seconds"`
	// PagesA and PagesB were fetched during it by the first peer's side and by the
	// others; Busy subnets had pages left then, and of these Served were asked.
	PagesA int `json:"pages_a"`
	PagesB int `json:"pages_b"`
	Busy   int `json:"busy"`
	Served int `json:"served"`
}

// cut follows a cut to its healing and beyond.
func (h *history) cut(e event) Cut {
	healed := h.next(e, heal)
	c := Cut{At: h.since(e.Begin), Lasted: seconds(healed.Sub(e.Begin)), Pairs: len(e.Pairs)}
	other := map[int]bool{} // side
	for _, p := range e.Pairs {
		if p.From == e.Pairs[0].From {
			other[p.To] = true
		}
	}
	c.Doubled = h.twice(e.Begin, h.end)
	for _, l := range h.looks {
		if l.at.After(healed) && h.twice(l.at, l.at.Add(2*lookEvery)) > 0 {
			c.OneOwnerSeconds = seconds(l.at.Sub(healed))
		}
	}
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

// twice counts subnets that two peers called their own in two looks in a row.
func (h *history) twice(from, to time.Time) (n int) {
	for _, looks := range h.doubles(from, to) {
		if looks > 1 {
			n++
		}
	}
	return n
}

// Leave says how a peer's leaving went.
type Leave struct {
	Peer int     `json:"peer"`
	At   float64 `json:"at"`
	Took float64 `json:"took"`
	// Subnets are those that it owned and that had pages left when it was over,
	// Orphans of them were asked for nothing afterwards by another peer.
	Subnets int `json:"subnets"`
	Orphans int `json:"orphans"`
	// The longest pause at each of the others beyond the gap that it demands.
	MedianIdleSeconds float64 `json:"median_idle_seconds"`
	MaxIdleSeconds    float64 `json:"max_idle_seconds"`
}

// leave looks at the pauses around a leave.
func (h *history) leave(e event) Leave {
	l := Leave{Peer: e.Peer, At: h.since(e.Begin), Took: seconds(e.End.Sub(e.Begin))}
	until := h.next(e, start)
	all, pages := h.bySubnet(), h.pages()
	var idle []float64
	for _, p := range h.ownedBy(e.Peer, e.Begin) {
		hits := all[p]
		if fetchedBefore(hits, e.End) >= pages[p] {
			continue
		}
		l.Subnets++
		longest, asked := pauses(hits, e.Begin, e.End, until)
		if !asked {
			l.Orphans++
			continue
		}
		idle = append(idle, seconds(max(0, longest-h.gap)))
	}
	l.MedianIdleSeconds, l.MaxIdleSeconds = median(idle), most(idle)
	return l
}

// pauses returns the longest time without a request that began before a leave's
// end or ended after its begin, and whether there was a request between its end
// and until.
func pauses(hits []web.Hit, begin, end, until time.Time) (longest time.Duration, asked bool) {
	free := time.Time{} // since when nothing is under way
	for _, h := range hits {
		if !free.IsZero() && !free.After(end) && h.Start.After(begin) {
			longest = max(longest, h.Start.Sub(free))
		}
		if h.End.After(free) {
			free = h.End
		}
		asked = asked || h.Start.After(end) && h.Start.Before(until)
	}
	return longest, asked
}

// Refetched says what was fetched again because a peer was lost for good.
type Refetched struct {
	Peer int `json:"peer"`
	// ArchivedThere are the pages that only it had fetched; InFlight what was on
	// its way there when it was killed, or at most 30 s old; Again those of both
	// that others fetched afterwards, and Old those of Again that were older.
	ArchivedThere int `json:"archived_there"`
	InFlight      int `json:"in_flight"`
	Again         int `json:"again"`
	Old           int `json:"old"`
}

// shadowTime is what a shadow may be behind.
const shadowTime = 30 * time.Second

// refetched looks for pages of a lost peer that came again.
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
			if hit.End.IsZero() || e.Begin.Sub(hit.End) < shadowTime {
				r.InFlight++
			}
			there[key] = hit
		case hit.Page && hit.Start.After(e.Begin):
			if old, fetched := there[key]; fetched && !again[key] {
				again[key] = true
				r.Again++
				if !old.End.IsZero() && e.Begin.Sub(old.End) >= shadowTime {
					r.Old++
				}
			}
		}
	}
	return r
}
