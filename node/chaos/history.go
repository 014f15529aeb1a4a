package main

import (
	"net/netip"
	"slices"
	"time"

	"peerd/node/emulate/web"
)

// An event is a step that was taken, or a crash.
type event struct {
	step
	Begin, End time.Time // End is later for what takes time: a leave
	Said       string    // by the program, or what went wrong
}

// A look is what the peers said at one time of what they own.
type look struct {
	at    time.Time
	owns  map[int][]netip.Prefix // of each peer that answered
	left  int64                  // URLs that are still to be dealt with, over all of these
	asked int                    // how many should have answered
}

// A history is all that happened in a run.
type history struct {
	peers      int
	gap        time.Duration
	begin, end time.Time
	events     []event
	looks      []look
	sites      []web.Site
	hits       []web.Hit // by their start
	audit      web.Audit
	missing    []string // of all pages, those that nobody fetched
	outcome    string   // why the run ended: quiet, stalled or late
	held       []string // what is left then, unless it is quiet
}

// subnet is that of a site's address.
func subnet(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, 24).Masked() }

// bySubnet sorts the requests, in order.
func (h *history) bySubnet() map[netip.Prefix][]web.Hit {
	all := map[netip.Prefix][]web.Hit{}
	for _, hit := range h.hits {
		if !hit.Bare {
			all[subnet(hit.Addr)] = append(all[subnet(hit.Addr)], hit)
		}
	}
	return all
}

// pages counts the pages of each subnet.
func (h *history) pages() map[netip.Prefix]int {
	all := map[netip.Prefix]int{}
	for _, s := range h.sites {
		all[subnet(s.Addrs[0])] += s.Pages
	}
	return all
}

// fetchedBefore counts the pages among hits that were whole at a time.
func fetchedBefore(hits []web.Hit, at time.Time) int {
	seen := map[string]bool{}
	for _, h := range hits {
		if h.Page && h.End.Before(at) {
			seen[h.Host+h.Path] = true
		}
	}
	return len(seen)
}

// ownedBy returns what a peer said last, before a time, that it owned.
func (h *history) ownedBy(peer int, at time.Time) []netip.Prefix {
	for i := len(h.looks) - 1; i >= 0; i-- {
		if l := h.looks[i]; l.at.Before(at) {
			if list, answered := l.owns[peer]; answered {
				return list
			}
		}
	}
	return nil
}

// next returns when the next event of a kind, of the same peer or cut, began
// after e; the end of the run if none.
func (h *history) next(e event, kinds ...kind) time.Time {
	for _, o := range h.events {
		if slices.Contains(kinds, o.Kind) && o.Peer == e.Peer && o.Cut == e.Cut && !o.Begin.Before(e.End) {
			return o.Begin
		}
	}
	return h.end
}

// nearest names the event that was nearest to a time.
func (h *history) nearest(at time.Time) (e event, far time.Duration) {
	far = time.Duration(1<<63 - 1)
	for _, o := range h.events {
		d := max(o.Begin.Sub(at), at.Sub(o.End), 0)
		if d < far {
			e, far = o, d
		}
	}
	return e, far
}
