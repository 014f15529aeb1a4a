package emulate

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Timed reports whether the report has page times.
func (r Report) Timed() bool { return r.Download != Times{} }

// Table returns the report as a text table that ends with a newline. Without page times, or a
// strategy and with it the peers' figures, it has the lines of the others only.
func (r Report) Table() string {
	if !r.Timed() {
		return r.lines()
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, x Times) {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t\n", name, x.P50, x.P90, x.Mean)
	}
	fmt.Fprintf(t, "page time, ms\tp50\tp90\tmean\t\n")
	row("all downloads", r.Download)
	row("by the owners", r.Assigned)
	row("oracle", r.Oracle)
	row("random", r.Random)
	t.Flush()
	return b.String() + "\n" + r.lines()
}

// lines returns the figures that are not page times.
func (r Report) lines() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if r.Strategy != "" {
		line("crawl", "%d peers, %d sites, strategy %s, seed %d, %.1f s", r.Peers, r.Sites,
			r.Strategy, r.Seed, r.WallSeconds)
	} else {
		line("crawl", "%d peers, %d sites", r.Peers, r.Sites)
	}
	line("pages", "%d of %d, coverage %.4f, overlap %.4f", r.PagesFetched, r.PagesExpected,
		r.Coverage, r.Overlap)
	line("hosts per peer", "balance %.2f (standard deviation over mean; 0 is even)", r.Balance)
	if r.Timed() {
		text := fmt.Sprintf("%.0f %% at the fastest peer, %.0f %% within a tenth of it",
			100*r.OptimalShare, 100*r.NearOptimalShare)
		if r.Strategy != "" {
			text += fmt.Sprintf(", %.1f estimations each", r.EstimationsPerSubnet)
		}
		line("subnets", "%s", text)
	}
	if r.Strategy != "" {
		line("measuring", "%.1f probes a subnet, %d connections in all without a request",
			r.ProbesPerSubnet, r.ExtraRequests)
		line("overhead", "%.2f URLs and %.0f control bytes between peers for each page",
			r.URLsExchangedPerPage, r.ControlBytesPerPage)
	}
	line("violations", "%d of politeness, %d of robots.txt", r.PolitenessViolations,
		r.RobotsViolations)
	for _, text := range r.TooEarly {
		line("too early", "%s", text)
	}
	t.Flush()
	return b.String()
}
