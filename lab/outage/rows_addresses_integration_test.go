//go:build integration

package outage

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"peerd/lab/emulate/netns"
)

// perDeadAddress is the longest time that a dead address may cost a host, once: the connection
// attempt delay of RFC 8305, section 5, and some more.
const perDeadAddress = 300 * time.Millisecond

// addressRows are hosts with several addresses, of which some are dead.
func addressRows() (all []row) {
	near := addr(0).Prev() // sorted before the address of the site, in the same subnet
	ways := []struct {
		name string
		with func(...netip.Prefix) netns.Fault
	}{{"refusing", netns.Refuse}, {"silent", netns.Drop}}
	pairs := []struct {
		name string
		dead []netip.Addr
		good netip.Addr

		goodFirst bool // the good address comes before the others
	}{
		{"same-subnet", []netip.Addr{near}, addr(0), false},
		{"same-subnet-second-dead", []netip.Addr{addr(0)}, near, true},
		{"other-subnet", []netip.Addr{addr(0)}, addr(1), false},
		{"a-dead-aaaa-good", []netip.Addr{addr(0)}, addr6(0), false},
		{"aaaa-dead-a-good", []netip.Addr{addr6(0)}, addr(0), false},
		{"aaaa-same-subnet", []netip.Addr{addr6(0)}, addr6(0).Next(), false},
		{"three-dead", []netip.Addr{near, addr(0), addr(0).Next()}, addr(0).Next().Next(), false},
	}
	for _, d := range ways {
		for _, p := range pairs {
			tap := &tap{dead: p.dead, good: p.good}
			all = append(all, row{
				name: "addr-" + p.name + "-" + d.name, command: crawl, sites: sites(1, 20, 0),
				setup: func(w *world) {
					order := append(slices.Clone(p.dead), p.good)
					if p.goodFirst {
						slices.Reverse(order)
					}
					w.names.Set("h0.test", order...)
					var prefixes []netip.Prefix
					for _, a := range p.dead {
						prefixes = append(prefixes, one(a))
					}
					w.setFaults(d.with(prefixes...))
					watch, err := w.net.WatchSyns(0, tap.add)
					if err != nil {
						w.t.Fatal(err)
					}
					w.background(watch)
				},
				want: want{within: 6 * time.Second, check: tap.judge},
			})
		}
	}
	return all
}

// tap has the connections that the peer began to the addresses of a host.
type tap struct {
	dead []netip.Addr
	good netip.Addr

	mu   sync.Mutex
	syns []netns.Syn
}

// add adds the first SYN of a connection.
func (t *tap) add(s netns.Syn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.syns, func(o netns.Syn) bool {
		return o.From == s.From && o.To == s.To
	}) {
		t.syns = append(t.syns, s)
	}
}

// judge checks what the dead addresses cost in the whole row: the sum of the times from the first
// connection to one of them to the next connection to the good one.
func (t *tap) judge(w *world) (faults []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var waits time.Time // since when only dead addresses were connected to
	var extra time.Duration
	tried, good := 0, 0
	for _, s := range t.syns {
		switch a := s.To.Addr(); {
		case slices.Contains(t.dead, a):
			if tried++; waits.IsZero() {
				waits = s.At
			}
		case a == t.good:
			if good++; !waits.IsZero() {
				extra += s.At.Sub(waits)
				waits = time.Time{}
			}
		}
	}
	n := len(t.dead)
	w.t.Logf("%d dead addresses cost %v; %d connections to them, %d to the good one", n,
		extra.Round(time.Millisecond), tried, good)
	if good == 0 {
		faults = append(faults, "no connection to the good address was seen")
	}
	if limit := time.Duration(n)*perDeadAddress + w.slack(); extra > limit {
		faults = append(faults, fmt.Sprintf("%d dead addresses cost %v, want at most %v", n, extra,
			limit))
	}
	return append(faults, atMost(tried, 2*n, "connections to dead addresses")...)
}
