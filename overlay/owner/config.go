package owner

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/internal/faults"
	"peerd/overlay/home"
	"peerd/overlay/hostmove"
	"peerd/overlay/lease"
	"peerd/store"
)

// Config says what a Manager works with.
type Config struct {
	Self     peer.ID
	Key      crypto.PrivKey
	DB       *store.DB
	Frontier Frontier // set by Attach
	Leases   *lease.Registry
	Homes    *home.Registry
	Sender   Sender
	Outbox   Outbox
	PlacementConfig
	HostConfig
	FailoverConfig
	Limiter Limiter
	// Gap is the least time between two requests to a host.
	Gap time.Duration
	// Cooldown is the time for which the servers of a subnet that was taken over are left
	// alone: the politeness gap, and the rest of a request of the old owner.
	Cooldown time.Duration
	// LeaseTTL is that of Leases; a lease is renewed at a third of it.
	LeaseTTL time.Duration
	// Tick is the pace of the housekeeping.
	Tick time.Duration
	// Logger is nil to discard.
	Logger *slog.Logger
}

// PlacementConfig says what decides where subnets belong.
type PlacementConfig struct {
	Directory Directory
	Strategy  assign.Strategy
	// OwnerMap is what is known of other subnets that have been decided. Nil: nothing.
	OwnerMap OwnerMap
	Estimate Estimator
	// Seek is called with the proxy of a server in a subnet that is being decided. Nil: the
	// Directory knows all peers.
	Seek Seek
	// DecideIdle is how long a subnet that is being estimated may be without
	// any URL, while this peer may accept some, before the choice is made from what is known.
	DecideIdle time.Duration
	// Adapt says how subnets are watched that are decided, so that they move when
	// another peer has become clearly nearer. Nil: they stay, as they do under a
	// Strategy that is no assign.Reviewer.
	Adapt *assign.ReviewConfig
}

// HostConfig says how hosts are found, and when they move.
type HostConfig struct {
	Resolve Resolve
	// ResolveFresh is Resolve without caches.
	ResolveFresh Resolve
	// Guard says whether an address may be dialled at all.
	Guard hostmove.Guard
	// Reacher connects to servers. Nil: connections say nothing about where a host belongs.
	Reacher Reacher
	// Confirm asks the owner of a subnet that the home record of a host names, if the host has no
	// address there by Resolve. Nil: all records are believed.
	Confirm Confirmer
	// HostMoves configures when a host moves to another subnet; Transferrer sends it to the
	// owner of that. Without a Transferrer hosts move only between subnets of this peer.
	HostMoves   hostmove.Pace
	Transferrer hostmove.Transferrer
}

// FailoverConfig says how subnets outlive their owners.
type FailoverConfig struct {
	// Witness says when this peer may act as an owner, and gathers votes against
	// those that are silent. Nil: it always may, and takes nothing over.
	Witness Witness
	// Replicas keeps copies of our subnets at other peers, and of theirs here.
	Replicas Replicas
	// ReplicaCount is the number of replicas of each owned subnet.
	ReplicaCount int
	// Holders identifies peers that are likely to fail together. Nil: those with similar
	// addresses.
	Holders Holders
	// Contacts tells when other peers were heard. Nil: never, and none is back.
	Contacts Contacts
	// Times configures replicas and takeovers.
	Times Times
}

// OwnerMap returns the other subnets of which it is known that they have been decided.
// ownermap.Map implements it.
type OwnerMap interface{ Known() assign.Delegations }

// A Reacher connects to servers.
type Reacher interface {
	// Reach returns the first of some addresses at which the server of a URL accepts a connection;
	// false if none does. One that has answered within the time recent is not connected to again.
	Reach(ctx context.Context, u store.URL, addrs []netip.Addr, recent time.Duration) (
		netip.Addr, bool)
}

// Contacts tells when other peers were heard. It answers from memory.
type Contacts interface {
	// Heard returns when another peer was last heard of in whatever way, the zero time for never.
	Heard(peer.ID) time.Time
	// Absences returns the absences of other peers that were found to be over at or after a time.
	Absences(since time.Time) []Absence
}

// A Limiter says what keeps this peer, and others, from taking subnets. It answers from memory.
type Limiter interface {
	// MayClaim says why this peer may claim no subnets now; nil when it may. While
	// it knows of others and hears none of them that is ErrAlone.
	MayClaim() error
	// Online reports whether this peer's network is up; otherwise no host moves.
	Online() bool
	// CheckSpace returns an error if this peer's disk has no free space for more.
	CheckSpace() error
	// Limits says how much this peer wants to do.
	Limits(now time.Time) Limits
	// AtCapacity reports that another peer takes no subnets now.
	AtCapacity(peer string) bool
}

// Validate names every fault of c.
func (c Config) Validate() error {
	f := faults.Of("owner")
	f.If(c.Key == nil || !c.Self.MatchesPrivateKey(c.Key), "Key is not that of Self %v", c.Self)
	f.If(c.DB == nil, "DB is missing")
	f.If(c.Directory == nil, "Directory is missing")
	f.If(c.Strategy == nil, "Strategy is missing")
	f.If(c.Leases == nil, "Leases is missing")
	f.If(c.Homes == nil, "Homes is missing")
	f.If(c.Estimate == nil, "Estimate is missing")
	f.If(c.Sender == nil, "Sender is missing")
	f.If(c.Resolve == nil, "Resolve is missing")
	f.If(c.ResolveFresh == nil, "ResolveFresh is missing")
	f.If(c.Replicas == nil, "Replicas is missing")
	f.If(c.Guard == nil, "Guard is missing")
	f.If(c.Limiter == nil, "Limiter is missing")
	f.If(c.Outbox == nil, "Outbox is missing")
	f.If(c.LeaseTTL <= 0 || c.LeaseTTL > lease.MaxTTL, "LeaseTTL is %v, want up to %v", c.LeaseTTL,
		lease.MaxTTL)
	f.If(c.DecideIdle < 0, "DecideIdle is %v, want 0 or more", c.DecideIdle)
	if c.Adapt != nil {
		err := c.Adapt.Validate()
		f.If(err != nil, "Adapt: %w", err)
	}
	f.If(c.ReplicaCount < 0 || c.ReplicaCount > MaxReplicas, "ReplicaCount is %d, want 0 to %d",
		c.ReplicaCount, MaxReplicas)
	f.If(c.Cooldown < 0, "Cooldown is %v, want 0 or more", c.Cooldown)
	f.If(c.Times == (Times{}), "Times is missing")
	f.If(c.Tick <= 0, "Tick is %v, want more than 0", c.Tick)
	return f.Err()
}
