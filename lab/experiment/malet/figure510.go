package malet

import (
	"context"
	"fmt"
	"time"

	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
)

func malet510() experiment.Experiment {
	return experiment.Experiment{
		Name: "malet-5.10", Title: "What it costs to place a batch of servers", Source: thesis +
			", figures 5.10 and 5.11", Run: runMalet510,
	}
}

type batchRow struct {
	Strategy string  `json:"strategy"`
	Crawler  int     `json:"crawler"`
	Seconds  float64 `json:"seconds"` // until all its servers were assigned
	Error    float64 `json:"median_error"`
	Servers  int     `json:"servers"`
	Open     int     `json:"not_assigned"` // at the end
	Updates  float64 `json:"updates_per_server"`
}

type workRow struct {
	Strategy string  `json:"strategy"`
	Min      int     `json:"min"`
	Calls    float64 `json:"calls_per_peer"` // decisions and reviews in that minute
	Fetches  float64 `json:"fetches_per_peer"`
}

func runMalet510(ctx context.Context, p experiment.Params, out experiment.Out) error {
	peers := p.Or(p.Peers, 7, 7)
	sites := p.Or(p.Sites, 100*peers, 2*peers)
	end := time.Hour
	if p.Quick {
		end = 15 * time.Minute
	}
	land, err := newGround(p, p.Seed)
	if err != nil {
		return err
	}
	w := land.world(peers, sites, crawlsim.PlanetLab(), p.Seed)
	names := []string{"proxy", "vivaldi-0.25"}
	g := newStage(ctx, out, len(names))
	var work []workRow
	plot := experiment.Plot{Name: "work", Title: "Decisions and reviews",
		X: "minutes after the first server was found", Y: "calls a minute and peer"}
	open := map[string]int{}
	batch := map[string][2]float64{} // mean seconds and updates
	for _, name := range names {
		line := experiment.Series{Name: name}
		s, err := g.run(play{who: contenderNamed(name), world: w, seed: p.Seed,
			tune: func(c *crawlsim.Config) {
				c.Pages, c.Assigned, c.FoundWithin = thesisUpdates+10, 40, 10*time.Second
				c.Finder = func(server int) int { return server % peers }
				c.End = c.WarmUp + end
			},
			hooks: func(s *crawlsim.Sim) {
				was := crawlsim.Counts{}
				start := crawlsim.Default().WarmUp
				for m := 1; m <= int(end.Minutes()); m++ {
					s.At(start+time.Duration(m)*time.Minute, func() {
						c := s.Counts()
						calls := c.Decisions + c.Reviews - was.Decisions - was.Reviews
						row := workRow{name, m, round(float64(calls)/float64(peers), 2),
							round(float64(c.Pages+c.Failed-was.Pages-was.Failed)/float64(peers), 2)}
						was = c
						work = append(work, row)
						line.X, line.Y = append(line.X, float64(m)), append(line.Y, row.Calls)
					})
				}
			}})
		if err != nil {
			return err
		}
		plot.Series = append(plot.Series, line)
		var seconds, updates []float64
		for c := range peers {
			row := batchOf(s, name, c, peers)
			out.Row("batches", row)
			seconds, updates = append(seconds, row.Seconds), append(updates, row.Updates)
		}
		batch[name] = [2]float64{mean(seconds), mean(updates)}
		open[name] = s.Open()
	}
	for _, r := range work {
		out.Row("work", r)
	}
	out.Plot(plot)
	claims510(out, batch, open["vivaldi-0.25"], sites, work, int(end.Minutes()))
	out.Note(simulated)
	out.Note(
		"Virtual time has no processor time: the work is counted in calls of the "+
			"strategy, each of some tenths of a millisecond. %d crawlers with %d servers each, "+
			"all found at once.", peers, sites/peers)
	return nil
}

// batchOf summarises the subnets of one crawler.
func batchOf(s *crawlsim.Sim, name string, crawler, peers int) batchRow {
	row := batchRow{Strategy: name, Crawler: crawler + 1}
	var errs []float64
	first, last, probes := crawlsim.Default().WarmUp, time.Duration(0), 0
	for i, n := range s.Subnets() {
		if i%peers != crawler {
			continue
		}
		probes += n.Probes
		row.Servers++
		if !n.Decided {
			row.Open++
			last = s.Now()
			continue
		}
		last = max(last, n.DoneAt)
		if n.Proxy != nil {
			errs = append(errs, n.Proxy.Error)
		}
	}
	row.Seconds, row.Error = round((last-first).Seconds(), 1),
		round(quantile(sorted(errs), 0.5), 3)
	row.Updates = round(float64(probes)/float64(row.Servers), 1)
	return row
}

// claims510 compares the batches and the work with the thesis. open is the number of servers
// that the algorithm of the thesis did not assign.
func claims510(out experiment.Out, batch map[string][2]float64, open, sites int, work []workRow,
	end int) {
	ours, his := batch["proxy"], batch["vivaldi-0.25"]
	out.Claim(thesis+", 5.3.2: time to converge a batch", "1081 s on average, 67 updates",
		fmt.Sprintf(
			"proxy: %.0f s, %.1f updates a server; the thesis' own way rebuilt and as polite: "+
				"%.0f s, %.0f updates, %d of %d not assigned by then", ours[0], ours[1], his[0],
			his[1], open, sites), ours[0] < 1081 && ours[1] < 67)
	early, late := 0.0, 0.0
	for _, r := range work {
		if r.Strategy == "proxy" && r.Min <= 2 {
			early += r.Calls / 2
		}
		if r.Strategy == "proxy" && r.Min == end {
			late = r.Calls
		}
	}
	out.Claim(thesis+", figure 5.11: the computing falls when the batch is assigned",
		"the load drops after 25 minutes, from 1.5-4 to below 1.5",
		fmt.Sprintf(
			"%.0f calls of the strategy a minute and peer in the first two minutes, %.1f in the "+
				"last", early, late), late < early)
}
