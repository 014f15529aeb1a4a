package testnet

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"peerd/lab/emulate"
)

// Report is the result of a testnet.
type Report struct {
	emulate.Report
	// CrawlSeconds is the time from the first request to a site to the end of the last page.
	CrawlSeconds float64 `json:"crawl_s"`
	// Expected is how long the pages should have taken where they were fetched, by the emulated
	// distances: without the delays of a busy machine.
	Expected emulate.Times `json:"expected_ms"`
	// ContentNetworks is nil if no site is behind one.
	ContentNetworks *ContentNetworks `json:"content_networks,omitempty"`
	// Adaptation is nil without a scenario.
	Adaptation *Adaptation `json:"adaptation,omitempty"`
	// Shortfalls describes each figure that was out of bounds; empty if none was.
	Shortfalls []string `json:"shortfalls"`

	pages pageTimes
}

// Bounds are the largest figures that are not shortfalls.
type Bounds struct {
	Overlap float64 // share of repeated fetches
	Early   int     // requests that were too early
}

// DefaultBounds are those of a testnet without faults.
var DefaultBounds = Bounds{Overlap: 0.005}

// unmeasured names the strategies that choose owners without measuring distances. Their page
// times are like those of random assignment. "" is the unknown strategy of peers in containers,
// some of which may have failed.
var unmeasured = map[string]bool{"": true, "random": true, "hash": true, "keep": true, "geo": true}

// conclude fills in Shortfalls.
func (r *Report) conclude(most Bounds) {
	r.Shortfalls = []string{}
	fall := func(short bool, format string, args ...any) {
		if short {
			r.Shortfalls = append(r.Shortfalls, fmt.Sprintf(format, args...))
		}
	}
	fall(r.Adaptation == nil && r.Coverage < 1, "coverage %.4f, want 1", r.Coverage)
	fall(r.Overlap > most.Overlap, "overlap %.4f, want at most %g", r.Overlap, most.Overlap)
	fall(r.PolitenessViolations > most.Early, "%d politeness violations, want %s%d",
		r.PolitenessViolations, map[bool]string{true: "at most "}[most.Early > 0], most.Early)
	fall(r.RobotsViolations > 0, "%d robots.txt violations, want 0", r.RobotsViolations)
	fall(r.Unlogged > 0, "%d requests not logged, want 0", r.Unlogged)
	fall(!unmeasured[r.Strategy] && r.Peers > 1 && r.Adaptation == nil && r.overRandom() >= 1,
		"p90 is %.2f times that of random assignment, want less than 1", r.overRandom())
}

// overRandom returns the 90th percentile of the page times relative to that of random
// assignment.
func (r Report) overRandom() float64 { return quotient(r.Download.P90, r.Random.P90) }

// overOracle returns the 90th percentile of the page times relative to that of an assignment
// that knows all distances.
func (r Report) overOracle() float64 { return quotient(r.Download.P90, r.Oracle.P90) }

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Conclusion returns one line that states what the testnet has shown, or the shortfalls.
func (r Report) Conclusion() string {
	if len(r.Shortfalls) > 0 {
		return "fell short: " + strings.Join(r.Shortfalls, "; ")
	}
	const format = "shown: %d of %d pages fetched, %.2f %% of them twice, no violation of " +
		"politeness or robots.txt"
	text := fmt.Sprintf(format, r.PagesFetched, r.PagesExpected, 100*r.Overlap)
	if n := r.PolitenessViolations; n > 0 {
		text = strings.Replace(text, "no violation of politeness or",
			fmt.Sprintf("%d violations of politeness, none of", n), 1)
	}
	if r.Timed() {
		text += fmt.Sprintf("; p90 %.2f times random assignment's, %.2f times the oracle's",
			r.overRandom(), r.overOracle())
	}
	return text
}

// Table returns the figures as text. Its last line is Conclusion.
func (r Report) Table() string {
	text := r.Report.Table()
	if c := r.ContentNetworks; c != nil {
		text = strings.TrimRight(text, "\n") + "\n\n" + c.Table()
	}
	if r.Adaptation != nil {
		text = strings.TrimRight(text, "\n") + "\n\n" + r.Adaptation.Table()
	}
	return strings.TrimRight(text, "\n") + "\n\n" + r.Conclusion() + "\n"
}

// Compare returns a table of several testnets with the same sites and different strategies, one
// per row, and one of their page times beside those of the first, page by page, followed by the
// conclusion of each testnet with shortfalls.
func Compare(reports []Report) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "strategy\tp90, ms\toracle\trandom\t/random\t/oracle\tnearest\twithin 1.1\t"+
		"estimations\tcoverage\toverlap\tviolations\ttime\t")
	for _, r := range reports {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.0f %%\t%.0f %%\t%.1f\t%.4f\t%.4f\t%d\t"+
			"%.0f s\t\n", r.Strategy, r.Download.P90, r.Oracle.P90, r.Random.P90, r.overRandom(),
			r.overOracle(), 100*r.OptimalShare, 100*r.NearOptimalShare, r.EstimationsPerSubnet,
			r.Coverage, r.Overlap, r.PolitenessViolations+r.RobotsViolations, r.WallSeconds)
	}
	w.Flush()
	b.WriteByte('\n')
	writePairs(&b, reports)
	short := 0
	for _, r := range reports {
		if len(r.Shortfalls) > 0 {
			short++
			fmt.Fprintf(&b, "%s %s\n", r.Strategy, r.Conclusion())
		}
	}
	if short == 0 {
		b.WriteString("shown: with every strategy all pages were fetched, without violations\n")
	}
	return b.String()
}
