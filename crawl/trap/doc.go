// Package trap tells crawler traps from web sites: parts of the web that have
// more URLs than content, without end. It is asked at the owner of a host, once
// for each URL that was never seen there before and is about to be queued, and
// answers with the name of the heuristic that would drop it, or None.
//
// It imports store and the public suffix list of golang.org/x/net; it does no
// I/O, has no clock and starts no goroutine. The same URLs in the same order
// give the same answers everywhere.
//
// # Heuristics
//
// Length, Depth, Params and Repeat look at one URL. The others count, per host,
// distinct things under a shape: the path and query in which runs of digits,
// long hex numbers and random tokens are each replaced by one mark.
//
//	length      bytes of the URL
//	depth       segments of the path
//	params      parameters of the query
//	repeat      a segment, or a sequence of segments, repeated in a row; a
//	            segment that comes again and again; a repeated parameter
//	calendar    distinct dates of a shape; far-off dates have a limit of their own
//	session     distinct random values of a parameter or path parameter
//	facets      distinct combinations and orders of parameters of a path
//	numbers     distinct URLs of a shape that differ in numbers
//	quota       URLs of a host, more for one that many domains link to
//	subdomains  hosts below a registered domain (State is per host, so this one
//	            is asked of Guard.AdmitHost, with a Domain)
//
// What a shape has beyond its limit is dropped; what was admitted stays. All
// limits are far above what is found in large honest sites; what hides from
// all others ends at the quota.
//
// # State
//
// A State remembers at most 256 shapes, the least recently used are forgotten:
// a trap that gives less than one in some hundred of a host's new URLs may
// start again at zero, and is bounded by the quota only. Distinct values are
// counted exactly up to 8, then with HyperLogLog (Flajolet et al. 2007) of 128
// registers, standard error 9 %. The limits are tested with three standard
// errors to spare, so nothing is cut below its limit; the cut comes between
// the limit and 1.8 times the limit (three errors the other way). Hashes have no secret: a site could make
// its own URLs collide, and lose some of them.
//
// Files:
//
//	heuristic.go  the names, Set, Parse
//	config.go     Config, its defaults and its faults
//	guard.go      Guard: Check, Admit, Linked
//	look.go       from a URL to its features, in one pass
//	date.go       dates among the digits
//	token.go      random tokens
//	repeat.go     repeated segments and parameters
//	state.go      State, and its form on disk and on the wire
//	table.go      the bounded table of shapes
//	sketch.go     counting distinct values
//	domain.go     Domain: hosts below a registered domain
package trap
