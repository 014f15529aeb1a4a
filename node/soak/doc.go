// Command soak finds out what a peer costs over a long time and with a long
// queue. It has three ways to run:
//
//	go run ./node/soak --minutes 30 --out DIR
//
// runs one real peer in a process of its own on a web without end, and writes
// what it used, every few seconds, to DIR/soak.csv and DIR/soak.svg. The verdict
// is the slope of the resident memory over the second half.
//
//	go run ./node/soak --frontier 1000000 --hosts 10000
//
// fills store and frontier with so many URLs, takes some out again, and opens
// them anew, each in a process of its own, and says what memory, disk and time
// that took. Nothing is fetched.
//
//	go run ./node/soak --crawl http://a.example/ --cpuprofile FILE --memprofile FILE
//
// crawls real pages once, as "peerd crawl" without politeness does, and writes
// profiles for "go tool pprof".
//
// It imports node, node/config, crawl/frontier and store. Memory is read from
// /proc and is zero where there is none.
//
// Files:
//
//	main.go      options, and which way to run
//	site.go      the web without end
//	peer.go      the peer under watch, a process of its own
//	watch.go     its figures into CSV and verdict
//	fit.go       least squares
//	chart.go     the SVG
//	frontier.go  filling, working and opening again
//	profile.go   profiles of one crawl
//	process.go   starting ourselves again; memory, files and disk of a process
package main
