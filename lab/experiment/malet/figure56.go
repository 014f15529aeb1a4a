package malet

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
)

func malet56() experiment.Experiment {
	return experiment.Experiment{
		Name: "malet-5.6", Title: "A web server that answers 5 s later for a while",
		Source: thesis + ", figure 5.6", Run: runMalet56,
	}
}

// fixed never decides: it lets random peers measure again and again, as Malet's control node
// did.
type fixed struct{ seed uint64 }

func (fixed) Name() string { return "fixed" }

func (f fixed) Next(e assign.Evidence) (assign.Step, error) {
	at := uint64(e.Now.UnixNano())
	rng := rand.New(rand.NewPCG(f.seed, at))
	return assign.Step{Probe: e.Candidates[rng.IntN(len(e.Candidates))].ID}, nil
}

type serverRow struct {
	Min       float64 `json:"min"`
	Predicted float64 `json:"predicted_ms"` // median over the peers
	Reviewed  float64 `json:"latest_ms"`    // median of the last ten downloads
	Delay     float64 `json:"delay_ms"`     // of the proxy coordinate
	Moved     float64 `json:"moved_ms"`     // of its point, since the server became slow
	Error     float64 `json:"error"`
}

func runMalet56(ctx context.Context, p experiment.Params, out experiment.Out) error {
	peers := p.Or(p.Peers, 8, 8)
	const slowFrom, slowTo, end = 58 * time.Minute, 76 * time.Minute, 100 * time.Minute
	land, err := newGround(p, p.Seed)
	if err != nil {
		return err
	}
	w := land.world(peers, 1, quiet(crawlsim.PlanetLab()), p.Seed)
	strategy, err := assign.NewProxy(assign.DefaultProxyConfig())
	if err != nil {
		return err
	}
	who := contender{name: "fixed", make: same(func() (assign.Strategy, error) {
		return fixed{p.Seed}, nil
	})}
	var rows []serverRow
	var before *coords.Proxy
	look := func(s *crawlsim.Sim) {
		e := s.Evidence(s.Subnets()[0])
		e.CanProbe = false
		step, err := strategy.Next(e)
		if err != nil || step.Proxy == nil {
			return
		}
		if s.Now() <= slowFrom {
			before = step.Proxy
		}
		var times, late []float64
		for _, t := range step.Predicted {
			times = append(times, ms(t))
		}
		for _, x := range e.Samples[max(0, len(e.Samples)-10):] {
			if !x.Failed {
				late = append(late, ms(x.Connect+x.FirstByte+x.Body))
			}
		}
		moved := 0.0
		if before != nil && s.Now() > slowFrom {
			moved = flat(before.At, step.Proxy.At)
		}
		rows = append(rows, serverRow{
			round(s.Now().Minutes(), 2), round(quantile(sorted(times), 0.5), 1),
			round(quantile(sorted(late), 0.5), 1),
			round(step.Proxy.Delay, 1), round(moved, 2), round(step.Proxy.Error, 3),
		})
	}
	g := newStage(ctx, out, 2)
	_, err = g.run(play{who: who, world: w, seed: p.Seed,
		tune: func(c *crawlsim.Config) {
			c.Pages, c.End, c.Gap, c.Pace, c.WarmUp, c.FoundWithin = 0, end, 10*time.Second, 0, 0,
				time.Second
			c.Finder = func(int) int { return 0 }
		},
		hooks: func(s *crawlsim.Sim) {
			s.At(slowFrom, func() { s.Delay(0, 5*time.Second) })
			s.At(slowTo, func() { s.Delay(0, 0) })
			pause := 30 * time.Second
			if p.Quick {
				pause = 4 * time.Minute
			}
			for t := 5 * time.Minute; t <= end; t += pause {
				s.At(t, func() { look(s) })
			}
		}})
	if err != nil {
		return err
	}
	moves, err := moodMoves(g, land, p, slowFrom/2, slowTo/2, end/2)
	if err != nil {
		return err
	}
	report56(out, rows, slowFrom, slowTo, moves, peers, p.Or(p.Sites, 30, 6))
	return nil
}

