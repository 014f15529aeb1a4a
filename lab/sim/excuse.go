package sim

import (
	"slices"
	"time"

	"peerd/store"
)

// Limits of what a fault excuses.
const (
	// inFlightTime is how long after a fetch the page may be missing on the fetching
	// peer's disk, or be unknown to the owner that requested it.
	inFlightTime = 2 * time.Second
	// unsyncedTime is how long a stored page may be unsynced, or be missing at a
	// replica.
	unsyncedTime = 30 * time.Second
	// sendTime is the longest time between sending and arrival of a request or an answer.
	sendTime = 5 * time.Second
	// remoteFetchTime is how long an owner waits for the answer to a remote fetch
	// before it asks another peer.
	remoteFetchTime = 25 * time.Second
	// settleTime is how long after a partition two peers may still both act as owner
	// of a subnet.
	settleTime = 2 * time.Minute
)

// excuse names the fault that explains a pair of requests, or returns "". A fault
// explains them if the owner did not learn of the first request or lost it within the
// time limits, if no peer that could take over knew of it (see knowledge), if the two
// requesting peers could not reach each other, or if both owners claimed the subnet
// while record holders were cut off: what the loser has fetched is not believed.
func (w *world) excuse(s Schedule, x Repeat) string {
	begin, end := x.First.Start.Sub(w.seeded), x.First.End.Sub(w.seeded)
	next := x.Second.Start.Sub(w.seeded)
	there := store.SubnetOf(x.First.Addr).String()
	// The fetching peer and the owners: with two owners, either may have asked a third
	// peer.
	one := append([]int{x.A}, w.holders(there, end+inFlightTime)...)
	two := append([]int{x.B}, w.holders(store.SubnetOf(x.Second.Addr).String(),
		next+pollInterval)...)
	after := "" // a fault that had ended while there were still two owners
	for _, f := range s.Faults {
		if f.At > next {
			continue
		}
		why := f.explains(x, one, two, begin, end, next)
		switch {
		case why == "":
		case why != "apart", begin <= f.At+f.For: // fetched during the fault or just before
			return why + ", " + f.Kind.String()
		case after == "":
			after = why + ", " + f.Kind.String()
		}
	}
	moved := store.SubnetOf(x.Second.Addr) != store.SubnetOf(x.First.Addr)
	if why := w.knowledgeLost(s, there, end, next+2*pollInterval, x.B, moved); why != "" {
		return why
	}
	if why := w.claimedTwice(s, there, begin); why != "" {
		return why
	}
	return after
}

// claimedTwice names the fault that let another peer claim a subnet of which an owner at time at
// had a lease with the same epoch, or returns "". The other peer may have given it on before.
func (w *world) claimedTwice(s Schedule, subnet string, at time.Duration) string {
	for _, first := range w.termsAt(subnet, at) {
		f, cut := s.partitioned(first.from-time.Minute, first.from)
		rival := func(t *term) bool { return t.peer != first.peer && t.epoch == first.epoch }
		if cut && slices.ContainsFunc(w.terms[subnet], rival) {
			return "claimed twice, " + f.Kind.String()
		}
	}
	return ""
}

// explains returns how f explains x, or "". The first request lasts from begin to end, the
// second starts at next; one and two are the peers that may have requested them.
func (f Fault) explains(x Repeat, one, two []int, begin, end, next time.Duration) (why string) {
	switch f.Kind {
	case Kill, Power, Loss, Wiped, Drop:
		// The fault hit the fetching peer or the owner that requested the page. A Drop also
		// loses the connection to the site.
		hit := slices.Contains(one, f.Peers[0])
		sent := begin - sendTime
		if x.A != f.Peers[0] { // the fault hit the owner that requested the page
			sent = begin - remoteFetchTime
		}
		if hit && sent <= f.At && f.At <= end+inFlightTime {
			why = "in flight"
		}
	case Move:
		if f.silences(x.First.Site, begin, end) {
			why = "in flight"
		}
	case Leave:
	default: // the fault separated peers for a time
		if f.separates(one, two) && f.At <= end+remoteFetchTime &&
			next <= f.At+f.For+settleTime {
			why = "apart"
		}
	}
	if f.Kind == Full && slices.Contains(one, f.Peers[0]) && f.At <= end+inFlightTime &&
		begin <= f.At+f.For {
		why = "not stored" // it is queued again
	}
	return why
}

// silences reports whether a move made the old server of a site silent while an answer was under
// way.
func (f Fault) silences(site int, begin, end time.Duration) bool {
	gone := f.At + f.For
	return site == f.Sites[0] && begin <= gone && gone <= end+sendTime
}

// separates reports whether f separated a peer of one from a peer of two, or peers of
// one from each other.
func (f Fault) separates(one, two []int) bool {
	for _, a := range one {
		for _, b := range slices.Concat(one, two) {
			in, too := slices.Contains(f.Peers, a), slices.Contains(f.Peers, b)
			if in != too || in && !f.partitions() {
				return true
			}
		}
	}
	return false
}
