package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A span is the median of some figures, with the smallest and the largest.
type span struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spanOf(xs []float64) span {
	xs = slices.Sorted(slices.Values(xs))
	if len(xs) == 0 {
		return span{}
	}
	mid := len(xs) / 2
	m := xs[mid]
	if len(xs)%2 == 0 {
		m = (xs[mid-1] + m) / 2
	}
	return span{m, xs[0], xs[len(xs)-1]}
}

func (s span) text(format string) string {
	return fmt.Sprintf(format+" ("+format+"-"+format+")", s.Median, s.Min, s.Max)
}

// A row is the summary of all runs of one crawler.
type row struct {
	Crawler  string  `json:"crawler"`
	Setting  string  `json:"setting,omitempty"`
	Runs     int     `json:"runs"`
	PerCPU   span    `json:"pages_per_cpu_second"`
	PerWall  span    `json:"pages_per_second"`
	Peak     span    `json:"peak_rss_mib"`
	Noise    span    `json:"noise"`
	Pages    span    `json:"pages"`
	Coverage float64 `json:"coverage"` // share of the pages of all runs, in its worst run
	Twice    int     `json:"fetched_twice"`
	Others   int     `json:"requests_no_page"` // in its last run
	Missing  string  `json:"lacks,omitempty"`  // one page that it has not fetched
}

// report is the printed result.
type report struct {
	Source  string             `json:"judge"` // of the counts of pages
	Cores   string             `json:"cores"`
	Go      string             `json:"go"`
	Rows    []row              `json:"rows"`
	Ratios  map[string]float64 `json:"ratios"`
	Notes   []string           `json:"notes,omitempty"`
	Samples []sample           `json:"samples"`
}

// makeReport summarises the samples. The rows are in the order in which the crawlers ran.
func (b *bench) makeReport(samples []sample) report {
	r := report{Source: "the server's access log", Samples: samples, Ratios: map[string]float64{}}
	if b.log == nil {
		r.Source = "the crawlers themselves (no --access-log)"
	}
	by := map[string][]sample{}
	var order []string
	for _, s := range samples {
		k := s.crawler.name()
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], s)
	}
	most := len(b.census.names)
	for _, s := range samples {
		most = max(most, s.Pages)
	}
	for _, k := range order {
		r.Rows = append(r.Rows, b.row(by[k], most))
	}
	r.compare()
	r.warn()
	return r
}

// row summarises the runs of one crawler; most is the number of pages of all runs.
func (b *bench) row(runs []sample, most int) row {
	pick := func(f func(sample) float64) span {
		xs := make([]float64, len(runs))
		for i, s := range runs {
			xs[i] = f(s)
		}
		return spanOf(xs)
	}
	last := runs[len(runs)-1]
	w := row{
		Crawler: last.Crawler, Setting: last.Setting, Runs: len(runs), Coverage: 1,
		Others: max(0, last.Requests-last.Pages-last.Twice),
		PerCPU: pick(sample.perCPU), PerWall: pick(sample.perWall),
		Peak:  pick(func(s sample) float64 { return float64(s.Peak) / (1 << 20) }),
		Noise: pick(func(s sample) float64 { return s.Noise }),
		Pages: pick(func(s sample) float64 { return float64(s.Pages) }),
	}
	for _, s := range runs {
		w.Twice += s.Twice
		if c := float64(s.Pages) / float64(max(1, most)); c < w.Coverage {
			w.Coverage = c
			if b.log != nil {
				w.Missing = b.census.missing(s.visits)
			}
		}
	}
	return w
}

// best returns the row of a kind with the greatest median of f.
func (r *report) best(kind string, f func(row) float64) (row, bool) {
	var found row
	ok := false
	for _, w := range r.Rows {
		if w.Crawler == kind && (!ok || f(w) > f(found)) {
			found, ok = w, true
		}
	}
	return found, ok
}

// compare computes the ratios.
func (r *report) compare() {
	cpu := func(w row) float64 { return w.PerCPU.Median }
	// the first row of peerd is that on one core
	peerd := slices.IndexFunc(r.Rows, func(w row) bool { return w.Crawler == "peerd" })
	if peerd < 0 {
		return
	}
	p := r.Rows[peerd]
	for _, kind := range []string{"colly", "bare"} {
		if w, ok := r.best(kind, cpu); ok {
			r.Ratios["peerd/"+kind] = cpu(p) / cpu(w)
		}
	}
	if w, ok := r.best("peerd+warc", cpu); ok {
		r.Ratios["peerd+warc/peerd"] = cpu(w) / cpu(p)
	}
	for _, w := range r.Rows[peerd+1:] {
		if w.Crawler == "peerd" {
			r.Ratios["pages per second, "+w.Setting+"/"+
				p.Setting] = w.PerWall.Median / p.PerWall.Median
		}
	}
}

// warn adds notes about figures that cannot be trusted.
func (r *report) warn() {
	for _, w := range r.Rows {
		name := strings.TrimSpace(w.Crawler + " " + w.Setting)
		if w.Coverage < 0.999 {
			note := fmt.Sprintf("%s fetched %.2f %% of the pages that others fetched", name,
				100*w.Coverage)
			if w.Missing != "" {
				note += ", not " + w.Missing
			}
			r.Notes = append(r.Notes, note+": its figures are not comparable")
		}
		if w.Noise.Median > 0.1 {
			r.Notes = append(r.Notes,
				fmt.Sprintf("others used %.0f %% of a core on the cores of %s", 100*w.Noise.Median,
					name))
		}
	}
}

func (r report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// writeTable prints the report as a table.
func (r report) writeTable(out io.Writer) error {
	fmt.Fprintf(out,
		"%s; %s\npages according to %s; medians, in brackets the least and the greatest\n\n", r.Go,
		r.Cores, r.Source)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t,
		"crawler\tpages per CPU-second\tpages per second\tpeak MiB\tpages\ttwice\tother "+
			"requests\tcoverage\tnoise")
	for _, w := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%.0f\t%d\t%d\t%.4f\t%.2f\n",
			strings.TrimSpace(w.Crawler+" "+w.Setting), w.PerCPU.text("%.0f"),
			w.PerWall.text("%.0f"),
			w.Peak.Median, w.Pages.Median, w.Twice, w.Others, w.Coverage, w.Noise.Median)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range r.Ratios {
			if !yield(k) {
				return
			}
		}
	}) {
		fmt.Fprintf(out, "%s: %.2f\n", k, r.Ratios[k])
	}
	for _, n := range r.Notes {
		fmt.Fprintln(out, "note:", n)
	}
	return nil
}
