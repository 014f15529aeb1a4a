// Package tool answers questions of webmasters and tests with the crawler's own
// code: what a URL becomes, what a robots.txt says of it, which links a page
// has. It reads what it is handed, starts nothing and fetches nothing. It
// imports crawl's canon, robots and extract, and store.
//
// Files:
//
//	url.go      URLs: canonical form, or the WHATWG URL Standard's
//	robots.go   Robots: whether a URL may be fetched, and which line says so
//	extract.go  Page: the links of a page
//	input.go    Question: lines to be answered; reading within bounds
package tool
