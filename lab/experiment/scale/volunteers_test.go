package scale

import (
	"math"
	"testing"
)

// The ranges of addresses have all hosts and all addresses, the most crowded first.
func TestRanks(t *testing.T) {
	t.Parallel()
	w := theInternet
	hosts, addresses, last := 0.0, 0.0, math.Inf(1)
	w.ranks(w.addresses, func(n, many float64) {
		hosts, addresses = hosts+n*many, addresses+many
		if n > last {
			t.Errorf("an address has %v hosts, after one with %v", n, last)
		}
		last = n
	})
	if math.Abs(hosts/w.hosts-1) > 1e-6 || math.Abs(addresses/w.addresses-1) > 1e-6 {
		t.Errorf("%v hosts at %v addresses, want %v at %v", hosts, addresses, w.hosts, w.addresses)
	}
	if few := w.met(1000); few < 800 || few > 1000 {
		t.Errorf("1,000 links lead to %v subnets", few)
	}
	if all := w.met(1e12); math.Abs(all/w.subnets-1) > 1e-3 {
		t.Errorf("very many links lead to %v subnets, want all %v", all, w.subnets)
	}
}

// A page needs a line, and the parts of the traffic are what the control share says.
func TestVolunteers(t *testing.T) {
	t.Parallel()
	for _, n := range []float64{100, 10_000} {
		r := volunteers(n, theInternet, measuredCosts, 500, 1)
		sum := r.Idle + r.Witness + r.Leases + r.Lookups + r.Connections + r.Gossip + r.PageControl
		pages := r.Pages * 1e6 / n / day * measuredCosts.pageBytes
		if math.Abs(sum/lineBps-r.Control) > 0.01 || math.Abs((sum+pages)/lineBps-1) > 0.01 {
			t.Errorf("%v peers: %v bytes/s for other peers, %v for pages, want %v together: %+v", n,
				sum, pages, lineBps, r)
		}
	}
	if few, many := volunteers(10_000, theInternet, measuredCosts, 500, 1),
		volunteers(10_000, theInternet, measuredCosts, 500, 16); many.Pages < 1.2*few.Pages {
		t.Errorf("%v pages with batches of 16, %v with the defaults", many.Pages, few.Pages)
	}
}
