package assign

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
)

// Load is a subnet of a crawler that has too much.
type Load struct {
	Subnet netip.Prefix
	// Size is how much of a capacity it takes. >= 0.
	Size float64
	// Probes are the probing times of all that probed it, ms; those of the owner
	// may be among them.
	Probes map[string]float64
}

// Release is a subnet that goes to another crawler.
type Release struct {
	Subnet netip.Prefix
	To     string
}

// Relieve selects subnets that an overloaded crawler gives away, and to whom,
// until it has got rid of excess: "the subnet with the smallest variance in its
// probing results", to "the next-best crawler for it (if any), according to the
// probing results", if that "can accept the subnet (i.e. will not get
// overloaded)"; "if not, we retry the approach with the next best subnet"
// (Papapetrou 2003, 7.6.3). room is what the others can still take; nothing is
// changed. Subnets that fewer than two others probed have a variance too: of
// what there is. Those that only the owner probed stay.
func Relieve(owner string, loads []Load, excess float64, room map[string]float64) []Release {
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
		if o.Size > room[to]-taken[to] {
			continue
		}
		taken[to] += o.Size
		excess -= o.Size
		out = append(out, Release{Subnet: o.Subnet, To: to})
	}
	return out
}

// variance is that of the probing times; failures do not count.
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

// isTime reports whether t is one.
func isTime(t float64) bool { return t >= 0 && !math.IsInf(t, 1) }