// report56 writes rows, plot and claims. moves is the number of needless moves of subnets.
func report56(out experiment.Out, rows []serverRow, slowFrom, slowTo time.Duration,
	moves, peers, subnets int) {
	rise := until(rows, slowFrom, func(r serverRow) bool { return r.Predicted > 2500 })
	fall := until(rows, slowTo, func(r serverRow) bool { return r.Predicted < 2500 })
	stray, worst := 0.0, 0.0
	plot := experiment.Plot{Name: "server",
		Title: "Predicted time of a page, median over the peers", X: "minutes", Y: "ms"}
	a, b := experiment.Series{Name: "predicted"},
		experiment.Series{Name: "median of the last ten downloads"}
	for _, r := range rows {
		out.Row("server", r)
		a.X, a.Y = append(a.X, r.Min), append(a.Y, r.Predicted)
		b.X, b.Y = append(b.X, r.Min), append(b.Y, r.Reviewed)
		stray, worst = max(stray, r.Moved), max(worst, r.Error)
	}
	plot.Series = []experiment.Series{a, b}
	out.Plot(plot)
	out.Claim(thesis+", 5.1.3: the distance grows after the response time", "4 minutes later",
		fmt.Sprintf("the predicted time, %.1f minutes later", rise), rise <= 4)
	out.Claim(thesis+", 5.1.3: and falls after it", "similar behaviour",
		fmt.Sprintf("%.1f minutes later", fall), !math.IsNaN(fall) && fall <= 8)
	out.Claim(thesis+", 5.1.3: the server moves away from all crawlers",
		"its coordinate moves; here its delay grows and its place stays, so that the choice "+
			"among peers is not touched",
		fmt.Sprintf(
			"the place strays by at most %.0f ms; %d needless moves of %d subnets while their "+
				"servers were slow", stray, moves, subnets), moves == 0)
	out.Note(simulated)
	out.Note(
		"One request every 10 s by a random one of %d peers, as in the thesis; %d to %d samples "+
			"are kept. The fit uses medians, so that it changes when half of them are new. In "+
			"Malet's algorithm a sudden change increases the error; here the largest reported "+
			"error is %.2f.",
		peers, assign.HistorySize, assign.HistorySize*5/4, worst)
}

// until returns the minutes from a time to the first row that fulfils ok.
func until(rows []serverRow, from time.Duration, ok func(serverRow) bool) float64 {
	for _, r := range rows {
		if r.Min > from.Minutes() && ok(r) {
			return r.Min - from.Minutes()
		}
	}
	return math.NaN()
}

// flat returns the distance of two points without their heights.
func flat(a, b coords.Coordinate) float64 { return a.Distance(b) - a.Height - b.Height }

// moodMoves simulates a crawl during which all servers are 5 s late for a while, and returns
// the number of needless moves during that time.
func moodMoves(
	g *stage, land ground, p experiment.Params, from, to, end time.Duration,
) (int, error) {
	w := land.world(8, p.Or(p.Sites, 30, 6), quiet(crawlsim.PlanetLab()), p.Seed)
	s, err := g.run(play{who: contenderNamed("proxy"), world: w, seed: p.Seed,
		tune: func(c *crawlsim.Config) { c.Pages, c.End = 0, end },
		hooks: func(s *crawlsim.Sim) {
			set := func(by time.Duration) {
				for i := range w.Servers {
					s.Delay(i, by)
				}
			}
			s.At(from, func() { set(5 * time.Second) })
			s.At(to, func() { set(0) })
		}})
	if err != nil {
		return 0, err
	}
	needless := 0
	for _, n := range s.Subnets() {
		for _, m := range n.Moves {
			if m.Needless && m.At >= from && m.At < to {
				needless++
			}
		}
	}
	return needless, nil
}
