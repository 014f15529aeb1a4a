// Package revisit decides when to fetch a page again. A History summarises the past visits
// to a page, and a Policy turns it into the time of the next visit. The package imports
// store only. It reads no clock, performs no I/O and starts no goroutine.
//
// Pages are assumed to change as Poisson processes do. Rates are estimated as in J. Cho and
// H. Garcia-Molina, "Estimating frequency of change", ACM TOIT 3(3), 2003, and the interval
// between visits shrinks with the square root of the rate. docs/protocol/revisit.md explains
// the reasons.
//
// Change dates in sitemaps bring a visit forward, unless earlier ones were wrong more often
// than right; they never delay a visit.
//
// Callers pass visits to History.Observe in order of time, store the History, and call
// Policy.Next after each visit or hint.
//
// Files:
//
//	history.go     History, Observation: the past of a page
//	policy.go      Policy: when to visit again
//	validators.go  headers of conditional requests
package revisit
