// Package source compares crawls at the source with ordinary ones: the measurements of Thati,
// Chang and Agha (Crawlets, Mobile Agents 2001) and of UCYMicra (Papapetrou, Papastavrou and
// Samaras 2003). Unlike the other experiments they run in real time, with the crawl of peerd and
// with crawllets in processes of their own, over emulated paths (lab/crawllet). Figures differ
// from run to run, and times depend on the machine. UCYMicra is also compared with peers at the
// sites and a collector, all in this process.
//
// Files:
//
//	measure.go   one crawl of generated sites and what it costs
//	peers.go     the same with a peer at each site
//	pages.go     the generated sites
//	thati.go     table 1 and figures 4 to 6 of Thati
//	ucymicra.go  4 and 12 sites
package source

import "peerd/lab/experiment"

// Experiments lists those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{thati(), ucymicra()}
}
