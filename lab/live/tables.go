package live

import (
	"maps"
	"math"
	"slices"

	"peerd/lab/experiment"
)

// summaryRow is figure 5.12, and what section 5.4.2 adds.
type summaryRow struct {
	Strategy    string  `json:"strategy"`
	Minutes     float64 `json:"minutes"`
	Peers       int     `json:"peers"`
	Hosts       int     `json:"hosts"`
	Connections int     `json:"successful_connections"`
	Failed      int     `json:"failed_connections"`
	Pages       int     `json:"pages"`
	Repeated    float64 `json:"repeated"` // share of the fetches of pages that were repetitions
	MB          float64 `json:"mb"`
	Links       int     `json:"links"`
	PerPage     float64 `json:"links_per_page"`
	Estimations int     `json:"estimations"`
	Handovers   int     `json:"handovers"`
	Takeovers   int     `json:"takeovers"`
	Claims      int     `json:"claims"`
	Balance     float64 `json:"balance"` // deviation over mean of the pages by peer
	Wrong       float64 `json:"prediction_error"`
}

// downloadRow is figure 5.8.
type downloadRow struct {
	Strategy  string  `json:"strategy"`
	P90       float64 `json:"p90_ms"`
	P50       float64 `json:"p50_ms"`
	ServedP90 float64 `json:"served_p90_ms"` // of pages that were fetched for other peers
	Pages     int     `json:"pages"`
	Failed    int     `json:"failed"`
	MB        float64 `json:"mb"`
}

// batchRow is figure 5.10: what it took a peer to place the subnets that it claimed.
type batchRow struct {
	Strategy string  `json:"strategy"`
	Peer     string  `json:"peer"`
	Subnets  int     `json:"subnets"`
	Open     int     `json:"not_decided"`
	Seconds  float64 `json:"seconds_to_decide"` // median
	Slowest  float64 `json:"slowest_s"`
	Error    float64 `json:"median_error"`
	Updates  float64 `json:"measurements_per_subnet"`
}

// updatesRow is figure 5.9.
type updatesRow struct {
	Strategy     string `json:"strategy"`
	Measurements int    `json:"measurements"`
	Subnets      int    `json:"subnets"`
}

// answerRow is figure 5.13.
type answerRow struct {
	Strategy string `json:"strategy"`
	Answer   string `json:"answer"` // status of HTTP, or the outcome without one
	Count    int    `json:"count"`
}

// tables adds all tables.
func tables(out experiment.Out, groups []*group) {
	for _, g := range groups {
		out.Row("summary", g.summary())
	}
	for _, g := range groups {
		times := g.times(false)
		out.Row("downloads", downloadRow{g.strategy, round(quantile(times, 0.9), 1),
			round(quantile(times, 0.5), 1), round(quantile(g.times(true), 0.9), 1),
			len(g.downloads), g.sum.failed, round(float64(g.sum.bytes)/1e6, 2)})
	}
	for _, g := range groups {
		g.batches(out)
	}
	for _, g := range groups {
		for _, a := range slices.Sorted(maps.Keys(g.answers)) {
			out.Row("answers", answerRow{g.strategy, a, g.answers[a]})
		}
	}
}

func (g *group) summary() summaryRow {
	fetches := 0
	for _, n := range g.pages {
		fetches += n
	}
	r := summaryRow{
		Strategy: g.strategy, Minutes: round(g.minutes(g.end), 1), Peers: len(g.at),
		Hosts: len(g.hosts), Connections: g.sum.answered, Failed: g.sum.failed,
		Pages: len(g.pages), MB: round(float64(g.sum.bytes)/1e6, 2), Links: g.sum.links,
		Estimations: g.sum.estimations, Handovers: g.messages["handed over subnet"],
		Takeovers: g.messages["took over subnet"], Claims: g.messages["claimed subnet"],
		Wrong: round(quantile(g.wrong, 0.5), 3),
	}
	if fetches > 0 {
		r.Repeated = round(float64(fetches-len(g.pages))/float64(fetches), 4)
		r.PerPage = round(float64(g.sum.links)/float64(fetches), 1)
	}
	var pages []float64
	sum := 0.0
	for peer := range g.at { // also those without a page
		pages = append(pages, float64(g.byPeer[peer]))
		sum += float64(g.byPeer[peer])
	}
	if mean := sum / float64(len(pages)); mean > 0 {
		squares := 0.0
		for _, n := range pages {
			squares += (n - mean) * (n - mean)
		}
		r.Balance = round(math.Sqrt(squares/float64(len(pages)))/mean, 3)
	}
	return r
}

// batches adds a row for each peer that claimed subnets.
func (g *group) batches(out experiment.Out) {
	by := map[string][]*cost{}
	for _, c := range g.costs {
		by[c.owner] = append(by[c.owner], c)
	}
	for _, peer := range slices.Sorted(maps.Keys(by)) {
		row := batchRow{Strategy: g.strategy, Peer: short(peer), Subnets: len(by[peer])}
		var seconds, errs []float64
		updates := 0
		for _, c := range by[peer] {
			if !c.decidedOnce {
				row.Open++
				continue
			}
			seconds = append(seconds, c.seconds)
			updates += c.updates
			if c.hasProxy {
				errs = append(errs, c.error)
			}
		}
		row.Seconds, row.Slowest = round(quantile(seconds, 0.5), 2), round(quantile(seconds, 1), 2)
		row.Error = round(quantile(errs, 0.5), 3)
		row.Updates = round(float64(updates)/float64(len(seconds)), 2)
		out.Row("batches", row)
	}
}
