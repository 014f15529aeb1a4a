// Package crawl is one peer's crawler: what happens to a URL at the owner of
// its subnet. It imports store and its own sub-packages; it knows nothing of
// other peers but what its Delegate tells it.
//
// The way of a URL through the sub-packages:
//
//	canon     text -> store.URL
//	scope     is it ours to crawl at all?
//	frontier  when may it be fetched? holds the politeness clocks
//	robots    does the site allow it?
//	fetch     the request; resolve turns names into addresses
//	extract   the links of the page -> canon again
//
// Files here: crawler.go the workers; patience.go how often and when a URL is
// tried again; budget.go the limit on pages; commit.go what a fetched page
// changes in the store, in one transaction; errand.go fetching at another
// peer's request; robots.go what robots.txt allows, asked for and cached.
//
// No URL is lost: an entry leaves its queue in the transaction that stores what
// came of it, and whatever breaks before that finds it queued. A URL can so be
// fetched twice after a crash, but not in one run.
package crawl
