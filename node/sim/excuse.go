package sim

import (
	"slices"
	"time"

	"peerd/store"
)

// The bounds of what a fault excuses.
const (
	// inFlight is how long what was fetched may be unknown to the peer's own
	// disk, or to the owner at whose request it was fetched.
	inFlight = 2 * time.Second
	// unsynced is how long it may be there without being synced, or without
	// being at a shadow.
	unsynced = 30 * time.Second
	// underWay is how long before a request got there it may have been sent.
	underWay = 5 * time.Second
	// errand is how long an owner waits for another's answer, and asks then
	// somebody else.
	errand = 25 * time.Second
	// settle is how long after a partition two may still take themselves for the
	// owner of one subnet: two minutes.
	settle = 2 * time.Minute
)

// excuse names the fault that is behind a pair of requests, or "": one by which the
// first was not known to its owner, or only for as long as is excused, or by which
// nobody knew who could go on (knowledge), or one that has kept those who asked
// from hearing each other.
func (w *world) excuse(s Schedule, x Twice) string {
	begin, end := x.First.Start.Sub(w.seeded), x.First.End.Sub(w.seeded)
	next := x.Second.Start.Sub(w.seeded)
	there := store.SubnetOf(x.First.Addr).String()
	// Who fetched, and for whom: of two owners either may have asked a third peer.
	one := append([]int{x.A}, w.holders(there, end+inFlight)...)
	two := append([]int{x.B}, w.holders(store.SubnetOf(x.Second.Addr).String(), next+look)...)
	after := "" // of a fault that was over by then, and two still took themselves for the owner
	for _, f := range s.Faults {
		if f.At > next {
			continue
		}
		why := ""
		switch f.Kind {
		case Kill, Power, Loss, Wiped, Drop:
			// Whoever it hit, the fetcher or the owner that had asked for it; the fetcher
			// for itself alone does not need its connections.
			hit := slices.Contains(one, f.Peers[0]) && (f.Kind != Drop || x.A != x.B || slices.ContainsFunc(one, func(n int) bool { return n != x.A }))
			sent := begin - underWay
			if x.A != f.Peers[0] { // it was asked for by the owner that was hit
				sent = begin - errand
			}
			if hit && sent <= f.At && f.At <= end+inFlight {
				why = "in flight"
			}
		case Leave, Move:
		default: // somebody heard nobody for a while
			if f.between(one, two) && f.At <= end+errand && next <= f.At+f.For+settle {
				why = "apart"
			}
		}
		if f.Kind == Full && slices.Contains(one, f.Peers[0]) && f.At <= end+inFlight && begin <= f.At+f.For {
			why = "not stored" // it is queued again, whenever its turn comes
		}
		switch {
		case why == "":
		case why != "apart", begin <= f.At+f.For: // it was fetched meanwhile, or just before
			return why + ", " + f.Kind.String()
		case after == "":
			after = why + ", " + f.Kind.String()
		}
	}
	if why := w.lost(s, there, end, next+2*look); why != "" {
		return why
	}
	return after
}

// between says whether a fault has kept some of one from some of two, or from
// each other.
func (f Fault) between(one, two []int) bool {
	for _, a := range one {
		for _, b := range slices.Concat(one, two) {
			in, too := slices.Contains(f.Peers, a), slices.Contains(f.Peers, b)
			if in != too || in && !f.cuts() {
				return true
			}
		}
	}
	return false
}
