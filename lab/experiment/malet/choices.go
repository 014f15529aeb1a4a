package malet

import (
	"context"
	"math"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
	"peerd/lab/internal/interval"
)

func choices() experiment.Experiment {
	return experiment.Experiment{
		Name:   "choices",
		Title:  "How good the owners are that peers choose, in worlds of different nature",
		Source: "Malet 2009, chapter 5 (worlds)",
		Run:    runChoices,
	}
}

// choiceRow is the result in a nature: means over seeds, and half of the width of their 95 %
// intervals.
type choiceRow struct {
	Nature string `json:"nature"`
	Peers  int    `json:"peers"`
	Seeds  int    `json:"seeds"`
	// Within20 is the share of servers given to a peer that is at most 20 % slower than the
	// fastest, in truth.
	Within20   float64 `json:"within20"`
	Within20CI float64 `json:"within20_ci"`
	// Probes is the number of measurements of a server before the decision, the finder's included.
	Probes   float64 `json:"probes"`
	ProbesCI float64 `json:"probes_ci"`
	// Estimations is how many of these were pages that other peers fetched.
	Estimations float64 `json:"estimations"`
	// Inside80 is the share of the candidates without a measurement that have their true time in
	// the interval of its prediction.
	Inside80   float64 `json:"inside80"`
	Inside80CI float64 `json:"inside80_ci"`
}

// runChoices lets peers decide about servers, without moves: what is judged is the decision.
func runChoices(ctx context.Context, p experiment.Params, out experiment.Out) error {
	seeds, peers, sites := p.Or(p.Seeds, 5, 1), p.Or(p.Peers, 64, 6), p.Or(p.Sites, 100, 8)
	g := newStage(ctx, out, seeds*len(natureNames))
	for _, nature := range natureNames {
		var within, probes, inside []float64
		estimations := 0
		for i := range seeds {
			if err := ctx.Err(); err != nil {
				return err
			}
			seed := p.Seed + uint64(i)
			land, err := newGround(p, seed)
			if err != nil {
				return err
			}
			world := land.world(peers, sites, natureNamed(nature), seed)
			s, err := g.run(play{who: contenderNamed("proxy"), world: world, seed: seed,
				tune: func(c *crawlsim.Config) {
					c.Watch, c.Pages, c.Assigned = nil, thesisUpdates, 1
				}})
			if err != nil {
				return err
			}
			near, asked, covered := judgeChoices(s, world)
			within, probes = append(within, near), append(probes, asked)
			inside = append(inside, covered)
			estimations += s.Counts().Estimations
		}
		r := choiceRow{Nature: nature, Peers: peers, Seeds: seeds,
			Estimations: float64(estimations) / float64(seeds*sites)}
		r.Within20, r.Within20CI = interval.OfMean(within)
		r.Probes, r.ProbesCI = interval.OfMean(probes)
		r.Inside80, r.Inside80CI = interval.OfMean(inside)
		out.Row("choices", r)
	}
	out.Note("Means over seeds; _ci is half of the width of the 95 %% interval (Student's t).")
	out.Note(simulated)
	return nil
}

// judgeChoices returns the share of good choices, the probes of a server, and the share of
// candidates without a measurement that have their true time in the interval of its prediction.
func judgeChoices(s *crawlsim.Sim, w *crawlsim.World) (within, probes, inside float64) {
	measured := map[[2]int]bool{}
	for _, d := range s.Downloads() {
		if d.Probe && !d.Failed {
			measured[[2]int{d.Server, d.Peer}] = true
		}
	}
	hits, predicted := 0.0, 0.0
	for i, n := range s.Subnets() {
		_, best := fastest(s, w, i, -1)
		if float64(s.Expected(n.Owner, i)) <= 1.2*float64(best) {
			within++
		}
		probes += float64(n.Probes)
		for p, peer := range w.Peers {
			interval, ok := n.Range[peer.Name]
			if !ok || p == n.Finder || measured[[2]int{i, p}] {
				continue
			}
			predicted++
			if t := s.Expected(p, i); t >= interval[0] && t <= interval[1] {
				hits++
			}
		}
	}
	n := float64(len(s.Subnets()))
	return within / n, probes / n, hits / math.Max(1, predicted)
}
