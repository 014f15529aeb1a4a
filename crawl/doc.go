// Package crawl is one peer's crawler: what happens to a URL at the owner of
// its subnet. It imports store and its own sub-packages; it knows nothing of
// other peers but what its Delegate tells it.
//
// # The way of a URL
//
//	canon     text -> store.URL; canon.Rules -> the URL that names its page
//	scope     is it ours to crawl at all? asked for each link, by the finder
//	          (commit.go: to the queue of a host of ours, or put aside)
//	trap      is it one of too many alike? asked by the Gate once for each
//	          URL never seen before; a host of others, once a host
//	frontier  when may it be fetched? holds the politeness clocks
//	robots    does the site allow it? robots.txt is fetched first, and the
//	          sitemaps that it names enter the queues
//	quota     may this peer send one more request now? its volunteer's limits,
//	          asked before each, for whomever it is
//	fetch     the request, to exactly the address that was checked; resolve
//	          turns names into addresses, elsewhere but for robots.txt files
//	          that are redirected to another host
//	pace      how long the server rests after that
//	extract   a page: its links, and what it says about itself
//	sitemap   a sitemap: its pages, and what it says of their changes
//	similar   is it a copy, nearly one, a mirror's, or a "not found" in
//	          disguise? then its links may not be followed
//	revisit   when to come back -> in time, frontier again
//
// The links go through canon again. An answer goes into the archive
// (store/warc) before anything is decided on it, and into the store in the
// transaction that takes its URL out of the queue.
//
// # Links that are not followed
//
// With Rules.ObeyNofollow those of a page that says nofollow, in its head or
// its headers, of whatever kind; with ObeyRel single ones. A canonical URL is a
// link among others, but with ObeyCanonical it is where the page is: the one
// thing followed, nofollow or not, and like a redirect it costs no depth and
// ends after twenty in a row. noindex has no effect but its mark; noarchive
// keeps an answer of any type out of the archive, and is no reason not to
// follow.
//
// A sitemap's pages have depth 1, as if the first page linked to them. Its own
// depth counts the indexes above it, of which three are followed, and does not
// count for the scope. It may name pages of any host, since each URL is judged
// by itself; what it says of changes counts for pages below its folder alone.
//
// # How a URL ends
//
// Answered (store.Outcome): recorded, its links routed, gone from the queue. A
// page (2xx) that was fetched has a visit planned if there is a revisit.Policy.
//
// Transient: back into the queue with a wait that the server asked for, or
// that doubles, until its patience is spent (patience.go): MaxTries failures, ten
// answers of 429 or 503. A host that answers nothing eight times in a row rests
// (health.go); meanwhile one URL after the other looks whether it is back, at
// no cost to its patience, until after MaxRests looks all its URLs are given
// up.
//
// Given up: counted as failed or denied, and recorded, unless an earlier fetch
// is on record. So ends too what robots.txt forbids, or what it might forbid
// while it is out of reach and no older copy is known. Nobody fetches such
// a URL again, however often it is found: it counts as seen.
//
// A visit that finds nothing new (304, or the body that is on record) or says
// nothing of the page (5xx, no answer) leaves the record as it is, and plans
// the next; one that finds 404 or 410 does, until that is confirmed, and then
// the page is visited no more.
//
// Retries are made by the owner of the host alone: an errand (errand.go) is
// one request, whatever comes of it, and its answer is remembered, so that the
// owner may ask again. It finds nothing but links, all of which go back to the
// owner: sitemaps and robots.txt are fetched by the owner alone.
//
// # What holds
//
// No URL is lost: an entry leaves its queue in the transaction that stores what
// came of it, and whatever breaks before that finds it queued. So a URL
// is fetched twice only after a crash, or when its answer did not fit into the
// archive or the store, and is then archived twice only after a crash or if it
// was the store. Of two queued entries for one visit the second is dropped.
//
// No link is known to this peer alone once the page that has it is known to be
// done: the links are stored with the page's entry leaving the queue, or before,
// each as found at the page's host (store, Replicas), whoever fetched the page and
// whether or not its subnet is shut meanwhile. A page gives maxLinks links and
// maxLinkBytes of them at most; of more the first are taken, and the page is counted
// under "links".
//
// A store without room changes nothing: the job is put back, its host is left
// alone for a while, its request is not charged to the day, and nothing is fetched
// or taken as an errand until the store has taken a write again. An errand that
// found none is lost, and done anew.
//
// Every request to a host of ours moves its clocks and counts for its day,
// those for robots.txt, failures and errands included. Waits of ten seconds
// and more are in the store. One request in a day or so is not counted: that
// for a robots.txt that another host was redirected to; the clock of the
// address where it is asked for is not asked.
//
// Memory is bounded: caches have a fixed size, a page has its maximum, and of
// the larger sitemaps four are in memory at most. What is remembered of contents
// and of failing hosts is lost in a restart; of the traps' counts, the last 256
// URLs of a host.
//
// # Files
//
//	config.go      Config, and Delegate: who fetches, and who is told
//	crawler.go     the workers: from a job to what becomes of it
//	page.go        one request, and what is read in its answer; Rules
//	content.go     copies, mirrors, soft 404s
//	archive.go     the answer in the archive
//	room.go        what happens when archive, disk or store have none
//	commit.go      what an answer changes in the store; Route and Enqueue
//	politeness.go  requests counted by day, waits that outlive a restart
//	patience.go    how often and when a URL is tried again
//	health.go      hosts that answer nothing
//	budget.go      the limit on pages of one Run
//	afford.go      what the quota lets in
//	robots.go      what robots.txt allows: asked for, cached, kept
//	visits.go      coming back to pages; hints of sitemaps
//	admit.go       Gate: crawler traps
//	errand.go      fetching at another peer's request
//	connect.go     connections without a request, for a strategy that measures so
package crawl
