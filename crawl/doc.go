// Package crawl is the crawler of one peer. It decides what happens to a URL at the peer
// that owns the URL's subnet. It imports store and its own subpackages, and knows nothing
// about other peers except what its Delegate reports.
//
// A URL passes through the subpackages in this order: canon (canonical form), scope (is it
// part of the crawl), trap (is it one of an endless series), frontier (when may it be
// fetched), robots (is it allowed), quota (the operator's limits), fetch (the request), pace
// (pause of the server), extract and sitemap (links), similar (copies) and
// revisit (when to fetch it again). docs/protocol/crawler.md describes the whole path.
//
// The package guarantees:
//
//   - No URL is lost. An entry leaves its queue in the transaction that stores its result.
//     A URL is fetched twice only after a crash, or if its answer could not be stored.
//   - The links of a page are stored before, or together with, the end of its entry.
//   - A full store or archive changes nothing: the URL stays queued, and fetching pauses.
//   - Every request moves the politeness clocks, whoever wants it and whatever its result, and
//     counts towards the daily limit of an own host.
//   - Memory is bounded. A restart forgets contents of pages.
//
// The caller runs one Crawler per store and frontier, and ends its context to stop it.
//
// Files:
//
//	config.go       Config and Delegate: which peer fetches, and who is notified
//	crawler.go      the workers: from a job to its result
//	page.go         one request and what is read from its answer; Rules
//	commit.go       what an answer changes in the store; Route and Enqueue
//	content.go      copies; archive.go: the archive; space.go: full archive, disk or store
//	politeness.go   requests per day, waits that survive a restart; request quota; load of servers
//	health.go       hosts that fail: states, back-off, patience; outages of the network
//	secure.go       hosts that are fetched over TLS only; optout.go: sites that opt out
//	giveup.go       URLs that fail: tries, giving up, Retry
//	budget.go       limit on pages
//	robots*.go      robots.txt: cached, stored, requested; of other hosts
//	refetch.go      pages that the archive has lost
//	visits.go       revisits and hints of sitemaps; pings.go: sites that say what has changed;
//	                admit.go: Gate: traps; visit.go: what it learns from a page
//	check.go        checks of what other peers report; compare.go: comparisons; sites.go: pages
//	                from files of sites; crawllets.go: from crawllets; plugins.go: plug-ins
//	remotefetch.go  fetching for other peers; connect.go: connections only; reserve.go: politeness
package crawl
