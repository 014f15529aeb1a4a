package testnet

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"peerd/lab/internal/interval"
)

// pageTimes holds how long each page should have taken where it was fetched first, by site and URL.
type pageTimes map[int]map[string]time.Duration

func (p pageTimes) add(site int, url string, took time.Duration) {
	if p[site] == nil {
		p[site] = make(map[string]time.Duration)
	}
	if _, ok := p[site][url]; !ok {
		p[site][url] = took
	}
}

// alike is the relative difference up to which two page times are alike.
const alike = 0.1

// pairs compares the page times of two testnets with the same sites, page by page.
type pairs struct {
	pages          int
	faster, slower float64 // shares of the pages that take more than alike less, or more
	// ratio is the mean ratio of the times (geometric, each site counts once), and low and high
	// the ends of its 95 % interval over sites. NaN without a page in both.
	ratio, low, high float64
}

// compare returns how the times of p differ from those of base.
func (p pageTimes) compare(base pageTimes) pairs {
	var out pairs
	var sites []float64
	for _, site := range slices.Sorted(maps.Keys(base)) { // sums depend on the order
		sum, n := 0.0, 0
		for _, url := range slices.Sorted(maps.Keys(base[site])) {
			took, ok := p[site][url]
			if before := base[site][url]; ok && took > 0 && before > 0 {
				ratio := float64(took) / float64(before)
				sum += math.Log(ratio)
				n++
				if ratio < 1-alike {
					out.faster++
				} else if ratio > 1+alike {
					out.slower++
				}
			}
		}
		if n > 0 {
			sites = append(sites, sum/float64(n))
			out.pages += n
		}
	}
	if out.pages == 0 {
		return pairs{ratio: math.NaN(), low: math.NaN(), high: math.NaN()}
	}
	out.faster /= float64(out.pages)
	out.slower /= float64(out.pages)
	mean, half := interval.OfMean(sites)
	out.ratio, out.low, out.high = math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half)
	return out
}

// writePairs writes a table that compares each testnet with the first one, page by page.
func writePairs(to io.Writer, reports []Report) {
	base := reports[0]
	fmt.Fprintf(to, "page by page, beside %s, where the pages were fetched by the sites' logs\n",
		base.Strategy)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "strategy\tpages\tfaster\talike\tslower\ttimes as long\t95 % over sites\t")
	for _, r := range reports[1:] {
		p := r.pages.compare(base.pages)
		fmt.Fprintf(w, "%s\t%d\t%.0f %%\t%.0f %%\t%.0f %%\t%.2f\t%.2f to %.2f\t\n", r.Strategy,
			p.pages, 100*p.faster, 100*(1-p.faster-p.slower), 100*p.slower, p.ratio, p.low, p.high)
	}
	w.Flush()
	fmt.Fprintln(to)
}
