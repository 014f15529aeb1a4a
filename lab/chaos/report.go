package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// The bounds of the checks.
const (
	maxTakeover = 60.0 // seconds
	maxHealing  = 120.0
	maxIdle     = 5.0
)

// Check is a figure of the report and its bound.
type Check struct {
	What string `json:"what"`
	Want string `json:"want"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
}

// ok reports whether all checks passed.
func (r Report) ok() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
}

// must adds a check that got is at most bound.
func (r *Report) must(what string, got, bound float64) {
	r.Checks = append(r.Checks, Check{What: what, Want: fmt.Sprintf("≤ %.6g", bound),
		Got: fmt.Sprintf("%.6g", got), OK: got <= bound})
}

// check adds the checks of the scenario.
func (r *Report) check() {
	r.Checks = append(r.Checks, Check{What: "coverage", Want: "1",
		Got: fmt.Sprintf("%.6g", r.Coverage), OK: r.Coverage == 1})
	r.must("overlap", r.Overlap, map[string]float64{"kills": 0.005, "lost": 1, "partition": 0.02,
		"leave": 0, "mixed": 0.02}[r.Scenario])
	r.must("politeness violations", float64(r.Politeness.Violations), 0)
	r.must("robots violations", float64(r.RobotsViolations), 0)
	r.must("URLs lost", float64(r.Lost), 0)
	r.must("requests that are unlogged or not by peers", float64(r.LogLost+r.Foreign), 0)
	r.must("peers that exited unexpectedly", float64(len(r.Crashes)), 0)
	r.must("subnets with two owners at the end", float64(len(r.Doubles)), 0)
	r.Checks = append(r.Checks, Check{What: "end", Want: "quiet", Got: r.Outcome,
		OK: r.Outcome == "quiet"})
	for _, t := range r.Takeovers {
		what := fmt.Sprintf("peer %d, %s at %.0f s: ", t.Peer, t.Kind, t.At)
		r.must(what+"subnets without a request afterwards",
			float64(t.Subnets-t.Returned-t.Taken), 0)
		if t.Taken > 0 {
			r.must(what+"seconds to the first fetch of a new owner", t.MaxSeconds, maxTakeover)
		}
	}
	for _, c := range r.Cuts {
		r.must(fmt.Sprintf("cut at %.0f s: seconds to one owner", c.At), c.OneOwnerSeconds,
			maxHealing)
	}
	for _, l := range r.Leaves {
		what := fmt.Sprintf("peer %d left at %.0f s: ", l.Peer, l.At)
		r.must(what+"subnets without a request afterwards", float64(l.Orphaned), 0)
		if r.Scenario == "leave" { // elsewhere cuts make the successors wait
			r.must(what+"seconds idle", l.MaxIdleSeconds, maxIdle)
		}
	}
	for _, f := range r.Refetched {
		r.must(fmt.Sprintf("pages of peer %d fetched again that it had %v before", f.Peer,
			replicaTime), float64(f.Old), 0)
	}
}

// checkPartial adds the checks that hold at any time of a run, for an interrupted run.
func (r *Report) checkPartial() {
	r.Lost, r.Missing = 0, nil // the crawl was not over
	r.must("politeness violations", float64(r.Politeness.Violations), 0)
	r.must("robots violations", float64(r.RobotsViolations), 0)
	r.must("requests that are unlogged or not by peers", float64(r.LogLost+r.Foreign), 0)
	r.must("peers that exited unexpectedly", float64(len(r.Crashes)), 0)
}

// table returns the report as text.
func (r Report) table() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s, seed %d: %d peers, %d sites, %.0f s, %s", r.Scenario, r.Seed, r.Peers, r.Sites,
		r.WallSeconds, r.Outcome)
	line("  pages        %d of %d, coverage %.6g, %d lost, by peer %v", r.PagesFetched,
		r.PagesExpected, r.Coverage, r.Lost, r.ByPeer)
	line(
		"  overlap      %.4f %%, %d fetches; %d repeated, %d of them at a fault, %d by another "+
			"peer",
		100*r.Overlap, r.Fetches, r.Repeats.Total, r.Repeats.AtFault, r.Repeats.ByOther)
	line("  politeness   %d violations, %d of them overlaps; robots.txt %d",
		r.Politeness.Violations, r.Politeness.Overlaps, r.RobotsViolations)
	for _, k := range []kind{kill, start, lose, pause, cut, leave, crash} {
		if n := r.Faults[k]; n > 0 {
			line("  %-12s %d", k, n)
		}
	}
	for _, t := range r.Takeovers {
		line(
			"  %-5s peer %d at %.0f s for %.0f s: %d subnets with work; %d returned to (at most "+
				"%.1f s after), %d taken over (median %.1f s, at most %.1f s)",
			t.Kind, t.Peer, t.At, t.Down, t.Subnets, t.Returned, t.ReturnMaxSeconds, t.Taken,
			t.MedianSeconds, t.MaxSeconds)
	}
	for _, c := range r.Cuts {
		line(
			"  cut at %.0f s for %.0f s of %d directions: %d and %d pages meanwhile, in %d of %d "+
				"subnets with work; %d with two owners, one each after %.0f s",
			c.At, c.Lasted, c.Pairs, c.PagesA, c.PagesB, c.Served, c.Busy, c.Doubled,
			c.OneOwnerSeconds)
	}
	for _, l := range r.Leaves {
		line(
			"  leave of peer %d at %.0f s took %.1f s: %d subnets with work, %d orphans; idle "+
				"median %.1f s, at most %.1f s",
			l.Peer, l.At, l.Took, l.Subnets, l.Orphaned, l.MedianIdleSeconds, l.MaxIdleSeconds)
	}
	for _, f := range r.Refetched {
		line(
			"  lost peer %d: %d pages archived only there, %d more in flight or 30 s old; %d "+
				"fetched again, %d of them older",
			f.Peer, f.ArchivedThere, f.InFlight, f.Again, f.Old)
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"early", r.Early}, {"repeated", r.Repeats.List}, {"missing", r.Missing}, {"held", r.Held},
		{"crashed", r.Crashes}, {"two owners", r.Doubles}} {
		for _, l := range list.lines {
			line("    %s: %s", list.title, l)
		}
	}
	for _, c := range r.Checks {
		if !c.OK {
			line("  FAILED %s: %s, want %s", c.What, c.Got, c.Want)
		}
	}
	switch {
	case r.Outcome == interrupted:
		line("  interrupted: these are the figures so far; what must hold at the end was not " +
			"checked")
	case r.ok():
		line("  everything holds")
	}
	return b.String()
}
