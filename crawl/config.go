package crawl

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"peerd/crawl/crawllet/page"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/crawl/quota"
	"peerd/crawl/revisit"
	"peerd/crawl/scope"
	"peerd/internal/faults"
	"peerd/store"
	"peerd/store/warc"
)

// ErrNotSent wraps an error of Delegate.RequestFetch if the other peer certainly did not
// start the fetch.
var ErrNotSent = errors.New("crawl: request did not reach the other peer")

// A Dispatch says which peer makes the next fetch in a subnet.
type Dispatch struct {
	Peer string // another peer; "" is this peer
	Hold bool   // no fetch for now: the subnet is being handed over
	// Connect replaces the fetch by a measurement: the peer opens a connection to the
	// server and closes it, and the URL stays queued.
	Connect bool
}

// Delegate is the rest of this peer: it answers the crawler's questions, above all about the
// ownership of subnets, and takes what belongs to other owners. Its methods must be safe for
// concurrent use.
type Delegate interface {
	// Dispatch says which peer makes the next fetch in a subnet.
	Dispatch(subnet netip.Prefix) Dispatch
	// RequestFetch asks another peer to fetch a URL. It returns when the fetch has ended or
	// can no longer be running. The links of the report are syntactically valid canonical
	// URLs; nothing else about them is checked. After an error that wraps ErrNotSent,
	// Dispatch must not immediately return the same peer again.
	RequestFetch(ctx context.Context, subnet netip.Prefix, peer string, r store.FetchRequest) (
		store.FetchReport, error)
	// RequestConnect asks another peer to open a connection to the URL's server. Its errors
	// are those of RequestFetch.
	RequestConnect(ctx context.Context, subnet netip.Prefix, peer string, r store.FetchRequest) (
		store.FetchReport, error)
	// Observe receives the result of every request in a subnet, including those for
	// robots.txt. The peer is "" for this peer. The report of a connection contains only an
	// outcome and the connect time.
	Observe(subnet netip.Prefix, peer string, r store.FetchReport, err error)
	// PendingAdded receives the number of URLs that became pending, by host. It is called
	// before the job that found them ends.
	PendingAdded(byHost map[string]int)
	// RecentlySent reports whether a URL of another owner was recently sent to it.
	RecentlySent(store.URL) bool
	// Unresponsive is called by the workers when one of our hosts did not answer; its
	// address may have changed. Or it was not asked, which is store.OutcomeDenied. It must not
	// block.
	Unresponsive(host string, why store.Outcome)
	// Fetched is called with each page that was stored. It must not block.
	Fetched(store.Page)
	// Resolve returns the addresses of a host that may be dialled, in order of preference: at
	// least one, or an error. It serves to find the other addresses of a host of ours, and
	// those of another host to which a robots.txt redirects.
	Resolve(ctx context.Context, host string) ([]netip.Addr, error)
	// CheckSpace returns an error while the disk has too little free space to fetch.
	CheckSpace() error
	// Archived is called with each answer that was archived, by several goroutines, and gets at
	// most Config.MaxText bytes of the text of a page. It must not block.
	Archived(Archived)
	// File returns the file of a page of a site on this machine, for the owner of the site's
	// subnet.
	File(store.URL) (SiteFile, error)
	// Plugins returns what the plug-ins find in a page, which they must not retain. Pages that are
	// fetched for other peers are left out.
	Plugins(page.Page) []PluginResult
}

