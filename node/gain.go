package node

import (
	"cmp"
	"net/netip"

	"peerd/internal/order"
	"peerd/node/admin"
)

// maxGainSubnets is the number of subnets that are compared: each takes as many predictions as
// there are peers.
const maxGainSubnets = 200

// Gain compares the download times of this peer's subnets with those that the subnets would have
// if a random peer, or the fastest one, were their owner.
func (n *Node) Gain() (g admin.Gain) {
	g.Strategy = n.opts.Config.Strategy
	if n.journal == nil {
		return g
	}
	type measured struct {
		p netip.Prefix
		fit
	}
	var all []measured
	for _, s := range n.manager.List() {
		if f := n.journal.fit(s.Prefix); f.n > 0 {
			all = append(all, measured{s.Prefix, f})
		}
	}
	order.SortFunc(all, func(a, b measured) int { return cmp.Compare(b.n, a.n) })
	for _, m := range all[:min(len(all), maxGainSubnets)] {
		if l := n.locate(m.p); l.proxy != nil {
			addGain(&g, m.fit, n.fastest(*l.proxy, l.owner))
		}
	}
	if pages := float64(g.Pages); pages > 0 {
		for _, v := range []*float64{&g.MeasuredMs, &g.HereMs, &g.RandomMs, &g.BestMs} {
			*v /= pages
		}
	}
	return g
}

// addGain adds the times of a subnet, times its pages, to the sums. Candidates are sorted, the
// fastest first.
func addGain(g *admin.Gain, f fit, candidates []admin.Candidate) {
	var here, sum float64
	for _, c := range candidates {
		sum += c.PredictedMs
		if c.Self {
			here = c.PredictedMs
		}
	}
	if here == 0 {
		return
	}
	pages := float64(f.n)
	g.Subnets++
	g.Pages += f.n
	g.MeasuredMs += pages * f.measured
	g.HereMs += pages * here
	g.RandomMs += pages * sum / float64(len(candidates))
	g.BestMs += pages * candidates[0].PredictedMs
}
