package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"peerd/lab/experiment"
)

// ErrEmpty means that logs have no events to draw.
var ErrEmpty = errors.New("the logs have no run of a peer")

// Figures returns an experiment that draws the figures of Malet's chapter 5 from merged logs:
// those about one peer for the one with an ID that ends with peer, and that about one server for a
// subnet; "" means the most suitable ones. Logs of runs with different strategies are compared.
// command is the command line that repeats it.
func Figures(names []string, peer, subnet, command string) experiment.Experiment {
	return experiment.Experiment{
		Name: "live", Title: "A live run", Source: "Malet 2009, figures 5.1 to 5.13",
		Command: command, Files: names,
		Run: func(_ context.Context, _ experiment.Params, out experiment.Out) error {
			groups, skipped, err := read(names, choice{peer, subnet})
			if err != nil {
				return err
			}
			if len(groups) == 0 {
				return ErrEmpty
			}
			draw(out, groups)
			tables(out, groups)
			for _, g := range groups {
				out.Note("Strategy %s: figures 5.1, 5.2 and 5.4 are about peer %s, 5.6 about "+
					"subnet %s.", g.strategy, short(g.affected), g.server)
			}
			if n := len(groups[0].marks); n > 0 {
				out.Note("Vertical lines are the %d times at which the experiment did something "+
					"to a peer.", n)
			}
			if skipped > 0 {
				out.Note("%d lines were not read: they were cut off, or are of a kind that this "+
					"version does not know.", skipped)
			}
			return nil
		},
	}
}

// short returns the end of a peer ID.
func short(peer string) string { return peer[max(0, len(peer)-8):] }

// line is a plot with one or two lines for each strategy.
type line struct {
	name, title, y string
	of             func(*group) []point
}

// draw adds all plots.
func draw(out experiment.Out, groups []*group) {
	for _, l := range []line{
		{name: "5.1-distance", title: "Predicted page times of all servers at the affected peer",
			y: "median, ms", of: func(g *group) []point { return g.distance }},
		{name: "5.1-error", title: "Error of the servers' proxy coordinates",
			y: "median, relative", of: func(g *group) []point { return g.proxyError }},
		{name: "5.2-urls", title: "URLs assigned to the affected peer", y: "URLs so far",
			of: func(g *group) []point { total, _ := g.received(); return total }},
		{name: "5.3-speed",
			title: fmt.Sprintf("Time of the last %d downloads of all peers", recent),
			y:     "median, ms", of: (*group).speed},
		{name: "5.4-rate", title: "Rate of assignment to the affected peer", y: "URLs per minute",
			of: func(g *group) []point { _, rate := g.received(); return rate }},
		{name: "5.6-distance", title: "Predicted page times of all peers at one server",
			y: "median, ms", of: func(g *group) []point { return g.serverTime }},
		{name: "5.6-error", title: "Error of the proxy coordinate of that server",
			y: "relative", of: func(g *group) []point { return g.serverError }},
		{name: "5.11-load", title: "Load of the machines", y: "median of processes, 1 minute",
			of: func(g *group) []point { return g.load }},
		{name: "4.2.3-queued", title: "URLs in the queues of their owners", y: "URLs",
			of: func(g *group) []point { return g.queued }},
		{name: "4.2.3-waiting", title: "URLs on their way to an owner", y: "URLs",
			of: func(g *group) []point { return g.waiting }},
	} {
		p := experiment.Plot{Name: l.name, Title: l.title, X: "minutes", Y: l.y}
		top := 0.0
		for _, g := range groups {
			s := experiment.Series{Name: g.strategy}
			for _, xy := range l.of(g) {
				s.X, s.Y, top = append(s.X, xy.x), append(s.Y, xy.y), max(top, xy.y)
			}
			p.Series = append(p.Series, s)
		}
		out.Plot(withMarks(p, groups[0].marks, top))
	}
	drawTimes(out, groups)
	drawUpdates(out, groups)
}

// withMarks adds a vertical line at each mark.
func withMarks(p experiment.Plot, marks []point, top float64) experiment.Plot {
	last := -1.0
	s := experiment.Series{Name: "marks"}
	for _, m := range marks {
		if m.x-last < 1.0/60 { // several at once
			continue
		}
		last = m.x
		// Up at one mark, down at the next one, and along the axis between every other two.
		s.X = append(s.X, m.x, m.x, m.x)
		s.Y = append(s.Y, 0, top, 0)
	}
	if len(s.X) > 0 {
		p.Series = append(p.Series, s)
	}
	return p
}

// drawTimes adds figure 5.7, without the pages that were fetched for other peers.
func drawTimes(out experiment.Out, groups []*group) {
	p := experiment.Plot{Name: "5.7-cdf", Title: "Download times of assigned pages",
		X: "download time, ms", Y: "share of pages", LogX: true}
	for _, g := range groups {
		s := experiment.Series{Name: g.strategy}
		times := g.times(false)
		for q := 1; q <= 99; q++ {
			s.X = append(s.X, quantile(times, float64(q)/100))
			s.Y = append(s.Y, float64(q)/100)
		}
		p.Series = append(p.Series, s)
	}
	out.Plot(p)
}

// times returns the download times, of the pages that were fetched for other peers, or the others.
func (g *group) times(served bool) (all []float64) {
	for _, d := range g.downloads {
		if d.served == served {
			all = append(all, d.ms)
		}
	}
	slices.Sort(all)
	return all
}

// drawUpdates adds figure 5.9.
func drawUpdates(out experiment.Out, groups []*group) {
	p := experiment.Plot{Name: "5.9-updates", Title: "Measurements until a subnet was decided",
		X: "measurements", Y: "subnets"}
	for _, g := range groups {
		counts := map[int]int{}
		for _, c := range g.costs {
			if c.decidedOnce {
				counts[c.updates]++
			}
		}
		s := experiment.Series{Name: g.strategy}
		for _, n := range slices.Sorted(maps.Keys(counts)) {
			s.X, s.Y = append(s.X, float64(n)), append(s.Y, float64(counts[n]))
			out.Row("updates", updatesRow{g.strategy, n, counts[n]})
		}
		p.Series = append(p.Series, s)
	}
	out.Plot(p)
}
