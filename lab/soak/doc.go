// Package soak measures the resources that a peer uses over a long time or with a long
// queue. It has three modes:
//
//	peerd-lab soak --minutes 30 --out DIR
//
// runs one real peer in a process of its own on an endless web and periodically writes
// the resources it uses to DIR/soak.csv, and a chart to DIR/soak.svg. The result is the
// slope of the resident memory over the second half of the run.
//
//	peerd-lab soak --frontier 1000000 --hosts 10000
//
// fills a store and its frontier with that many URLs, takes some out, and opens them
// again, each step in a process of its own, and prints the memory, disk space and time
// used. It fetches nothing.
//
//	peerd-lab soak --crawl http://a.example/ --cpuprofile FILE --memprofile FILE
//
// crawls real pages once, as "peerd crawl" without politeness does, and writes profiles
// for "go tool pprof".
//
// The package imports node, node/config, crawl/frontier and store. Memory is read from
// /proc and is zero on systems without it.
//
// Files:
//
//	soak.go      RunChild, the entry point of child processes
//	site.go      the endless web
//	peer.go      the peer that is measured, a process of its own
//	watch.go     Watch: readings, CSV and result
//	fit.go       least squares
//	chart.go     the SVG
//	frontier.go  Queue: fill, dequeue and reopen
//	profile.go   Crawl: profiles of one crawl
//	process.go   child processes; memory, files and disk space of a process
package soak
