package sim

import (
	"slices"
	"time"
)

// knowledge tracks which peers must have known that a page was fetched: the owner, and
// each of its replicas that had a complete copy and was reachable for unsyncedTime
// after the fetch. It is a lower bound: other peers may have known too.
type knowledge struct {
	s     Schedule
	terms []*term // of the subnet

	begin     time.Duration         // when the first owner had the page
	since     time.Duration         // when the owner learned of the page
	current   *term                 // the term of the current owner
	owner     bool                  // the owner knows, or knew before it lost its disk
	diskLost  bool                  // the owner has lost its disk
	reachable map[int]time.Duration // how long the owner reached each replica
	// why names the fault that left no informed peer to take over; "" is none.
	why string
}

// replicaKnows reports whether replica n must know of the page.
func (k *knowledge) replicaKnows(n int) bool { return k.reachable[n] >= unsyncedTime }

// knowledgeLost names the fault by which all possible owners of a subnet lost the
// knowledge of a page that was fetched at time at, up to time until; "" if a peer kept
// it. If the host has moved to another subnet by then, an owner who is dead cannot have passed
// its knowledge on. Times count from the seeding of the crawl.
//
// Owners are left out that began at one side of a partition while peer by was at the other, if it
// was until then: it may have acted for another successor of the same owner.
func (w *world) knowledgeLost(
	s Schedule, subnet string, at, until time.Duration, by int, moved bool,
) string {
	k := knowledge{s: s, begin: at + inFlightTime, since: at, owner: true,
		reachable: map[int]time.Duration{}}
	for _, t := range w.terms[subnet] {
		if !slices.ContainsFunc(s.Faults, func(f Fault) bool {
			return f.splits(t.peer, by) && f.At <= t.from && until <= f.At+f.For
		}) {
			k.terms = append(k.terms, t)
		}
	}
	k.current = latest(k.terms, k.begin)
	if k.current == nil {
		return ""
	}
	for t := at + pollInterval; t <= until; t += pollInterval {
		k.step(t)
	}
	if moved && k.why == "" && k.diskLost && !k.takeoverPossible(until) {
		return "at no reachable replica, " + Loss.String()
	}
	return k.why
}

// step processes the state at time t, one poll interval after the last.
func (k *knowledge) step(t time.Duration) {
	if next := latest(k.terms, max(t, k.begin)); k.begins(next) {
		k.changeOwner(next)
	} else {
		k.current = next
	}
	for _, f := range k.s.Faults {
		if f.At <= t-pollInterval || f.At > t || len(f.Peers) == 0 || f.Peers[0] != k.current.peer {
			continue
		}
		if f.destroysDisk() {
			k.diskLost = true
		}
		if f.Kind == Power && f.At <= k.since+unsyncedTime && k.owner && !k.diskLost {
			k.owner, k.why = false, "not synced, "+f.Kind.String()
		}
	}
	had := map[int]time.Duration{}
	for _, n := range k.current.replicas {
		if _, apart := k.s.separated(k.current.peer, n, t-pollInterval, t); !apart && k.owner &&
			!k.diskLost {
			had[n] = k.reachable[n] + pollInterval
		} else if _, hit := k.s.affected(n, t-pollInterval, t); !hit && k.replicaKnows(n) {
			had[n] = k.reachable[n] // it keeps its knowledge while the owner cannot reach it
		}
	}
	k.reachable = had
}

// begins reports whether t is another term than the current one: of another peer, another epoch, or
// recreated by the same peer, which had lost its disk.
func (k *knowledge) begins(t *term) bool {
	return t.epoch != k.current.epoch || t.peer != k.current.peer || t != k.current && k.diskLost
}

// changeOwner processes the start of the next term, of another or the same owner.
func (k *knowledge) changeOwner(next *term) {
	defer func() { k.current, k.since = next, next.from }()
	if k.handedOver(next) || next.peer == k.current.peer && !k.diskLost {
		k.diskLost = false
		return // the owner has all data
	}
	knew := k.replicaKnows(next.peer)
	if k.owner && !knew && !k.takeoverPossible(next.from) {
		k.why = "at no reachable replica, "
		f, ok := k.s.separated(k.current.peer, next.peer, next.from-2*time.Minute, next.from)
		switch {
		case ok:
			k.why += f.Kind.String()
		case k.diskLost:
			k.why += Wiped.String()
		default:
			k.why = "" // no fault kept the owner from continuing
		}
	}
	k.owner, k.diskLost = knew, false
}

// takeoverPossible reports whether a replica that knew of the page could have taken
// over at time at.
func (k *knowledge) takeoverPossible(at time.Duration) bool {
	if _, cut := k.s.partitioned(at-time.Minute, at); cut {
		return false
	}
	for n := range k.reachable {
		if k.replicaKnows(n) {
			return true
		}
	}
	return false
}

// handedOver reports whether the owner handed the subnet over to the next: it owned it
// until then, and they could reach each other.
func (k *knowledge) handedOver(next *term) bool {
	if _, apart := k.s.separated(k.current.peer, next.peer, next.from-pollInterval,
		next.from); apart {
		return false
	}
	var last time.Duration
	for _, t := range k.terms {
		if t.peer == k.current.peer && t.epoch == k.current.epoch {
			last = max(last, t.to)
		}
	}
	return last >= next.from-handoverTime && last <= next.from+handoverTime
}

// handoverTime is the longest time, in either direction, between the last sample of the
// old owner and the first of its successor in a handover.
const handoverTime = 4 * pollInterval
