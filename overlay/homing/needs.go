package homing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/carry"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/store"
)

// Subnets are this peer's; given by package owner. It may be called at once, and only
// Claim waits for others.
type Subnets interface {
	// Lease returns the lease of a subnet that is ours, sealed; ours is false
	// for any other.
	Lease(p netip.Prefix) (sealed []byte, ours bool)
	// Enter keeps a subnet here until leave is called. ok is false, and leave nil, if it
	// is not ours or on its way to another peer.
	Enter(p netip.Prefix) (leave func(), ok bool)
	// Claim makes a subnet that nobody owns ours.
	Claim(ctx context.Context, p netip.Prefix) error
	// PutAside routes what is queued at a host, which is in no frontier, as URLs
	// that we found. It may be repeated.
	PutAside(h store.Host) error
}

// Frontier is what a frontier knows of single hosts; given by crawl/frontier. All
// but Evict and Readdress only touch memory.
type Frontier interface {
	// Stale returns up to n hosts with work that it did not return since then.
	Stale(since time.Time, n int) []string
	// Some returns up to n hosts.
	Some(n int) []string
	Place(host string) (subnet netip.Prefix, addr netip.Addr, ok bool)
	Hold(host string, until time.Time)
	// Readdress gives a host another address in its home, unless it is being asked.
	Readdress(host string, addr netip.Addr) (bool, error)
	// Evict takes a host out when nothing is under way there, and says from when on
	// it may be asked again.
	Evict(ctx context.Context, host string) (nextAt time.Time, err error)
	Enter(h store.Host, at time.Time)
}

// Carrier brings a host with its state to another peer; given by carry.Service,
// whose errors it returns.
type Carrier interface {
	Carry(ctx context.Context, to peer.ID, o carry.Offer) error
}

var _ Carrier = (*carry.Service)(nil)

// Pace says how it is noticed that a host's addresses have left its home. Zero
// fields mean the default.
type Pace struct {
	// Every is how often the name of a host that has work is looked up again;
	// default 1 h.
	Every time.Duration
	// Span is over how long no look-up may have shown an address in the home before
	// a host moves whose server is silent, and Looks how many there must be; default
	// 10 min and 4. With each move of the host the span is four times as long, up
	// to a day: who answers each time differently does not drive it round.
	Span  time.Duration
	Looks int
}

func (p Pace) withDefaults() Pace {
	if p.Every <= 0 {
		p.Every = time.Hour
	}
	if p.Span <= 0 {
		p.Span = 10 * time.Minute
	}
	if p.Looks <= 0 {
		p.Looks = 4
	}
	return p
}

// pause is the time between two look-ups of a host that seems to have left.
func (p Pace) pause() time.Duration { return p.Span / time.Duration(p.Looks) }

// Config says what a Watch works with.
type Config struct {
	Self    peer.ID
	DB      *store.DB
	Subnets Subnets
	Homes   *home.Registry
	Leases  *lease.Registry
	// Look returns the addresses of a host, asked for anew; Allowed says whether one
	// may be dialled at all.
	Look    func(ctx context.Context, host string) ([]netip.Addr, error)
	Allowed func(netip.Addr) error
	// Carrier brings hosts to other owners. Nil: they move between subnets of ours
	// only.
	Carrier Carrier
	// Route puts URLs aside that came with a host and are not its own.
	Route func([]store.Pending) error
	Pace  Pace
	// Tick is how often it is looked whether there is something to do.
	Tick   time.Duration
	Logger *slog.Logger // nil to discard
}

func (c Config) validate() error {
	var errs []error
	for what, bad := range map[string]bool{
		"DB": c.DB == nil, "Subnets": c.Subnets == nil, "Homes": c.Homes == nil, "Leases": c.Leases == nil, "Look": c.Look == nil,
		"Allowed": c.Allowed == nil, "Route": c.Route == nil, "Tick": c.Tick <= 0,
	} {
		if bad {
			errs = append(errs, fmt.Errorf("homing: %s is missing", what))
		}
	}
	return errors.Join(errs...)
}
