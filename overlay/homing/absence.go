package homing

import (
	"net/netip"
	"time"

	"peerd/store"
)

// absence is a host without an address in its home, so far.
type absence struct {
	home   netip.Prefix
	since  time.Time
	next   time.Time // when it is looked up again
	looks  int
	silent bool                        // its server did not answer either
	found  map[netip.Prefix]netip.Addr // where it was instead, and
	times  map[netip.Prefix]int        // how often
	lease  []byte                      // the home is a silent owner's: the last lease
}

func newAbsence(p netip.Prefix, now time.Time) *absence {
	return &absence{home: p, since: now, found: map[netip.Prefix]netip.Addr{}, times: map[netip.Prefix]int{}}
}

// note counts where a host was found.
func (a *absence) note(found []netip.Addr) {
	seen := map[netip.Prefix]bool{}
	for _, x := range found {
		if q := store.SubnetOf(x); !seen[q] {
			seen[q] = true
			a.times[q]++
			a.found[q] = x
		}
	}
}

// target is the subnet where the host was found most often; of several one of ours,
// else the least.
func (a *absence) target(ours func(netip.Prefix) bool) (best netip.Prefix) {
	for q, n := range a.times {
		switch b := a.times[best]; {
		case !best.IsValid() || n > b:
		case n < b || ours(best) && !ours(q):
			continue
		case ours(q) == ours(best) && best.Addr().Less(q.Addr()):
			continue
		}
		best = q
	}
	return best
}
