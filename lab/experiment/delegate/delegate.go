package delegate

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/coords/assign"
	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
)

// delegateRow is the result of a strategy at a threshold: the mean over the worlds.
type delegateRow struct {
	Strategy string `json:"strategy"`
	// ThresholdMS is the probing threshold. Strategies without one have the same result for
	// each.
	ThresholdMS float64 `json:"threshold_ms"`
	// Optimal is the share of sites that were delegated to their nearest crawler, 0 to 1.
	Optimal float64 `json:"optimal"`
	// ProbesShare is the number of probes as a share of those of brute force, 0 to 1.
	ProbesShare float64 `json:"probes_share"`
	// ProbesPerURL is the mean number of probes per site.
	ProbesPerURL float64 `json:"probes_per_url"`
	// ExcessMS is the mean difference between the time of the chosen crawler and that of the
	// nearest one over all sub-optimal delegations, ms.
	ExcessMS float64 `json:"excess_ms"`
}

// himicraSites is the number of training sites from which HiMicra builds its hierarchy: "500
// sites used for training" (8.5).
const himicraSites = 500

// contestant is a strategy in a world.
type contestant struct {
	name string
	// make returns the strategy for a threshold. tree is the distance of crawlers that HiMicra
	// learned.
	make func(w *data.World, threshold time.Duration, tree func(a, b assign.Candidate) float64) (
		assign.Strategy, error)
	// fixed means that the strategy has no threshold, probes that it learns the probes of
	// training sites.
	fixed, probes bool
}

// contestants returns the strategies that are compared.
func contestants() []contestant {
	threshold := func(t time.Duration) assign.ThresholdConfig {
		return assign.ThresholdConfig{Threshold: t}
	}
	ipmicra := func(t time.Duration, rule assign.CompanyRule) assign.IPMicraConfig {
		return assign.IPMicraConfig{ThresholdConfig: threshold(t), Company: rule,
			Calibration: assign.DefaultCalibrationConfig()}
	}
	helped := func(w *data.World, t time.Duration, _ func(a, b assign.Candidate) float64) (
		assign.Strategy, error) {
		cfg := assign.DefaultIPMicraProxyConfig()
		cfg.IPMicraConfig = ipmicra(t, assign.CompanyProbed)
		return assign.NewIPMicraProxy(cfg, w.Full)
	}
	return []contestant{
		{name: "random", fixed: true, make: func(*data.World, time.Duration,
			func(a, b assign.Candidate) float64) (assign.Strategy, error) {
			return assign.NewRandom(assign.RandomConfig{Seed: 1}), nil
		}},
		{name: "sequential", make: func(_ *data.World, t time.Duration,
			_ func(a, b assign.Candidate) float64) (assign.Strategy, error) {
			return assign.NewSequential(threshold(t))
		}},
		{name: "himicra", make: func(_ *data.World, t time.Duration,
			tree func(a, b assign.Candidate) float64) (assign.Strategy, error) {
			return assign.NewHiMicra(assign.HiMicraConfig{ThresholdConfig: threshold(t),
				Branching: 2, Distance: tree})
		}},
		{name: "ipmicra", make: func(w *data.World, t time.Duration,
			_ func(a, b assign.Candidate) float64) (assign.Strategy, error) {
			return assign.NewIPMicra(ipmicra(t, assign.CompanyProbed), w.Full)
		}},
		{name: "ipmicra-thesis", make: func(w *data.World, t time.Duration,
			_ func(a, b assign.Candidate) float64) (assign.Strategy, error) {
			return assign.NewIPMicra(ipmicra(t, assign.CompanyTrusted), w.Full)
		}},
		{name: "proxy", fixed: true, make: func(*data.World, time.Duration,
			func(a, b assign.Candidate) float64) (assign.Strategy, error) {
			return assign.NewProxy(assign.DefaultProxyConfig())
		}},
		{name: "ipmicra-proxy", make: helped},
		{name: "ipmicra-proxy-probes", probes: true, make: helped},
		{name: "probe", fixed: true, make: func(*data.World, time.Duration,
			func(a, b assign.Candidate) float64) (assign.Strategy, error) {
			return assign.NewProbe(assign.DefaultProbeConfig())
		}},
	}
}

// delegate compares strategies in worlds of crawlers and sites.
func delegate() experiment.Experiment {
	return experiment.Experiment{
		Name:  "delegate",
		Title: "Who crawls what, by probes and by addresses: optimal delegations against probes",
		Source: "Papapetrou 2003, 8.6: 65 % of the sites are delegated to their nearest crawler, " +
			"35 % by the strategy",
		Run: runDelegate,
	}
}

