package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"peerd/lab/internal/interval"
	"peerd/store"
)

// A Disturbance is one fault, of which a run shows what it does to the choice of owners (Nearness).
type Disturbance string

// The disturbances.
const (
	Undisturbed Disturbance = "none"
	OneLost     Disturbance = "loss"   // a peer is lost permanently with its disk
	OneWiped    Disturbance = "wiped"  // a peer loses its disk and is back after half a minute
	Halved      Disturbance = "halves" // the peers are apart in halves for three minutes
)

// Disturbances are all of them.
var Disturbances = []Disturbance{Undisturbed, OneLost, OneWiped, Halved}

const (
	// disturbedAt is when the fault begins, after the seeding: by then owners are chosen.
	disturbedAt = 4 * time.Minute
	// recoverFor is the time from its end to the second count.
	recoverFor = 5 * time.Minute
	// serverDelay is how long a site takes for an answer.
	serverDelay = 40 * time.Millisecond
	// nearFactor times the time of the nearest peer is the most that a page may take at the
	// owner of a subnet that counts as near.
	nearFactor = 1.2
)

// options returns the options of a run with d: of a crawl that goes on after the second count.
func (d Disturbance) options(o Options) Options {
	o.Peers, o.Sites, o.Pages, o.Gap = 10, 24, 24*400, 5*time.Second
	o.Level = Losing
	return o
}

// schedule returns the fault, and when nearness is counted: before it, and after its end.
func (d Disturbance) schedule(o Options) (s Schedule) {
	s.Skews = make([]time.Duration, o.Peers)
	f := Fault{At: disturbedAt, Peers: []int{int(o.Seed % uint64(o.Peers))}}
	switch d {
	case OneLost:
		f.Kind = Loss
	case OneWiped:
		f.Kind, f.For = Wiped, 30*time.Second
	case Halved:
		f.Kind, f.For, f.Peers = LongSplit, 3*time.Minute, nil
		for i := range o.Peers / 2 {
			f.Peers = append(f.Peers, 2*i)
		}
	}
	if d != Undisturbed {
		s.Faults = []Fault{f}
	}
	s.counts = []time.Duration{disturbedAt - pollInterval, disturbedAt + f.For + recoverFor}
	return s
}

// Nearness counts the subnets with an owner, and of these the ones that are near: a page takes at
// most a fifth longer at the owner than at the nearest peer that runs, by the emulated distances.
type Nearness struct{ Near, Owned int }

// Share returns the share of the subnets that are near.
func (n Nearness) Share() float64 { return float64(n.Near) / float64(max(1, n.Owned)) }

// nearness counts now.
func (w *world) nearness() (n Nearness) {
	for i, addrs := range w.layout.SiteAddrs {
		p := store.SubnetOf(addrs[0]).String()
		if slices.ContainsFunc(w.layout.SiteAddrs[:i], func(a []netip.Addr) bool {
			return store.SubnetOf(a[0]).String() == p
		}) {
			continue
		}
		var times []time.Duration
		var owns []bool
		for _, m := range w.machines {
			if m.running() {
				_, holds := w.held[p][m.n]
				times = append(times, 2*w.latency(m.addr, addrs[0])+serverDelay)
				owns = append(owns, holds)
			}
		}
		if far := n.count(times, owns); far != "" {
			w.note(nil, "%s is far from its owner: %s", p, far)
		}
	}
	return n
}

// count counts a subnet of which a page takes so long at each peer that runs; of two owners the
// slower one counts. If that is far it returns both times.
func (n *Nearness) count(times []time.Duration, owns []bool) (far string) {
	owner := time.Duration(0)
	for i, t := range times {
		if owns[i] {
			owner = max(owner, t)
		}
	}
	if owner == 0 {
		return ""
	}
	n.Owned++
	best := slices.Min(times)
	if float64(owner) > nearFactor*float64(best) {
		return fmt.Sprintf("%v, at the nearest %v", owner, best)
	}
	n.Near++
	return ""
}

// nearnessLine returns what several runs have counted.
func nearnessLine(all [][]Nearness) string {
	var b strings.Builder
	for i, when := range []string{"before", "after"} {
		var shares []float64
		var sum Nearness
		for _, counts := range all {
			if i < len(counts) {
				shares = append(shares, counts[i].Share())
				sum.Near, sum.Owned = sum.Near+counts[i].Near, sum.Owned+counts[i].Owned
			}
		}
		mean, half := interval.OfMean(shares)
		fmt.Fprintf(&b, " %s %.3f ± %.3f (%d of %d);", when, mean, half, sum.Near, sum.Owned)
	}
	return b.String()
}
