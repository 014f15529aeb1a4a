// Command compare prints the throughput of peerd beside that of Colly and of a
// bare loop, measured in one run on one machine over the same pages of a local
// web server: no distance, no politeness, each crawler alone on one core, the
// server on another. What counts is pages per second of the crawler's own
// processor time, user and system; the pages are those in the server's log.
//
//	go run -C node/compare . --root /usr/share/doc/python3.11/html
//	go run -C node/compare . --seed http://a.example/ --seed http://b.example/ --access-log FILE
//
// The crawlers:
//
//   - peerd: "peerd crawl", built from this tree, durable and with robots.txt;
//   - colly: Colly v2 (https://go-colly.org), asynchronous, nothing durable;
//   - bare: net/http, the tokenizer of x/net/html and a map: about the least
//     that a crawler written with Go's usual parts can do, nothing durable.
//
// Colly and bare are run with each number of --parallel, and the best median
// of either is what peerd is compared with. They skip links by file extension
// (links.go) and peerd does not: peerd asks for more, and it is the pages
// alone that count.
//
// It is a module of its own, so that Colly is no dependency of peerd, and
// imports nothing of peerd: it drives the binary.
//
// Files:
//
//	main.go       options, and the drivers as sub-commands
//	crawlers.go   which processes are compared, and their command lines
//	measure.go    one process on its cores: time, memory, noise
//	pin_*.go      which cores a child may use
//	proc.go       figures of /proc
//	accesslog.go  which pages the server says it served
//	server.go     nginx, for --root
//	report.go     medians, ratios, the table, JSON
//	links.go      which links the two drivers follow
//	colly.go      the driver of Colly
//	bare.go       the bare loop
package main
