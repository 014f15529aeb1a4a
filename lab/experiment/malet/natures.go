package malet

import (
	"context"
	"fmt"
	"slices"

	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
)

func natures() experiment.Experiment {
	return experiment.Experiment{
		Name: "malet-natures",
		Title: "Figure 5.8 in worlds of different nature: what depends on how the world is made " +
			"up",
		Source: thesis + ", figure 5.8", Run: runNatures,
	}
}

// natureRow is the result of a strategy in a nature.
type natureRow struct {
	Nature   string  `json:"nature"`
	Strategy string  `json:"strategy"`
	P50      float64 `json:"p50_ms"`
	P90      float64 `json:"p90_ms"`
	// The ratios are those to random and to the oracle, for the assigned pages.
	P50Ratio  float64 `json:"p50_ratio"`
	P90Ratio  float64 `json:"p90_ratio"`
	P50Oracle float64 `json:"p50_over_oracle"`
	P90Oracle float64 `json:"p90_over_oracle"`
	Within20  float64 `json:"within20"`
	Probes    float64 `json:"probes_per_server"`
}

// natureNames are the natures, in the order of the table.
var natureNames = []string{"plain", "planetlab", "servers"}

func natureNamed(name string) crawlsim.Nature {
	return map[string]crawlsim.Nature{"plain": crawlsim.Plain(), "planetlab": crawlsim.PlanetLab(),
		"servers": crawlsim.Servers()}[name]
}

func runNatures(ctx context.Context, p experiment.Params, out experiment.Out) error {
	seeds, peers, sites, pages := p.Or(p.Seeds, 4, 1), p.Or(p.Peers, 10, 6), p.Or(p.Sites, 100, 8),
		p.Or(p.Rounds, 30, 5)
	names := []string{"proxy", "random", "hash", "geo", "vivaldi-0.25", "oracle-owner",
		"oracle"}
	if p.Matrix != "" {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "geo" })
		out.Note("A matrix has no places: geography is skipped.")
	}
	g := newStage(ctx, out, seeds*len(names)*len(natureNames))
	worst, best, away := 0.0, 1.0, 0.0
	for _, nature := range natureNames {
		scores := map[string]*score{}
		for i := range seeds {
			seed := p.Seed + uint64(i)
			land, err := newGround(p, seed)
			if err != nil {
				return err
			}
			world := land.world(peers, sites, natureNamed(nature), seed)
			for _, name := range names {
				s, err := g.run(play{who: contenderNamed(name), world: world, seed: seed,
					tune: func(c *crawlsim.Config) {
						c.Pages, c.Assigned = thesisUpdates, pages
					}})
				if err != nil {
					return err
				}
				if scores[name] == nil {
					scores[name] = &score{}
				}
				scores[name].add(s, world)
			}
		}
		for _, sc := range scores {
			sc.settle()
		}
		base, oracle := scores["random"].row, scores["oracle"].row
		plot := experiment.Plot{Name: nature, Title: "Download times of assigned pages, " + nature,
			X: "download time, ms", Y: "share of pages", LogX: true}
		for _, name := range names {
			r := scores[name].row
			out.Row("natures", natureRow{nature, name, r.P50, r.P90, round(r.P50/base.P50, 3),
				round(r.P90/base.P90, 3),
				round(r.P50/oracle.P50, 3), round(r.P90/oracle.P90, 3), r.Within20, r.Probes})
			line := experiment.Series{Name: name}
			for q := 1; q <= 99; q++ {
				line.X, line.Y = append(line.X, quantile(scores[name].assigned, float64(q)/100)),
					append(line.Y, float64(q)/100)
			}
			plot.Series = append(plot.Series, line)
		}
		out.Plot(plot)
		ratio := scores["proxy"].row.P90 / base.P90
		worst, best, away = max(worst, ratio), min(best, ratio),
			max(away, scores["proxy"].row.P90/oracle.P90)
	}
	out.Claim(thesis+", 5.2: 90th percentile, proxy coordinates against random, in every nature",
		"30 % lower",
		fmt.Sprintf("%.0f to %.0f %% lower", 100*(1-worst), 100*(1-best)), worst <= 0.7)
	out.Claim("target: 90th percentile of proxy over the oracle's, in every nature", "at most 1.25",
		fmt.Sprintf("%.2f at most", away), away <= 1.25)
	out.Note(
		"plain is the generator's first draft; planetlab was fitted to Malet's random and " +
			"geography with known results; servers has nearly all variance at the " +
			"servers.")
	out.Note(simulated)
	return nil
}
