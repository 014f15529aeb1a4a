package delegate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
)

// papapetrou76 is the heuristic of 7.6.3: an overloaded crawler gives up the site of which the
// probes differ least, to the next best crawler.
func papapetrou76() experiment.Experiment {
	return experiment.Experiment{Name: "papapetrou-7.6",
		Title:  "Which site an overloaded crawler gives up: the heuristic of the least variance",
		Source: "Papapetrou 2003, section 7.6.3", Run: runPapapetrou76}
}

// balanceRow is the mean over the worlds.
type balanceRow struct {
	// Probed are the crawlers of which the probes are stored: all, or those that IPMicra asks.
	Probed    string  `json:"probed"`
	Spare     float64 `json:"spare"` // capacity of all crawlers beyond the number of sites
	Decisions int     `json:"decisions"`
	Best      float64 `json:"best"` // share of the decisions that cost as little as any
	// ExcessMS is what a decision costs more than the best one, mean; OverMS that of the decisions
	// that are not best. Move is what a best decision costs.
	ExcessMS float64 `json:"excess_ms"`
	OverMS   float64 `json:"excess_not_best_ms"`
	MoveMS   float64 `json:"move_ms"`
}

func runPapapetrou76(ctx context.Context, p experiment.Params, out experiment.Out) error {
	worlds, err := worldsOf(p, out)
	if err != nil {
		return err
	}
	for _, spare := range []float64{0.2, 0.5} {
		for _, probed := range []string{"all", "ipmicra"} {
			r := balanceRow{Probed: probed, Spare: spare}
			best, excess, move := 0, 0.0, 0.0
			for i, w := range worlds {
				b, err := newBalance(ctx, w, probed, spare, p.Seed+uint64(i))
				if err != nil {
					return err
				}
				if err := b.run(ctx); err != nil {
					return err
				}
				r.Decisions += b.decisions
				best, excess, move = best+b.best, excess+b.excess, move+b.move
			}
			n := float64(r.Decisions)
			r.Best, r.ExcessMS, r.MoveMS = float64(best)/n, excess/n, move/n
			r.OverMS = excess / (n - float64(best))
			out.Row("balance", r)
			out.Claim(fmt.Sprintf("7.6.3, spare %.0f %%, probes of %s", 100*spare, probed),
				"the best decision in more than 2/3 of the cases",
				fmt.Sprintf("%.2f of %d", r.Best, r.Decisions), r.Best > 2.0/3)
		}
	}
	out.Note("Crawlers have equal capacities, and sites come one by one, to the crawler that is " +
		"nearest by the stored probes. Decisions are those of a full crawler. Best is the site " +
		"and crawler with capacity left that add least to the sum of all times, by the stored " +
		"probes. A site of which fewer than two probes are stored cannot be given up.")
	return nil
}

// balance delegates the sites of a world to crawlers of limited capacity.
type balance struct {
	w        *data.World
	probes   [][]int // crawlers with a stored probe, by site
	order    []int   // in which the sites come
	capacity int
	held     [][]int // sites by crawler

	decisions, best int
	excess, move    float64
}

func newBalance(
	ctx context.Context, w *data.World, probed string, spare float64, seed uint64,
) (*balance, error) {
	crawlers, sites := len(w.Crawlers), len(w.Sites)
	b := &balance{w: w, held: make([][]int, crawlers), probes: make([][]int, sites),
		order:    rand.New(rand.NewPCG(seed, 0x763)).Perm(sites),
		capacity: int(math.Ceil((1 + spare) * float64(sites) / float64(crawlers)))}
	if probed == "all" {
		for s := range b.probes {
			b.probes[s] = upTo(crawlers)
		}
		return b, nil
	}
	strategy, err := ipmicraAt(50)(w, nil)
	if err != nil {
		return nil, err
	}
	d := newDelegator(w, upTo(crawlers), learned{}, seed)
	for s := range b.probes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o, err := d.decide(strategy, s)
		if err != nil {
			return nil, err
		}
		if b.probes[s] = o.asked; len(o.asked) == 0 { // delegated without probes
			b.probes[s] = []int{o.choice}
		}
	}
	return b, nil
}

// nearest returns the crawler with the least stored probe of a site, other than one and with
// capacity left if free is set; -1 if there is none.
func (b *balance) nearest(site, other int, free bool) int {
	best := -1
	for _, c := range b.probes[site] {
		if c == other || free && len(b.held[c]) >= b.capacity {
			continue
		}
		if best < 0 || b.w.ProbeMS[c][site] < b.w.ProbeMS[best][site] {
			best = c
		}
	}
	return best
}

// run delegates all sites.
func (b *balance) run(ctx context.Context) error {
	for _, site := range b.order {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := b.nearest(site, -1, false)
		b.held[c] = append(b.held[c], site)
		if len(b.held[c]) > b.capacity {
			b.relieve(c)
		}
	}
	return nil
}

// relieve has a crawler give up one site.
func (b *balance) relieve(c int) {
	chosen, variance := -1, math.Inf(1)
	least := math.Inf(1)
	for k, site := range b.held[c] {
		if to := b.nearest(site, c, true); to >= 0 {
			least = min(least, b.w.ProbeMS[to][site]-b.w.ProbeMS[c][site])
		}
		if to := b.nearest(site, c, false); to < 0 || len(b.held[to]) >= b.capacity {
			continue
		}
		if v := b.variance(site); v < variance {
			chosen, variance = k, v
		}
	}
	if chosen < 0 {
		return // it stays overloaded
	}
	site := b.held[c][chosen]
	to := b.nearest(site, c, false)
	b.held[c] = append(b.held[c][:chosen], b.held[c][chosen+1:]...)
	b.held[to] = append(b.held[to], site)
	cost := b.w.ProbeMS[to][site] - b.w.ProbeMS[c][site]
	b.decisions++
	b.excess += cost - least
	b.move += least
	if cost <= least+1e-9 {
		b.best++
	}
}

// variance returns the variance of the stored probes of a site.
func (b *balance) variance(site int) float64 {
	var xs []float64
	for _, c := range b.probes[site] {
		xs = append(xs, b.w.ProbeMS[c][site])
	}
	m, sum := meanOf(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return sum / float64(len(xs))
}
