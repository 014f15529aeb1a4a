package owner

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/overlay/home"
	"peerd/overlay/homing"
	"peerd/overlay/lease"
	"peerd/store"
)

// Config says what a Manager works with.
type Config struct {
	Self      peer.ID
	Key       crypto.PrivKey
	DB        *store.DB
	Frontier  Frontier // set by Attach
	Directory Directory
	Strategy  assign.Strategy
	// Known returns what is known of other subnets that have been decided;
	// given by package atlas. Nil: nothing is.
	Known    func() assign.Known
	Leases   *lease.Registry
	Homes    *home.Registry
	Estimate Estimator
	Sender   Sender
	Resolve  Resolve
	// Look is Resolve that asks anew, whatever is remembered. Nil: Resolve.
	Look Resolve
	// Homing says when a host moves to another subnet; Carrier brings it to the
	// owner of that. Without a Carrier hosts move between subnets of ours only.
	Homing  homing.Pace
	Carrier homing.Carrier
	// Seek is told the place of a server whose subnet is being decided. Nil: the
	// Directory knows everybody.
	Seek Seek
	// Allowed says whether an address may be dialled at all.
	Allowed func(netip.Addr) error
	// MayClaim says why this peer may claim no subnets now; nil when it may. While
	// it knows of others and hears none of them that is ErrAlone.
	MayClaim func() error
	// Moved is called when a subnet's owner has changed: URLs that wait for it
	// must be resolved anew.
	Moved func(netip.Prefix)
	// Deferred is told how many URLs of which hosts were put aside by what this
	// package did itself. Nil: nobody is.
	Deferred func(byHost map[string]int)
	// Route puts URLs back that this peer must not crawl any more.
	Route func([]store.Pending) error
	// Witness says when this peer may act as an owner, and gathers votes against
	// those that are silent. Nil: it always may, and takes nothing over.
	Witness Witness
	// Replicas keeps the shadows of our subnets, and us a shadow of others'. Nil:
	// there are none, and nothing can be handed over.
	Replicas Replicas
	// Shadows is how many each subnet of ours has.
	Shadows int
	// Holders says which peers are likely to fail together. Nil: those whose addresses
	// are alike.
	Holders Holders
	// Heard returns when another peer was last heard of in whatever way, the zero
	// time for never. It must answer from memory. Nil: never of anybody.
	Heard func(peer.ID) time.Time
	// Room says why this peer has no room on its disk for more. Nil: it has.
	Room func() error
	// Limits says how much this peer wants to do; it must answer from memory. Nil:
	// whatever there is, at any time.
	Limits func(now time.Time) Limits
	// Full says of another peer that it takes no subnets now. It must answer from
	// memory. Nil: all do.
	Full func(peer string) bool
	// Gap is the least time between two requests to a host.
	Gap time.Duration
	// Rest is how long the servers of a subnet that was taken over are left alone:
	// the politeness gap, and what may be left of a request of the old owner's.
	Rest time.Duration
	// Times are those of shadows and takeovers.
	Times Times
	// LeaseTTL is that of Leases; a lease is renewed at a third of it.
	LeaseTTL time.Duration
	// DecideIdle is how long a subnet that is being estimated may be without
	// any URL before the choice is made from what is known.
	DecideIdle time.Duration
	// Adapt says how subnets are watched that are decided, so that they move when
	// another peer has become clearly nearer. Nil: they stay, as they do under a
	// Strategy that is no assign.Reviewer.
	Adapt *assign.WatchConfig
	// Tick is the pace of the housekeeping.
	Tick time.Duration
	// Logger is nil to discard.
	Logger *slog.Logger
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("owner: "+format, args...))
		}
	}
	fault(c.Key == nil || !c.Self.MatchesPrivateKey(c.Key), "Key is not that of Self %v", c.Self)
	fault(c.DB == nil, "DB is missing")
	fault(c.Directory == nil, "Directory is missing")
	fault(c.Strategy == nil, "Strategy is missing")
	fault(c.Leases == nil, "Leases is missing")
	fault(c.Homes == nil, "Homes is missing")
	fault(c.Estimate == nil, "Estimate is missing")
	fault(c.Sender == nil, "Sender is missing")
	fault(c.Resolve == nil, "Resolve is missing")
	fault(c.Allowed == nil, "Allowed is missing")
	fault(c.MayClaim == nil, "MayClaim is missing")
	fault(c.Moved == nil, "Moved is missing")
	fault(c.Route == nil, "Route is missing")
	fault(c.LeaseTTL <= 0 || c.LeaseTTL > lease.MaxTTL, "LeaseTTL is %v, want up to %v", c.LeaseTTL, lease.MaxTTL)
	fault(c.DecideIdle < 0, "DecideIdle is %v, want 0 or more", c.DecideIdle)
	if c.Adapt != nil {
		if err := c.Adapt.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("owner: Adapt: %w", err))
		}
	}
	fault(c.Shadows < 0 || c.Shadows > MaxShadows, "Shadows is %d, want 0 to %d", c.Shadows, MaxShadows)
	fault(c.Rest < 0, "Rest is %v, want 0 or more", c.Rest)
	if err := c.Times.validate(); err != nil {
		errs = append(errs, err)
	}
	fault(c.Tick <= 0, "Tick is %v, want more than 0", c.Tick)
	return errors.Join(errs...)
}
