// Package robots implements robots.txt (RFC 9309): it fetches the file with a Fetcher provided by
// the caller, and decides what a crawler may fetch. It opens no connection itself. It imports
// store, canon, and the Go port of Google's parser.
//
// A Result is the outcome of one fetch; it can be stored and sent to other peers. Rules are its
// compiled form: groups by product token, and rules with normalized escapes. The library parses
// the lines and tolerates the same typing errors as Google's crawler. This package matches the
// rules itself, because the library would parse the whole file again for every URL, and rejects
// URLs that net/url cannot parse.
//
// Where RFC 9309 and the results published by Google differ, the RFC is followed;
// docs/protocol/robots.md lists the seven of 400 results that differ for this reason.
//
// # Files
//
//	result.go     Result: outcome of a fetch, and what it allows alone or after an earlier one
//	get.go        Get: the fetch with its redirects
//	rules.go      Rules: Match, Allowed, CrawlDelay, Sitemaps
//	compile.go    from the text of the file to groups
//	pattern.go    matching of paths
//	normalize.go  the form in which paths and patterns are compared
package robots
