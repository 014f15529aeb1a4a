package source

import (
	"context"
	"fmt"
	"math"

	"peerd/lab/experiment"
)

// thatiSites are those of table 1 of Thati.
var thatiSites = []struct {
	name string
	siteSize
}{
	{"engineering", siteSize{1739, 570, 15_380_000}},
	{"acm", siteSize{2070, 2446, 3_140_000}},
	{"computer-science", siteSize{536, 325, 2_370_000}},
}

// thati measures sites of the sizes of table 1.
func thati() experiment.Experiment {
	return experiment.Experiment{
		Name:   "thati",
		Title:  "Crawllets and ordinary crawls of three sites: time, bytes, processor time",
		Source: "Thati 2001, table 1 and figures 4 to 6",
		Run:    runThati,
	}
}

func runThati(ctx context.Context, p experiment.Params, out experiment.Out) error {
	l, err := newLab(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.compile(ctx); err != nil {
		return err
	}
	got := map[string]map[way]row{}
	for i, s := range thatiSites {
		size := s.siteSize
		if p.Quick {
			size = size.scaled(0.02)
		}
		root, err := l.add(s.name, size, p.Seed+uint64(i))
		if err != nil {
			return err
		}
		got[s.name], err = l.rows(ctx, out, "thati", s.name, ways, []string{root}, i,
			len(thatiSites))
		if err != nil {
			return err
		}
	}
	out.Progress(1, "done")
	thatiClaims(out, got)
	out.Note("path: round-trip time %v, %.0f bytes/s for each connection; real time, so that "+
		"times depend on the machine", rtt, bps)
	out.Note("the pages are generated, of the number, mean size and outgoing links of table 1")
	return nil
}

func thatiClaims(out experiment.Out, got map[string]map[way]row) {
	slowest, same := math.Inf(1), true
	for _, s := range thatiSites {
		for _, w := range ways {
			same = same && got[s.name][w].Pages == got[s.name][ordinary].Pages
		}
		slowest = min(slowest, got[s.name][whole].Faster, got[s.name][summaries].Faster)
	}
	out.Claim("figure 4", "all crawllets are faster than the ordinary crawl",
		fmt.Sprintf("at least %.1f times", slowest), slowest > 1)
	acm := got["acm"][whole].BytesShare
	out.Claim("figure 5", "ACM: compressed pages are less than 30 % of the bytes",
		fmt.Sprintf("%.1f %%", 100*acm), acm < 0.3)
	eng := got["engineering"]
	out.Claim("figure 6", "less processor time of the crawler",
		fmt.Sprintf("%.2f s instead of %.2f s", eng[whole].CrawlerCPU, eng[ordinary].CrawlerCPU),
		eng[whole].CrawlerCPU < eng[ordinary].CrawlerCPU)
	out.Claim("figure 6", "less processor time of both together",
		fmt.Sprintf("%.2f times that of the ordinary crawl", eng[whole].TotalCPUFrom),
		eng[whole].TotalCPUFrom < 1)
	out.Claim("all", "the same number of pages", fmt.Sprint(same), same)
}
