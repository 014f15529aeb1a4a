// Package robots holds to robots.txt (RFC 9309): it fetches the file over a
// Fetcher that is handed in, and answers what a crawler may do. It imports
// store, canon, and Google's parser in its Go port; it opens no connection
// itself.
//
// A Verdict is what one fetch taught, and is stored and handed over. Rules are
// its compiled form: groups by product token, rules with their escapes in
// normal form. The library reads the lines, with the tolerance of Google's
// crawler for typing errors; the rules are kept here, because the library
// would read the whole file again for each URL, and refuses URLs that
// net/url cannot parse.
//
// Where RFC 9309 and Google's published verdicts disagree, the RFC is followed;
// google_test.go lists the seven of 400 verdicts that this costs.
//
// Files:
//
//	verdict.go   Verdict: outcome of a fetch, what it allows on its own and what after another
//	get.go       Get: the fetch with its redirects
//	rules.go     Rules: Match, Allowed, CrawlDelay, Sitemaps
//	compile.go   from the text of the file to groups
//	pattern.go   matching of paths
//	normal.go    the normal form in which paths and patterns are compared
package robots
