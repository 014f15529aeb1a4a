// Package revisit decides when to fetch a page again. A History summarises the past visits
// to a page, and a Policy turns it into the time of the next visit. The package imports
// store only. It reads no clock, performs no I/O and starts no goroutine.
//
// Pages are assumed to change as Poisson processes do. Rates are estimated as in J. Cho and
// H. Garcia-Molina, "Estimating frequency of change", ACM TOIT 3(3), 2003. Intervals follow
// the optimum of "Effective page refresh policies for Web crawlers", ACM TODS 28(4), 2003,
// by the same authors, through its Lagrange multiplier, which is called Price here. Unlike
// the optimum, pages that change too fast to be kept fresh are still visited at least once
// per Initial interval, because their links are new. docs/protocol/revisit.md explains the
// reasons.
//
// Change dates in sitemaps can bring a visit forward, as far as earlier ones were right;
// they never delay a visit.
//
// Callers pass visits to History.Observe in order of time, store the History, and call
// Policy.Next after each visit or hint.
//
// Files:
//
//	history.go     History, Observation: the past of a page
//	rate.go        estimators of the rate of change
//	optimum.go     the best interval for a rate and a price
//	policy.go      Policy: when to visit again
//	hint.go        hints of sitemaps and how far to trust them
//	validators.go  headers of conditional requests
package revisit
