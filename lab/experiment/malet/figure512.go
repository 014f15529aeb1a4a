package malet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
)

func malet512() experiment.Experiment {
	return experiment.Experiment{
		Name: "malet-5.12", Title: "A crawl of three hours: overhead, coverage, balance, overlap",
		Source: thesis + ", figures 5.12 and 5.13, section 5.4.2",
		Run:    runMalet512,
	}
}

type crawlRow struct {
	Strategy    string  `json:"strategy"`
	Minutes     float64 `json:"minutes"`
	Crawlers    int     `json:"crawlers"`
	Servers     int     `json:"servers"`
	Pages       int     `json:"pages"`
	Failed      int     `json:"failed_connections"`
	GivenUp     int     `json:"given_up"`
	MB          float64 `json:"mb"`
	Messages    int     `json:"messages"` // of estimations, scouts and handovers
	Overhead    float64 `json:"overhead"` // messages over pages tried
	Coverage    float64 `json:"coverage"`
	Overlap     float64 `json:"overlap"`
	Least       float64 `json:"pages_least"` // of a crawler
	Most        float64 `json:"pages_most"`
	Deviation   float64 `json:"pages_deviation"`
	Balance     float64 `json:"balance"` // deviation over mean
	Estimations float64 `json:"estimations_per_server"`
	Beacons     float64 `json:"beacons_per_peer_minute"`
	Exchanges   float64 `json:"exchanges_per_peer_minute"`
}

func runMalet512(ctx context.Context, p experiment.Params, out experiment.Out) error {
	peers, sites, pages := p.Or(p.Peers, 14, 8), p.Or(p.Sites, 836, 16), p.Or(p.Rounds, 336, 20)
	end := 184 * time.Minute
	land, err := newGround(p, p.Seed)
	if err != nil {
		return err
	}
	w := land.world(peers, sites, crawlsim.PlanetLab(), p.Seed)
	names := []string{"proxy", "hash", "random"}
	g := newStage(ctx, out, len(names))
	var ours crawlRow
	plot := experiment.Plot{Name: "balance", Title: "Pages by crawler, the busiest first",
		X: "crawler", Y: "pages"}
	for _, name := range names {
		s, err := g.run(play{who: contenderNamed(name), world: w, seed: p.Seed,
			tune: func(c *crawlsim.Config) {
				c.Pages, c.End = pages, end
			}})
		if err != nil {
			return err
		}
		row, by := crawl(s, peers, sites, pages)
		row.Strategy = name
		out.Row("crawls", row)
		line := experiment.Series{Name: name}
		for i, n := range slices.Backward(sorted(by)) {
			line.X, line.Y = append(line.X, float64(len(by)-i)), append(line.Y, n)
		}
		plot.Series = append(plot.Series, line)
		if name == "proxy" {
			ours = row
		}
	}
	out.Plot(plot)
	source := thesis + ", 5.4.2: "
	out.Claim(source+"communication overhead, messages over pages", "0.065",
		fmt.Sprintf("%.3f", ours.Overhead), ours.Overhead <= 0.065)
	out.Claim(source+"updates for each estimation phase", "47",
		fmt.Sprintf("%.1f estimations a server", ours.Estimations), ours.Estimations < 47)
	out.Claim(source+"coverage", "0.65 (a good strategy has 1)",
		fmt.Sprintf("%.4f, the rest failed %d times", ours.Coverage, 4), ours.Coverage > 0.99)
	out.Claim(source+"overlap", "not measured, expected to be quite high",
		fmt.Sprintf("%.4f", ours.Overlap), ours.Overlap == 0)
	out.Claim(source+"balance: pages of the busiest and the idlest crawler",
		"28374 and 2125, deviation 7440 (0.57 of the mean)",
		fmt.Sprintf("%.0f and %.0f, deviation %.0f (%.2f of the mean)", ours.Most, ours.Least,
			ours.Deviation, ours.Balance), ours.Balance <= 0.57)
	out.Note(simulated)
	out.Note(
		"Figure 5.13 sorts answers by HTTP status; here a connection fails or it does not: %d of "+
			"%d failed (Malet: 9868 of 183456).", ours.Failed, ours.Pages+ours.Failed)
	return nil
}

// crawl summarises a run; by is the number of pages of each crawler.
func crawl(s *crawlsim.Sim, peers, sites, pages int) (row crawlRow, by []float64) {
	by = make([]float64, peers)
	type page struct{ server, page int }
	unique, last := map[page]bool{}, time.Duration(0)
	for _, d := range s.Downloads() {
		if d.Failed {
			continue
		}
		by[d.Peer]++
		unique[page{d.Server, d.Page}] = true
		last = max(last, d.At+d.Took)
	}
	c := s.Counts()
	messages := 2*(c.Estimations+c.Scouts) + c.Handovers + c.Moves
	minutes := s.Now().Minutes() * float64(peers)
	return crawlRow{
		Minutes: round(last.Minutes(), 1), Crawlers: peers, Servers: sites, Pages: c.Pages,
		Failed: c.Failed, GivenUp: c.GivenUp,
		MB: round(float64(c.Bytes)/1e6, 1), Messages: messages,
		Overhead: round(float64(messages)/float64(c.Pages+c.Failed), 4),
		Coverage: round(float64(len(unique))/float64(sites*pages), 4),
		Overlap:  round(float64(c.Pages-len(unique))/float64(len(unique)), 4),
		Least:    sorted(by)[0], Most: sorted(by)[peers-1], Deviation: round(deviation(by), 1),
		Balance:     round(deviation(by)/mean(by), 3),
		Estimations: round(float64(c.Estimations)/float64(sites), 2),
		Beacons:     round(float64(c.Beacons)/minutes, 2),
		Exchanges:   round(float64(c.Exchanges)/minutes, 2),
	}, by
}
