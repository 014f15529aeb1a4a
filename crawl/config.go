package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/crawl/quota"
	"peerd/crawl/revisit"
	"peerd/crawl/scope"
	"peerd/store"
	"peerd/store/warc"
)

// ErrNotSent wraps an error of Delegate.Remote when it is certain that the
// other peer has not begun the fetch.
var ErrNotSent = errors.New("crawl: the request did not reach the estimator")

// A Place says who fetches next in a subnet.
type Place struct {
	Peer string // another peer; "" is this one
	Hold bool   // nobody: the subnet is about to leave
	// Connect says that nothing is fetched: the peer opens a connection to the
	// server and closes it, and the URL stays queued.
	Connect bool
}

// Delegate is what the crawler asks about a subnet's ownership. All its
// methods may be called at once.
type Delegate interface {
	// Where says who fetches the next URL of a subnet.
	Where(subnet netip.Prefix) Place
	// Remote lets another peer fetch; it returns when the fetch is over or
	// cannot be running any more. The report's links are canonical URLs, each of
	// which a peer of this network might send; more is not known of them. After an error that wraps ErrNotSent, Where
	// must not name the same peer again at once.
	Remote(ctx context.Context, subnet netip.Prefix, peer string, r store.FetchRequest) (store.FetchReport, error)
	// Connect lets another peer open a connection to the URL's server. Errors as
	// Remote's.
	Connect(ctx context.Context, subnet netip.Prefix, peer string, r store.FetchRequest) (store.FetchReport, error)
	// Observe is told how a request to a subnet went, robots.txt included;
	// peer is "" for this one. After a connection the report has an outcome and
	// the time of it, nothing else.
	Observe(subnet netip.Prefix, peer string, r store.FetchReport, err error)
}

// Config says what a Crawler works with.
type Config struct {
	DB       *store.DB
	Frontier *frontier.Frontier
	Fetcher  *fetch.Fetcher
	Scope    *scope.Scope
	Delegate Delegate
	// Deferred is told how many URLs have been put aside for hosts that are
	// not ours, while what they came from still counts as under way.
	Deferred func(byHost map[string]int)
	// Sent says whether a foreign URL was handed to its owner lately.
	Sent func(store.URL) bool
	// Doubt is told when a host of ours did not answer: it may be elsewhere now. It
	// is called by the workers, and returns at once. Nil: nobody is told.
	Doubt func(host string)
	// Agent is the product token that robots.txt is matched with.
	Agent string
	// Workers is the number of fetches that may be under way at once.
	Workers int
	// MaxTries is the number of fetches after which a URL that failed each
	// time is given up, or all URLs of an origin whose robots.txt did. Ten
	// answers of 429 or 503 count as much.
	MaxTries int
	// BackOff is the wait after a first failure of a host; it doubles with
	// each further one.
	BackOff time.Duration
	// MaxRests is how often a host that answers nothing is put to rest, each time
	// twice as long and an hour at most, before all its URLs are given up.
	MaxRests int
	// Pace is nil for no other pause than the Frontier's and the site's.
	Pace *pace.Book
	// Rules say how pages are read.
	Rules Rules
	// Gate decides on hosts of others; the Frontier asks it for ours. Nil lets
	// all in.
	Gate *Gate
	// Resolve returns an address of a host that is not ours, for a robots.txt
	// that redirects there; nil follows no such redirect.
	Resolve func(ctx context.Context, host string) (netip.Addr, error)
	// Revisit says when to come back to a page; nil never does.
	Revisit *revisit.Policy
	// Archive keeps every answer; nil keeps none.
	Archive *warc.Archive
	// Room says why nothing may be fetched for want of room, and nil when there
	// is enough. With StopWhenFull that, as a store without any, ends Run with
	// ErrFull, else it waits.
	Room         func() error
	StopWhenFull bool
	// ErrandWorkers bounds the fetches at other peers' request that may be under
	// way at once; 0 means Workers.
	ErrandWorkers int
	// HostDay bounds the requests to a host on one day (UTC); 0 means none.
	HostDay int64
	// Gap is that of the Frontier: the wait between the requests of a
	// robots.txt that is redirected.
	Gap time.Duration
	// FetchTimeout bounds one request from the first packet to the last.
	FetchTimeout time.Duration
	// ErrandTimeout is the same for a fetch at another peer's request, and how
	// long that of a lost estimator is taken to be running; zero means
	// FetchTimeout. It is shorter, because the owner of a subnet lets
	// nobody else fetch there while an estimator is silent.
	ErrandTimeout time.Duration
	// Quota bounds the requests of this peer, those at others' request included; nil
	// does not. Config.Open of the Frontier should ask it too, or workers
	// come again and again for nothing.
	Quota *quota.Quota
	// MaxPages ends the crawl after so many pages of one Run; 0 means never.
	MaxPages int64
	// Logger is nil to discard.
	Logger *slog.Logger
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("crawl: "+format, args...))
		}
	}
	fault(c.DB == nil, "DB is missing")
	fault(c.Frontier == nil, "Frontier is missing")
	fault(c.Fetcher == nil, "Fetcher is missing")
	fault(c.Scope == nil, "Scope is missing")
	fault(c.Delegate == nil, "Delegate is missing")
	fault(c.Deferred == nil, "Deferred is missing")
	fault(c.Sent == nil, "Sent is missing")
	fault(c.Agent == "", "Agent is empty")
	fault(c.Workers < 1, "Workers is %d, want at least 1", c.Workers)
	fault(c.MaxTries < 1, "MaxTries is %d, want at least 1", c.MaxTries)
	fault(c.BackOff < 0 || c.BackOff > time.Hour, "BackOff is %v, want 0 to 1h", c.BackOff)
	fault(c.MaxRests < 0, "MaxRests is %d, want 0 or more", c.MaxRests)
	fault(c.ErrandWorkers < 0, "ErrandWorkers is %d, want 0 or more", c.ErrandWorkers)
	fault(c.HostDay < 0, "HostDay is %d, want 0 or more", c.HostDay)
	fault(c.Gap < 0, "Gap is %v, want 0 or more", c.Gap)
	fault(c.ErrandTimeout < 0, "ErrandTimeout is %v, want 0 or more", c.ErrandTimeout)
	fault(c.FetchTimeout <= 0, "FetchTimeout is %v, want more than 0", c.FetchTimeout)
	fault(c.MaxPages < 0, "MaxPages is %d, want 0 or more", c.MaxPages)
	return errors.Join(errs...)
}
