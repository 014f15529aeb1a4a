package sim

import (
	"slices"
	"time"
)

// mend is what a peer needs after a fault to be as before: to start, to be
// connected, to be followed again.
const mend = 10 * time.Second

// on says whether a fault acts, or has just acted, at some time from one to
// another, both since the crawl was seeded.
func (f Fault) on(from, to time.Duration) bool {
	return f.At <= to && (f.Kind == Loss || from <= f.At+f.For+mend)
}

// hurt names a fault that acts on a peer itself at some time from one to another.
func (s Schedule) hurt(n int, from, to time.Duration) (Fault, bool) {
	for _, f := range s.Faults {
		if !f.cuts() && f.on(from, to) && slices.Contains(f.Peers, n) {
			return f, true
		}
	}
	return Fault{}, false
}

// apart names a fault that keeps two peers from hearing each other at some time
// from one to another, or one of them from hearing anybody.
func (s Schedule) apart(a, b int, from, to time.Duration) (Fault, bool) {
	for _, n := range []int{a, b} {
		if f, ok := s.hurt(n, from, to); ok {
			return f, true
		}
	}
	for _, f := range s.Faults {
		if f.cuts() && f.on(from, to) && slices.Contains(f.Peers, a) != slices.Contains(f.Peers, b) {
			return f, true
		}
	}
	return Fault{}, false
}

// cut names a fault that keeps any peers from each other at some time from one to another.
func (s Schedule) cut(from, to time.Duration) (Fault, bool) {
	for _, f := range s.Faults {
		if f.cuts() && f.on(from, to) {
			return f, true
		}
	}
	return Fault{}, false
}
