package assign

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
)

// Load is a subnet of an overloaded crawler.
type Load struct {
	Subnet netip.Prefix
	// Size is the capacity that the subnet uses. >= 0.
	Size float64
	// Probes holds the probing times of all crawlers that probed it, in ms, with or without
	// the owner's.
	Probes map[string]float64
}

// Release is a subnet that goes to another crawler.
type Release struct {
	Subnet netip.Prefix
	To     string
}

// Relieve selects subnets that an overloaded crawler gives away, and their new owners,
// until excess is removed: "the subnet with the smallest variance in its probing
// results", to "the next-best crawler for it (if any), according to the probing
// results", if that "can accept the subnet (i.e. will not get overloaded)"; "if not, we
// retry the approach with the next best subnet" (Papapetrou 2003, 7.6.3). capacity is
// what the other crawlers can still take; it is not changed. Subnets that fewer than two
// other crawlers probed have the variance of the probes that exist. Those that only the
// owner probed stay.
func Relieve(owner string, loads []Load, excess float64, capacity map[string]float64) []Release {
	type option struct {
		Load
		variance float64
		others   []string // next best first
	}
	var options []option
	for _, l := range loads {
		o := option{Load: l, variance: variance(l.Probes)}
		for id, t := range l.Probes {
			if id != owner && isTime(t) {
				o.others = append(o.others, id)
			}
		}
		if len(o.others) == 0 || !(l.Size >= 0) {
			continue
		}
		slices.SortFunc(o.others, func(a, b string) int {
			return cmp.Or(cmp.Compare(l.Probes[a], l.Probes[b]), cmp.Compare(a, b))
		})
		options = append(options, o)
	}
	slices.SortFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.variance, b.variance), a.Subnet.Compare(b.Subnet))
	})
	taken := make(map[string]float64)
	var out []Release
	for _, o := range options {
		if excess <= 0 {
			break
		}
		to := o.others[0]
		if o.Size > capacity[to]-taken[to] {
			continue
		}
		taken[to] += o.Size
		excess -= o.Size
		out = append(out, Release{Subnet: o.Subnet, To: to})
	}
	return out
}

// variance returns the variance of the probing times without failures.
func variance(probes map[string]float64) float64 {
	var times []float64
	for _, t := range probes {
		if isTime(t) {
			times = append(times, t)
		}
	}
	if len(times) == 0 {
		return math.Inf(1)
	}
	slices.Sort(times) // the sums must not depend on the map's order
	mean := 0.0
	for _, t := range times {
		mean += t / float64(len(times))
	}
	sum := 0.0
	for _, t := range times {
		sum += (t - mean) * (t - mean)
	}
	return sum / float64(len(times))
}

// isTime reports whether t is a finite time.
func isTime(t float64) bool { return t >= 0 && !math.IsInf(t, 1) }