// worldsOf loads the worlds of the parameters, or generates some.
func worldsOf(p experiment.Params, out experiment.Out) ([]*data.World, error) {
	var worlds []*data.World
	for _, path := range p.World {
		w, err := data.LoadWorld(path)
		if err != nil {
			return nil, err
		}
		worlds = append(worlds, w)
	}
	if len(worlds) == 0 {
		cfg := data.DefaultSynthConfig()
		n := 10
		if p.Seeds > 0 {
			n = p.Seeds
		}
		if p.Peers > 0 {
			cfg.Crawlers = p.Peers
		}
		if p.Sites > 0 {
			cfg.Sites = p.Sites
		}
		if p.Quick {
			n, cfg.Sites = min(n, 1), min(cfg.Sites, 150)
		}
		if n > 1000 || cfg.Crawlers > 1000 || cfg.Sites > 100_000 {
			return nil, fmt.Errorf(
				"%d worlds of %d peers and %d sites are more than 1000, 1000 and 100000", n,
				cfg.Crawlers, cfg.Sites)
		}
		for i := range n {
			worlds = append(worlds, data.Synth(p.Seed+uint64(i), cfg))
		}
		out.Note(
			"No --world was given: %d worlds were generated. Their figures are not those of the "+
				"thesis' data.", n)
	}
	for _, w := range worlds {
		if len(w.Crawlers) < 2 || len(w.Sites) < 20 {
			return nil, fmt.Errorf("%s: %d crawlers and %d sites, want at least 2 and 20", w.Name,
				len(w.Crawlers), len(w.Sites))
		}
	}
	return worlds, nil
}

// thresholdsOf returns the thresholds to run, ms.
func thresholdsOf(p experiment.Params, otherwise ...float64) ([]float64, error) {
	out := p.Threshold
	if len(out) == 0 {
		out = otherwise
	}
	for _, ms := range out {
		if !(ms > 0 && ms <= data.ProbeFailed) {
			return nil, fmt.Errorf("a threshold of %v ms, want more than 0 and at most %v", ms,
				data.ProbeFailed)
		}
	}
	return out, nil
}

// trainShare is the share of the sites that are delegated in training (8.6).
const trainShare = 0.65

// split returns the sites for training and those for the test.
func split(w *data.World) (train, test []int) {
	k := int(float64(len(w.Sites)) * trainShare)
	return upTo(k), between(k, len(w.Sites))
}

// eachWorld calls a function for each world, in parallel on all processors.
func eachWorld(
	ctx context.Context, worlds []*data.World, out experiment.Out,
	run func(ctx context.Context, i int, w *data.World) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	done := make(chan struct{}, len(worlds))
	go func() {
		defer close(done)
		for i, w := range worlds {
			group.Go(func() error {
				defer func() { done <- struct{}{} }()
				if err := ctx.Err(); err != nil {
					return err
				}
				return run(ctx, i, w)
			})
		}
		_ = group.Wait()
	}()
	n := 0
	for range done {
		n++
		out.Progress(float64(n)/float64(len(worlds)), fmt.Sprintf("world %d of %d", n, len(worlds)))
	}
	return group.Wait()
}

func runDelegate(ctx context.Context, p experiment.Params, out experiment.Out) error {
	thresholds, err := thresholdsOf(p, 25, 50, 75, 100)
	if err != nil {
		return fmt.Errorf("delegate: %w", err)
	}
	worlds, err := worldsOf(p, out)
	if err != nil {
		return fmt.Errorf("delegate: %w", err)
	}
	all := contestants()
	// results[world][contestant][threshold]
	results := make([][][]tally, len(worlds))
	err = eachWorld(ctx, worlds, out, func(ctx context.Context, i int, w *data.World) error {
		var err error
		results[i], err = competeOn(ctx, w, all, thresholds, p.Seed+uint64(i))
		return err
	})
	if err != nil {
		return fmt.Errorf("delegate: %w", err)
	}
	plot := experiment.Plot{Name: "delegate", Title: "Optimal delegations against probes",
		X: "probes, share of the brute force's", Y: "optimal, share"}
	for c, who := range all {
		series := experiment.Series{Name: who.name, Points: who.fixed}
		for t, ms := range thresholds {
			row := meanRow(results, c, t)
			row.Strategy, row.ThresholdMS = who.name, ms
			out.Row("delegate", row)
			if t == 0 || !who.fixed {
				series.X, series.Y = append(series.X, row.ProbesShare),
					append(series.Y, row.Optimal)
			}
		}
		plot.Series = append(plot.Series, series)
	}
	out.Plot(plot)
	out.Note(
		"Probes of training are not counted. ipmicra-proxy knows what the owners of the "+
			"training sites publish: proxy coordinates; "+
			"ipmicra-proxy-probes also knows the probes themselves, as the thesis' database "+
			"does. Means over %d worlds.", len(worlds))
	if at := slices.Index(thresholds, 50); at >= 0 && len(p.World) > 0 {
		claimDelegate(out, results, all, at)
	}
	return nil
}

