package hostmove

import (
	"net/netip"
	"time"

	"peerd/store"
)

// cause says why a host seems to have left its home.
type cause uint8

const (
	renamed     cause = iota // its name has no address in the home
	silent                   // as renamed, and its server does not answer
	unreachable              // only an address elsewhere accepts connections
)

// absence is a host that seems to have left its home.
type absence struct {
	home  netip.Prefix
	since time.Time
	told  time.Time // when its name resolved last
	next  time.Time // when it is looked up again
	looks int
	cause cause
	found map[netip.Prefix]netip.Addr // where it was instead, and
	times map[netip.Prefix]int        // how often
	lease []byte                      // the home is a silent owner's: the last lease
}

func newAbsence(p netip.Prefix, now time.Time) *absence {
	return &absence{home: p, since: now, told: now, found: map[netip.Prefix]netip.Addr{},
		times: map[netip.Prefix]int{}}
}

// because updates the cause by that of another look-up: a server that was silent stays so.
func (a *absence) because(c cause) {
	if c == renamed && a.cause != renamed {
		c = silent
	}
	a.cause = c
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