// Config configures a Crawler. Fields are required unless stated otherwise.
type Config struct {
	DB       *store.DB
	Frontier *frontier.Frontier
	Fetcher  *fetch.Fetcher
	Scope    *scope.Scope
	Delegate Delegate
	// Agent is the product token that is matched against robots.txt.
	Agent string
	// Workers is the maximum number of concurrent fetches.
	Workers int
	// MaxTries is the number of failed tries after which a URL of a host that answers is
	// given up. TryDelay, if it is not 0, spreads the tries from the third on: it is the time
	// to the next try, and doubles with each, up to a day.
	MaxTries int
	TryDelay time.Duration
	// BackOff is the wait after the first failure of a host. It doubles with each further
	// failure, up to MaxBackOff, or to MaxThrottle for a host that answers 429 or 503.
	BackOff, MaxBackOff, MaxThrottle time.Duration
	// Patience is how long a host may fail before all its URLs are given up.
	Patience time.Duration
	// Network says when this peer's network is down: what fails then does not count.
	// Optional.
	Network Network
	// Pace adds pauses that depend on the server's response times. Optional.
	Pace *pace.Pacer
	// Rules define how pages are read.
	Rules Rules
	// Gate decides about hosts that are not ours; the Frontier calls it for ours. If nil,
	// all hosts are admitted.
	Gate *Gate
	// Revisit plans revisits. If nil, no page is revisited.
	Revisit *revisit.Policy
	// Archive receives every answer. Optional.
	Archive *warc.Archive
	// MaxText is how much of the text of a page Archived gets, in bytes.
	MaxText int
	// StopWhenFull says that too little space ends Run with ErrNoSpace; otherwise the crawler
	// waits.
	StopWhenFull bool
	// RemoteWorkers is the maximum number of concurrent fetches for other peers; 0 means
	// Workers.
	RemoteWorkers int
	// MaxRequestsPerHostDay limits the requests to a host per day (UTC); 0 means no limit.
	MaxRequestsPerHostDay int64
	// CheckReports is the share of the pages that other peers fetch for this one, which this one
	// fetches again to check their reports; 0 means that all are believed.
	CheckReports float64
	// Crawllet fetches pages of sites that run crawllets. Nil: all pages are requested.
	Crawllet *Crawllet
	// Gap must equal Frontier's Gap. It is also the wait between the redirects of a
	// robots.txt.
	Gap time.Duration
	// FetchTimeout bounds one request up to the end of the head of the response; a body may take
	// longer if it comes fast enough (fetch.Config).
	FetchTimeout time.Duration
	// RemoteTimeout bounds a fetch for another peer. It is also how long the fetch of an
	// estimator that does not answer is assumed to be running. It should be shorter than
	// FetchTimeout, because no other peer may fetch in the subnet during that time. 0 means
	// FetchTimeout.
	RemoteTimeout time.Duration
	// Quota limits the requests of this peer, including those for other peers. Optional.
	// The FetchWait of the Frontier should respect it too; otherwise workers poll it.
	Quota *quota.Quota
	// MaxPages is the number of pages after which one Run stops fetching; 0 means no limit.
	MaxPages int64
	// Logger is optional.
	Logger *slog.Logger
}

// Validate returns an error that lists every fault of c.
func (c Config) Validate() error {
	f := faults.Of("crawl")
	f.If(c.DB == nil, "DB is missing")
	f.If(c.Frontier == nil, "Frontier is missing")
	f.If(c.Fetcher == nil, "Fetcher is missing")
	f.If(c.Scope == nil, "Scope is missing")
	f.If(c.Delegate == nil, "Delegate is missing")
	f.If(c.Agent == "", "Agent is empty")
	f.If(c.Workers < 1, "Workers is %d, want at least 1", c.Workers)
	f.If(c.MaxTries < 1, "MaxTries is %d, want at least 1", c.MaxTries)
	f.If(c.BackOff < 0 || c.BackOff > time.Hour, "BackOff is %v, want 0 to 1h", c.BackOff)
	f.If(c.MaxBackOff < c.BackOff, "MaxBackOff is %v, want at least BackOff", c.MaxBackOff)
	f.If(c.MaxThrottle < c.BackOff, "MaxThrottle is %v, want at least BackOff", c.MaxThrottle)
	f.If(c.TryDelay < 0, "TryDelay is %v, want 0 or more", c.TryDelay)
	f.If(c.Patience <= 0, "Patience is %v, want more than 0", c.Patience)
	f.If(c.RemoteWorkers < 0, "RemoteWorkers is %d, want 0 or more", c.RemoteWorkers)
	f.If(c.MaxRequestsPerHostDay < 0, "MaxRequestsPerHostDay is %d, want 0 or more",
		c.MaxRequestsPerHostDay)
	f.If(!(c.CheckReports >= 0 && c.CheckReports <= 1), "CheckReports is %v, want 0 to 1",
		c.CheckReports)
	f.If(c.Gap < 0, "Gap is %v, want 0 or more", c.Gap)
	f.If(c.RemoteTimeout < 0, "RemoteTimeout is %v, want 0 or more", c.RemoteTimeout)
	f.If(c.FetchTimeout <= 0, "FetchTimeout is %v, want more than 0", c.FetchTimeout)
	f.If(c.MaxPages < 0, "MaxPages is %d, want 0 or more", c.MaxPages)
	return f.Err()
}
