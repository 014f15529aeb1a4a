// Package trap recognises crawler traps: parts of the web with an endless number of URLs
// but little content. The owner of a host asks it once for each URL that was never seen
// before and is about to be queued, and again before the URL is fetched. The answer is None
// or the Heuristic that rejects the URL. docs/protocol/traps.md describes the heuristics.
//
// Admit looks at URLs only: at their form, and at counts of distinct items per host and
// shape, which is the path and query without numbers and random values. Exhausted judges a
// queued URL by what the pages of its patterns added, as reported to Observe. The same URLs
// and pages in the same order give the same answers everywhere.
//
// A State holds what is remembered about one host: at most 256 shapes, 128 texts and
// MaxStateBytes. Distinct values are counted exactly up to 8 and then estimated with
// HyperLogLog. Limits have a margin of three standard errors, so nothing below its limit is
// dropped.
//
// The package imports store, canon and similar. It performs no I/O, reads no clock and starts no
// goroutine.
//
// Files:
//
//	heuristic.go  Heuristic, Set, Parse
//	config.go     Config: limits and their defaults
//	guard.go      Guard: Admit, AddLink
//	yield.go      Observe, Exhausted, Linker: what pages add
//	text.go       Text: comparing the texts of a host
//	features.go   from a URL to its features, in one pass
//	token.go      random tokens
//	repeat.go     repeated segments and parameters
//	state.go      State and its encoding
//	table.go      the bounded table of shapes
//	sketch.go     counting distinct values
//	domain.go     Domain: hosts below a registered domain
package trap
