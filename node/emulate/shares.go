package emulate

import (
	"net/url"
	"time"
)

// near is how much longer than the best peer an owner may take to count as
// nearly optimal.
const near = 1.10

// ownership returns the share of subnets that ended at the peer that is truly
// the fastest for their pages, and nearly so. The truth is the sum of PageTime,
// on open connections, over the pages fetched from the subnet's hosts. Subnets
// without pages or without an owner count in neither share but in the whole.
func ownership(in Input) (optimal, nearly float64) {
	pages := make(map[string][]string) // by host
	for _, d := range in.Downloads {
		if u, err := url.Parse(d.URL); err == nil {
			pages[u.Hostname()] = append(pages[u.Hostname()], d.URL)
		}
	}
	best, fair := 0, 0
	for _, s := range in.Subnets {
		times := subnetTimes(in, s, pages)
		if s.Owner < 0 || s.Owner >= len(times) || times[s.Owner] == 0 {
			continue
		}
		least := times[0]
		for _, t := range times {
			least = min(least, t)
		}
		if times[s.Owner] == least {
			best++
		}
		if float64(times[s.Owner]) <= near*float64(least) {
			fair++
		}
	}
	return ratio(best, len(in.Subnets)), ratio(fair, len(in.Subnets))
}

// subnetTimes is what each peer would take for all pages of a subnet.
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
