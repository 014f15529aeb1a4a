package emulate

import (
	"net/url"
	"strings"
	"time"

	"peerd/internal/order"
)

// near is the largest ratio of the owner's time to that of the fastest peer for a
// nearly optimal assignment.
const near = 1.10

// Outcome is the quality of a subnet's assignment: the mean time of its pages, on open
// connections, for its owner and for the fastest peer. Peers are numbers.
type Outcome struct {
	Subnet      string  `json:"subnet"`
	Pages       int     `json:"pages"`
	Estimations int     `json:"estimations"`
	Owner       int     `json:"owner"`
	OwnerMS     float64 `json:"owner_ms"`
	Best        int     `json:"best"`
	BestMS      float64 `json:"best_ms"`
}

// assigned returns the outcome of every subnet that has an owner and pages. The time of
// a peer is the sum of PageTime over the pages fetched from the subnet's hosts.
func assigned(in Input) []Outcome {
	pages := make(map[string][]string) // by host
	for _, d := range in.Downloads {
		if u, err := url.Parse(d.URL); err == nil {
			pages[u.Hostname()] = append(pages[u.Hostname()], d.URL)
		}
	}
	all := []Outcome{}
	for _, s := range in.Subnets {
		n := 0
		for _, h := range s.Hosts {
			n += len(pages[h])
		}
		if n == 0 || s.Owner < 0 || s.Owner >= in.Peers {
			continue
		}
		times := subnetTimes(in, s, pages)
		best := 0
		for p, t := range times {
			if t < times[best] {
				best = p
			}
		}
		if times[s.Owner] == times[best] {
			best = s.Owner // equally fast
		}
		mean := func(t time.Duration) float64 { return round(millis(t)/float64(n), 1e3) }
		all = append(all, Outcome{
			Subnet: s.Prefix.String(), Pages: n, Estimations: s.Estimations,
			Owner: s.Owner, OwnerMS: mean(times[s.Owner]), Best: best, BestMS: mean(times[best]),
		})
	}
	order.SortFunc(all, func(a, b Outcome) int { return strings.Compare(a.Subnet, b.Subnet) })
	return all
}

// ownership returns the shares of subnets owned by the fastest peer and by a nearly
// fastest one. Subnets without pages or owner count only in the total.
func ownership(outcomes []Outcome, subnets int) (optimal, nearly float64) {
	best, fair := 0, 0
	for _, o := range outcomes {
		if o.Owner == o.Best {
			best++
		}
		if o.OwnerMS <= near*o.BestMS {
			fair++
		}
	}
	return ratio(best, subnets), ratio(fair, subnets)
}

// subnetTimes returns how long each peer would take for all pages of a subnet.
func subnetTimes(in Input, s Subnet, pages map[string][]string) []time.Duration {
	times := make([]time.Duration, in.Peers)
	for p := range times {
		for _, h := range s.Hosts {
			for _, u := range pages[h] {
				times[p] += in.PageTime(p, u, true)
			}
		}
	}
	return times
}
