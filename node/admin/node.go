package admin

import (
	"context"
	"time"
)

// Node is the peer that a server inspects. Its methods must be safe for concurrent use and
// must not wait for the network, except Search, Seed, Leave, Placement and
// Trace.
type Node interface {
	// Status returns the state of the peer.
	Status() Status
	// Peers returns the other peers in a stable order.
	Peers() []Peer
	// Subnets returns the owned subnets in a stable order.
	Subnets() []Subnet
	// Queue returns the hosts that have URLs waiting at this peer, in a stable order.
	Queue() []Host
	// Servers returns the decided subnets of all peers that this one knows of, in a stable order.
	Servers() []Site
	// Moves returns the subnets that came and went, the latest first.
	Moves() []Move
	// RecentPages returns the pages that this peer fetched last, the latest first.
	RecentPages() []Page
	// NewPages returns the last pages, the oldest first.
	NewPages() []Page
	// Gain returns what the strategy gains.
	Gain() Gain
	// Limits returns what may limit this peer.
	Limits() []Limit
	// Settings returns the settings in effect, without passwords.
	Settings() []Setting
	// DenyList returns the rules of the deny list.
	DenyList() ([]DenyRule, error)
	// History returns counters of the last day, the oldest first.
	History() []Sample
	// Disk returns the free space of the home, and when it will be used up.
	Disk() Disk
	// Events returns a bounded number of events, the oldest first.
	Events() []Event
	// Placement returns the owner of a host, address or subnet, in lower case. It may look the
	// host up. The error matches ErrBadRequest if of is none of these, or has no address.
	Placement(ctx context.Context, of string) (Placement, error)
	// Trace returns what this peer, and the owner, know of a URL. It may look its host up. The
	// error matches ErrBadRequest if it is no URL that peers request.
	Trace(ctx context.Context, url string) (Trace, error)
	// Robots returns what is known of the robots.txt of each origin of a host. With refresh,
	// each is requested again before the next URL of its origin is. The error matches
	// ErrBadRequest if this peer does not own the host.
	Robots(host string, refresh bool) ([]RobotsFile, error)
	// Seed adds URLs to the crawl. Accepted URLs are on disk when it returns. It is no error
	// if a URL is not accepted.
	Seed(ctx context.Context, urls []string) (SeedResult, error)
	// Changed is Seed for pages that have changed: those that were fetched before are fetched
	// again. They count as accepted.
	Changed(ctx context.Context, urls []string) (SeedResult, error)
	// Links calls yield for every page that this peer fetched, or for those behind the page of a
	// URL, in a stable order. It ends with the first error, its own or that of yield. The error
	// matches ErrBadRequest if after is no URL.
	Links(ctx context.Context, after string, yield func(Link) error) error
	// GivenUp calls yield for every URL that this peer no longer tries to fetch, or those of one
	// host. It ends with the first error, its own or that of yield.
	GivenUp(ctx context.Context, host string, yield func(GivenUp) error) error
	// Search searches the indexes of all peers. The error matches ErrBadRequest if the query or
	// the numbers are not valid.
	Search(ctx context.Context, query string, offset, limit int) (SearchResult, error)
	// Retry queues URLs that were given up again. It is no error if there are none.
	Retry(ctx context.Context, r RetryRequest) (RetryResult, error)
	// Pause stops fetching for a time, or until Resume if that is 0. Resume ends it. Both are on
	// disk when they return.
	Pause(d time.Duration) error
	Resume() error
	// Reload reads config.toml again and applies what can change while the peer runs.
	Reload() (Reloaded, error)
	// Stop requests a clean stop and returns at once. The peer must stop the admin server
	// last: clients wait until its file is gone.
	Stop()
	// Leave requests a clean stop that first hands everything over, for at most limit. It
	// reports the progress, at least once a second, until the handover is done, ctx ends or
	// report fails; the stop continues in each case. Later calls only report. Stop ends the
	// handover early.
	Leave(ctx context.Context, limit time.Duration, report func(Drain) error) error
}
