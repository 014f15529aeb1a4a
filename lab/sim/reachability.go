package sim

import (
	"slices"
	"time"
)

// recoveryTime is how long a peer takes to recover from a fault: to start, to connect,
// and to get replicas again.
const recoveryTime = 10 * time.Second

// active reports whether f acts, or a peer still recovers from it, at some time
// between from and to, which count from the seeding of the crawl.
func (f Fault) active(from, to time.Duration) bool {
	return f.At <= to && (f.Kind == Loss || from <= f.At+f.For+recoveryTime)
}

// affected returns a fault that acts on peer n itself between from and to.
func (s Schedule) affected(n int, from, to time.Duration) (Fault, bool) {
	for _, f := range s.Faults {
		if !f.partitions() && f.active(from, to) && slices.Contains(f.Peers, n) {
			return f, true
		}
	}
	return Fault{}, false
}

// separated returns a fault, active between from and to, that keeps peers a and b from
// reaching each other, or one of them from reaching any peer.
func (s Schedule) separated(a, b int, from, to time.Duration) (Fault, bool) {
	for _, n := range []int{a, b} {
		if f, ok := s.affected(n, from, to); ok {
			return f, true
		}
	}
	for _, f := range s.Faults {
		if f.active(from, to) && f.splits(a, b) {
			return f, true
		}
	}
	return Fault{}, false
}

// partitioned returns a fault, active between from and to, that partitions the network.
func (s Schedule) partitioned(from, to time.Duration) (Fault, bool) {
	for _, f := range s.Faults {
		if f.partitions() && f.active(from, to) {
			return f, true
		}
	}
	return Fault{}, false
}

// splits reports whether f is a partition with peers a and b on different sides.
func (f Fault) splits(a, b int) bool {
	return f.partitions() && slices.Contains(f.Peers, a) != slices.Contains(f.Peers, b)
}
