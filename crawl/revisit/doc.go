// Package revisit says when to look at a page again. It owns what is kept of a
// page's past (History) and the rule that turns it into a time (Policy). It
// imports store only, and is pure: no clock, no store, no goroutine.
//
// # The rate of change
//
// Pages are taken to change as Poisson processes do. Their rates are estimated
// as in J. Cho and H. Garcia-Molina, "Estimating frequency of change", ACM
// TOIT 3(3), 2003, which asks what a crawler can know from visits that show at
// most whether a page has changed, not how often:
//
//   - X/T, changes seen by time watched, is biased and not consistent, because
//     changes between two visits count once;
//   - for regular visits, -log((n-X+0.5)/(n+0.5)) changes an interval is
//     nearly unbiased and consistent;
//   - for irregular visits, the rate r of greatest likelihood solves
//     sum over changed t/(exp(rt)-1) = sum over unchanged t;
//   - where the time of the last change is known (Last-Modified), so that T
//     sums the times in which nothing happened, the estimate is
//     ((X-1) - X/(n log(1-X/n))) / T.
//
// One equation holds all of them, and a History keeps six numbers for it
// instead of the list of visits (rate.go).
//
// # The interval
//
// Visits in proportion to the rate look right and are wrong: Cho and
// Garcia-Molina, "Effective page refresh policies for Web crawlers", ACM TODS
// 28(4), 2003, prove that visiting all pages equally often keeps more copies
// fresh than visiting them in proportion, whatever the rates are: pages that
// change faster than one can look eat the visits and are stale all the same.
// A fixed share of visits that find a change, or a fixed freshness for every
// page, is the same proportion in other words. What is best in their sense
// lies between: intervals shrink with the square root of the rate for slow
// pages, and grow again for pages that are too fast to be kept.
//
// Policy follows that optimum by its Lagrange multiplier, which here is a
// Price: the fresh time that one more visit has to buy. So each page is
// planned alone, without knowing the others, and all visits bought at one
// price are the best use of their number. In one thing the rule departs from
// the optimum: it would never see the fastest pages again. Their links are
// still news, so they are visited at the Initial interval at least.
//
// What sitemaps say of changes may bring a visit forward, as far as they were
// right before (hint.go); it never delays one.
//
// Files:
//
//	history.go     History, Observation: the past of a page
//	rate.go        the estimators
//	optimum.go     the best interval for a rate and a price
//	policy.go      Policy: when to look again
//	hint.go        what others say of changes, and how far it is believed
//	validators.go  the headers of conditional requests
package revisit
