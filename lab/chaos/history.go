package chaos

import (
	"net/netip"
	"slices"
	"time"

	"peerd/lab/emulate/web"
)

// An event is an executed step, or a crash.
type event struct {
	step
	Begin, End time.Time // differ for steps that take time, such as a leave
	Output     string    // of the program, or an error
}

// A look is what the peers reported at one time.
type look struct {
	at    time.Time
	owns  map[int][]netip.Prefix // by peer, if it answered
	left  int64                  // URLs without a final result at these peers
	asked int                    // number of peers that were asked
}

// A history is the record of a run.
type history struct {
	peers      int
	gap        time.Duration
	begin, end time.Time
	events     []event
	looks      []look
	sites      []web.Site
	hits       []web.Hit // sorted by Start
	audit      web.Audit
	missing    []string // pages that no peer fetched
	outcome    string   // quiet, stalled, late or interrupted
	held       []string // URLs left at the end, unless outcome is quiet
}

// subnet returns the subnet of a site's address.
func subnet(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, 24).Masked() }

// bySubnet groups the requests by subnet, each group in their order.
func (h *history) bySubnet() map[netip.Prefix][]web.Hit {
	all := map[netip.Prefix][]web.Hit{}
	for _, hit := range h.hits {
		if !hit.Bare {
			all[subnet(hit.Addr)] = append(all[subnet(hit.Addr)], hit)
		}
	}
	return all
}

// pages returns the number of pages of each subnet.
func (h *history) pages() map[netip.Prefix]int {
	all := map[netip.Prefix]int{}
	for _, s := range h.sites {
		all[subnet(s.Addrs[0])] += s.Pages
	}
	return all
}

// fetchedBefore returns the number of different pages in hits that were complete before at.
func fetchedBefore(hits []web.Hit, at time.Time) int {
	seen := map[string]bool{}
	for _, h := range hits {
		if h.Page && h.End.Before(at) {
			seen[h.Host+h.Path] = true
		}
	}
	return len(seen)
}

// ownedBy returns the subnets that a peer last reported as its own before at.
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

// next returns when the next event of the given kinds, of the same peer or cut, began after e,
// or the end of the run.
func (h *history) next(e event, kinds ...kind) time.Time {
	for _, o := range h.events {
		if slices.Contains(kinds, o.Kind) && o.Peer == e.Peer && o.Cut == e.Cut &&
			!o.Begin.Before(e.End) {
			return o.Begin
		}
	}
	return h.end
}

// nearest returns the event nearest to a time, and its distance.
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