// meanRow returns the mean result of a contestant at a threshold over the worlds.
func meanRow(results [][][]tally, contestant, threshold int) delegateRow {
	var row delegateRow
	n := float64(len(results))
	for _, world := range results {
		t := world[contestant][threshold]
		row.Optimal += t.rate() / n
		row.ProbesShare += t.share() / n
		row.ProbesPerURL += t.perURL() / n
		row.ExcessMS += t.meanExcess() / n
	}
	return row
}

// competeOn runs all contestants in one world.
func competeOn(
	ctx context.Context, w *data.World, all []contestant, thresholds []float64, seed uint64,
) ([][]tally, error) {
	train, test := split(w)
	rows := upTo(len(w.Crawlers))
	l, err := newDelegator(w, rows, learned{}, seed).teach(ctx, train)
	if err != nil {
		return nil, err
	}
	tree := treeOf(w, rows, train[:min(himicraSites, len(train))])
	out := make([][]tally, len(all))
	for c, who := range all {
		for i, ms := range thresholds {
			if i > 0 && who.fixed {
				out[c] = append(out[c], out[c][0])
				continue
			}
			s, err := who.make(w, time.Duration(ms*float64(time.Millisecond)), tree)
			if err != nil {
				return nil, err
			}
			d := newDelegator(w, rows, l, seed)
			d.probes = who.probes
			if err := d.train(ctx, s, train); err != nil {
				return nil, err
			}
			outcomes, err := d.run(ctx, s, test)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.Name, err)
			}
			out[c] = append(out[c], tallyOf(outcomes, len(rows)))
		}
	}
	return out, nil
}

// treeOf returns HiMicra's distance of crawlers, computed from the probes of some sites.
func treeOf(w *data.World, rows, sites []int) func(a, b assign.Candidate) float64 {
	probes := make(map[string][]float64, len(rows))
	for _, row := range rows {
		for _, site := range sites {
			probes[crawlerID(row)] = append(probes[crawlerID(row)], w.ProbeMS[row][site])
		}
	}
	return assign.TrainedDistance(probes)
}

// claimDelegate compares the results at 50 ms with the thesis' figures.
func claimDelegate(out experiment.Out, results [][][]tally, all []contestant, at int) {
	rows := map[string]delegateRow{}
	for c, who := range all {
		rows[who.name] = meanRow(results, c, at)
	}
	percent := func(r delegateRow) string {
		return fmt.Sprintf("%.1f %% optimal, %.1f %% of the probes, %.2f a URL", r.Optimal*100,
			r.ProbesShare*100, r.ProbesPerURL)
	}
	ip, hi, help := rows["ipmicra"], rows["himicra"], rows["ipmicra-proxy"]
	out.Claim("Papapetrou 2003, 8.6: IPMicra at 50 ms",
		"75 % (70 % in table 8.3) optimal, 25 % (29 %) of the probes, 2.99 a URL",
		percent(ip), ip.Optimal >= 0.70 && ip.Optimal <= 0.79 && ip.ProbesShare >= 0.22 &&
			ip.ProbesShare <= 0.30)
	out.Claim("Papapetrou 2003, table 8.1: HiMicra at 50 ms", "62 % optimal, 55 % of the probes",
		percent(hi), hi.Optimal >= 0.62 && hi.Optimal <= 0.70 && hi.ProbesShare >= 0.43 &&
			hi.ProbesShare <= 0.50)
	out.Claim("IPMicra with the coordinates' help at 50 ms",
		"more optimal with fewer probes than IPMicra, HiMicra or coordinates alone", percent(help),
		help.Optimal > max(ip.Optimal, hi.Optimal, rows["proxy"].Optimal) &&
			help.ProbesShare < min(ip.ProbesShare, hi.ProbesShare, rows["proxy"].ProbesShare))
}
