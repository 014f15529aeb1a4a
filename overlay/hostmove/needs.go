package hostmove

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/faults"
	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/store"
)

// Subnets are this peer's; given by package owner. It may be called at once, and only
// Claim and Safe wait for others.
type Subnets interface {
	// Lease returns the lease of a subnet that is ours, sealed; ours is false
	// for any other.
	Lease(p netip.Prefix) (sealed []byte, ours bool)
	// Enter keeps a subnet here until leave is called. ok is false, and leave nil, if the
	// subnet is not ours or is on its way to another peer.
	Enter(p netip.Prefix) (leave func(), ok bool)
	// Safe reports whether what was stored in a subnet of ours before the call would survive this
	// peer.
	Safe(ctx context.Context, p netip.Prefix) bool
	// Claim makes a subnet without an owner ours.
	Claim(ctx context.Context, p netip.Prefix) error
	// RefreshOwner reads the owner of a subnet again, after that one did not answer or, with
	// denied, has refused. It reports whether it is another peer than owner by now.
	RefreshOwner(ctx context.Context, p netip.Prefix, owner peer.ID, denied bool) (bool, error)
	// Reroute sends what is queued at a host, which is in no frontier, to its owner as URLs
	// that we found. It may be repeated.
	Reroute(h store.Host) error
	// Route adds to the pending URLs those that came with a host and are not its own.
	Route([]store.Pending) error
}

// A Guard returns an error for addresses that must not be dialled. fetch.Guard implements it.
type Guard interface{ Check(netip.Addr) error }

// Network is what this peer sees of the web; given by package owner.
type Network interface {
	// Online reports whether this peer's network is up: otherwise nothing is looked up or moved.
	Online() bool
	// Lookup returns the addresses of a host without caches.
	Lookup(ctx context.Context, host string) ([]netip.Addr, error)
	// Reach returns the first of some addresses of a host that accepts a connection now; false if
	// none does.
	Reach(ctx context.Context, host string, addrs []netip.Addr) (netip.Addr, bool)
}

// Frontier is what a frontier knows of single hosts; given by crawl/frontier. All
// but SetHostAddr and EvictHost only touch memory.
type Frontier interface {
	// StaleHosts returns up to n hosts with work that it has not returned since the given
	// time.
	StaleHosts(since time.Time, n int) []string
	HostAddr(host string) (subnet netip.Prefix, addr netip.Addr, ok bool)
	DelayHost(host string, until time.Time)
	// SetRetryAt sets the time before which a host is left alone because of its failures.
	SetRetryAt(host string, at time.Time)
	// SetHostAddr gives a host another address in its home, unless it is being asked.
	SetHostAddr(host string, addr netip.Addr) (bool, error)
	// EvictHost removes a host when no request to it is in flight, and returns the time from
	// which it may be asked again.
	EvictHost(ctx context.Context, host string) (nextAt time.Time, err error)
	AdoptHost(h store.Host, at time.Time)
}

// Transferrer sends a host with its state to another peer. It is provided by
// hosttransfer.Service and returns its errors.
type Transferrer interface {
	Transfer(ctx context.Context, to peer.ID, o hosttransfer.Offer) error
	// TellFetched tells another peer what this one has fetched of a host under a lost lease.
	TellFetched(ctx context.Context, to peer.ID, host string, lost []byte) error
}

var _ Transferrer = (*hosttransfer.Service)(nil)

// Pace says how it is noticed that a host's addresses have left its home. Zero
// fields mean the default.
type Pace struct {
	// Every is how often the name of a host that has work is looked up again;
	// default 1 h.
	Every time.Duration
	// Span is the time during which no lookup may have shown an address in the home before a
	// host with a silent server moves, and Lookups the least number of lookups; default 10
	// min and 4. After each move of the host the span is four times as long, up to a day, so
	// that a name that resolves differently each time does not keep the host moving.
	Span    time.Duration
	Lookups int
	// Unreachable takes the place of Span for a host with addresses in its home that accept no
	// connection, while one elsewhere does, each time that it is tried; default 30 s.
	Unreachable time.Duration
}

func (p Pace) withDefaults() Pace {
	p.Every = cmp.Or(max(p.Every, 0), time.Hour)
	p.Span = cmp.Or(max(p.Span, 0), 10*time.Minute)
	p.Lookups = cmp.Or(max(p.Lookups, 0), 4)
	p.Unreachable = cmp.Or(max(p.Unreachable, 0), 30*time.Second)
	return p
}

// span is how long a host must have left its home.
func (p Pace) span(c cause) time.Duration {
	if c == unreachable {
		return p.Unreachable
	}
	return p.Span
}

// pause is the time between two look-ups of a host that seems to have left.
func (p Pace) pause(c cause) time.Duration { return p.span(c) / time.Duration(p.Lookups) }

// Config says what a Monitor works with.
type Config struct {
	Self    peer.ID
	DB      *store.DB
	Subnets Subnets
	Homes   *home.Registry
	Leases  *lease.Registry
	Network Network
	Guard   Guard
	// Transferrer sends hosts to other owners. Nil: hosts move only between subnets of this
	// peer.
	Transferrer Transferrer
	Pace        Pace
	// Tick is how often it is looked whether there is something to do.
	Tick   time.Duration
	Logger *slog.Logger // nil to discard
}

func (c Config) validate() error {
	f := faults.Of("hostmove")
	f.If(c.DB == nil || c.Subnets == nil || c.Homes == nil || c.Leases == nil ||
		c.Network == nil || c.Guard == nil || c.Tick <= 0,
		"DB, Subnets, Homes, Leases, Network, Guard or Tick is missing")
	return f.Err()
}
