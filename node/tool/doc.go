// Package tool shows how the crawler reads URLs, robots.txt files and pages, for webmasters and
// tests. It reads only its input and fetches nothing.
//
// Files:
//
//	url.go      URLs: canonical form, or that of the WHATWG URL Standard
//	robots.go   Robots: whether a URL may be fetched, and which line decides it
//	extract.go  Links: the links of a page
//	input.go    Query: lines of input; reading with limits
package tool
