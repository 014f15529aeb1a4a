// Package emulate puts a crawl into a small world and tells how it went: where
// peers and sites stand (Layout) and the figures of the literature about what
// they did (Evaluate). The wide area itself is in wan, the web in web.
//
// Files:
//
//	layout.go   Layout: addresses and places of peers and sites
//	geo.go      a data base of places for it, right or misled
//	registry.go what an Internet registry would say of its addresses
//	report.go   Report, Evaluate: coverage, overlap, balance, overhead
//	times.go    download times beside the oracle's and random choice's
//	shares.go   how many subnets ended where they should
//	table.go    the report as text
//
// Sources:
//
//	[M] Malet, Distributed Web Crawling Using Network Coordinates, 2009
package emulate
