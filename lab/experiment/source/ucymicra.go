package source

import (
	"context"
	"fmt"

	"peerd/lab/experiment"
)

// ucymicraSite is the size of each site.
var ucymicraSite = siteSize{pages: 200, outgoing: 100, bytes: 2_400_000}

// ucymicra measures one crawler of several sites, and a program at each of them.
func ucymicra() experiment.Experiment {
	return experiment.Experiment{
		Name:   "ucymicra",
		Title:  "One crawler of 4 and 12 sites, and crawllets at each of them",
		Source: "Papapetrou 2003, section 4.5 (UCYMicra)",
		Run:    runUCYMicra,
	}
}

func runUCYMicra(ctx context.Context, p experiment.Params, out experiment.Out) error {
	l, err := newLab(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.compile(ctx); err != nil {
		return err
	}
	size, counts := ucymicraSite, []int{4, 12}
	if p.Sites > 0 {
		counts = []int{p.Sites}
	}
	if p.Quick {
		size = size.scaled(0.1)
	}
	var roots []string
	for i, n := range counts {
		for len(roots) < n {
			root, err := l.add(fmt.Sprintf("site%d", len(roots)), size, p.Seed+uint64(len(roots)))
			if err != nil {
				return err
			}
			roots = append(roots, root)
		}
		name := fmt.Sprintf("%d sites", n)
		got, err := l.rows(ctx, out, "ucymicra", name, append(ways, atSites), roots[:n], i,
			len(counts))
		if err != nil {
			return err
		}
		r := got[summaries]
		out.Claim(name, "at most 1/10 of the time", fmt.Sprintf("1/%.1f", r.Faster), r.Faster >= 10)
		peers := got[atSites]
		out.Claim(name, "at most 1/10 of the time, with peers and a collector",
			fmt.Sprintf("1/%.1f", peers.Faster), peers.Faster >= 10)
		out.Claim(name, "less than 1/20 of the bytes", fmt.Sprintf("1/%.1f", 1/r.BytesShare),
			r.BytesShare < 0.05)
	}
	out.Progress(1, "done")
	out.Note("%d pages of %d bytes a site; path to each: round-trip time %v, %.0f bytes/s for "+
		"each connection; real time, so that times depend on the machine", size.pages, size.bytes,
		rtt, bps)
	out.Note("%s: bytes of the collector, processor time of all peers and sites in one process",
		atSites)
	return nil
}
