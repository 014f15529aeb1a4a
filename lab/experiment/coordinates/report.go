package coordinates

import (
	"fmt"
	"slices"

	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
)

// coordinatesReport plots the errors by rounds and compares them with the sources' figures. The
// claims of the paper are about its own data; the targets are for a wide-area matrix of some
// hundred nodes.
func coordinatesReport(
	out experiment.Out, m *data.Matrix, rows map[string][]coordinatesRow, seeds int,
) {
	times := "one time: a sample is the truth itself"
	if len(m.Slices) > 1 {
		times = fmt.Sprintf("%d times: a sample is drawn from one of them, the truth is the median",
			len(m.Slices))
	}
	out.Note(
		"%d nodes, %s; mean of %d seeds; all peers start at the origin; each peer initiates one "+
			"exchange per round with a random other one. With peerd both ends update; with serf, "+
			"vivaldi and peerd-one-way only the initiator does.",
		m.Len(), times, seeds)
	out.Note(
		"Errors are over pairs of honest peers. Liars are 30 %% of the peers: from the first " +
			"round on, or after four fifths of them.")
	var names []string
	for name := range rows {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, p := range []struct {
		name, title string
		attacked    bool
		value       func(coordinatesRow) float64
	}{
		{"coordinates-re50", "Median relative error", false, func(r coordinatesRow) float64 {
			return r.RE50
		}},
		{"coordinates-re90", "90th percentile of the relative error", false,
			func(r coordinatesRow) float64 {
				return r.RE90
			}},
		{"coordinates-liars-re50", "Median relative error among honest peers, 30 % liars", true,
			func(r coordinatesRow) float64 {
				return r.RE50
			}},
	} {
		plot := experiment.Plot{Name: p.name, Title: p.title, X: "rounds", Y: "relative error",
			LogX: true, LogY: true}
		for _, name := range names {
			if p.attacked != (rows[name][0].Attack != "") {
				continue
			}
			s := experiment.Series{Name: name}
			for _, r := range rows[name] {
				s.X, s.Y = append(s.X, float64(r.Round)), append(s.Y, p.value(r))
			}
			plot.Series = append(plot.Series, s)
		}
		out.Plot(plot)
	}
	coordinatesClaims(out, rows)
}

// coordinatesClaims adds the claims that can be compared.
func coordinatesClaims(out experiment.Out, rows map[string][]coordinatesRow) {
	last := func(name string) (coordinatesRow, bool) {
		r := rows[name]
		if len(r) == 0 {
			return coordinatesRow{}, false
		}
		return r[len(r)-1], true
	}
	own, ok := last("peerd")
	if !ok {
		return
	}
	if v, ok := last("vivaldi-2d+h"); ok {
		out.Claim("Dabek 2004, abstract: 2D+height on King, 1,740 nodes",
			"median error 11 % once converged",
			fmt.Sprintf("%.1f %% on this matrix after %d rounds", 100*v.RE50, v.Round),
			v.RE50 <= 0.11)
	}
	if s, ok := last("serf"); ok {
		out.Claim("hashicorp/serf coordinate v0.11.0, the same run",
			fmt.Sprintf("RE50 %.3f, RE90 %.2f", s.RE50, s.RE90),
			fmt.Sprintf("peerd %.3f, %.2f after %d rounds", own.RE50, own.RE90, own.Round),
			own.RE50 <= s.RE50 && own.RE90 <= s.RE90)
	}
	for _, r := range rows["peerd"] {
		switch r.Round {
		case 100:
			out.Claim("target after 100 rounds", "RE50 at most .10", fmt.Sprintf("%.3f", r.RE50),
				r.RE50 <= 0.10)
		case 500:
			out.Claim("target after 500 rounds", "RE50 at most .08, RE90 at most .36",
				fmt.Sprintf("%.3f, %.2f", r.RE50, r.RE90), r.RE50 <= 0.08 && r.RE90 <= 0.36)
		}
	}
	worst, found := 0.0, false
	for _, rs := range rows {
		if r := rs[len(rs)-1]; r.Algorithm == "peerd" &&
			(r.Attack == "random" || r.Attack == "inflated") {
			worst, found = max(worst, r.RE50), true
		}
	}
	if found {
		out.Claim("target with 30 % liars, random or inflated", "RE50 at most .09",
			fmt.Sprintf("%.3f in the worst case", worst), worst <= 0.09)
	}
}
