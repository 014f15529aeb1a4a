// Package emulate places peers and sites in an emulated network (Layout) and computes
// the usual measures of a crawl (Evaluate). Package wan emulates the wide-area network,
// package web the sites.
//
// Files:
//
//	layout.go   Layout: addresses and places of peers and sites
//	spec.go     Spec: a layout for processes that make it each for themselves
//	content.go  sites behind content networks
//	geo.go      a geolocation database for a layout, correct or with errors
//	registry.go entries of an Internet registry for the sites' addresses
//	report.go   Report, Evaluate: coverage, overlap, balance, overhead
//	times.go    download times, compared with those of the oracle and of random choice
//	shares.go   share of subnets that the fastest peer owns
//	table.go    the report as text
//
// Sources:
//
//	[M] Malet, Distributed Web Crawling Using Network Coordinates, 2009
package emulate
