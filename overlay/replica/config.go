package replica

import (
	"cmp"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/internal/faults"
	"peerd/store"
)

var (
	// ErrRefused is returned by a replica that does not want the subnet. It is asked
	// again after Config.Retry, or at once by a Follow with a new lease.
	ErrRefused = errors.New("replica: refused")
	// ErrStale is returned by a replica that knows a later epoch of the subnet.
	ErrStale = errors.New("replica: a later epoch is known")
	// ErrLater is returned by a replica that cannot take the subnet at this moment. It
	// is asked again within seconds.
	ErrLater = errors.New("replica: not possible at this moment")
	// ErrLink is returned while a replica is not connected, or is silent.
	ErrLink = errors.New("replica: no link to the replica")
	// ErrNotFollowed is returned for a peer that does not follow the subnet.
	ErrNotFollowed = errors.New("replica: not a follower")
	// ErrNotHeld is returned for a subnet of which this peer has no copy.
	ErrNotHeld = errors.New("replica: no copy of this subnet")
	// ErrIncomplete is returned for a copy that has gaps.
	ErrIncomplete = errors.New("replica: the copy is not complete")
)

// Policy decides which copies this peer keeps for others; package owner implements it.
// Its methods must be safe for concurrent use. The Service calls them without holding
// a lock.
type Policy interface {
	// AcceptCopy reports whether this peer becomes or remains a replica of a subnet
	// that from owns by the lease in o. It must check the lease and the witness set,
	// which are not checked before. The text of an error is sent to the owner. An error
	// that wraps ErrStale means that a later epoch is known, one that wraps ErrLater
	// that the owner should ask again soon. AcceptCopy must not wait for a method that
	// changes a copy of the same subnet (Promote, Drop, Demote).
	AcceptCopy(from peer.ID, o OpenRequest) error
	// CurrentLease returns the best lease of a subnet that this peer knows, without
	// asking other peers.
	CurrentLease(p netip.Prefix) (owner peer.ID, epoch uint64, ok bool)
	// CopyRequested is called when a peer that does not reach the owner of a subnet asks
	// for this peer's copy of it. It must not block.
	CopyRequested(p netip.Prefix)
	// CopyReported is called when a peer reports a copy of one of this peer's subnets
	// that this peer does not update. It must not block.
	CopyReported(p netip.Prefix)
}

// Config configures a Service. The zero value of a time or a number stands for its
// default.
type Config struct {
	Host          host.Host
	Protocol      protocol.ID
	QueryProtocol protocol.ID // for queries about the copies kept here; empty: not served
	DB            *store.DB
	Policy        Policy // may be set by SetPolicy, before Run
	// Check returns an error for a URL that no peer of this network would send.
	URLs store.URLChecker

	// Heartbeat is the interval at which the owner sends a heartbeat. 5 s.
	Heartbeat time.Duration
	// BatchDelay is how long changes are collected before they are sent. 200 ms.
	BatchDelay time.Duration
	// SyncEvery is how often a replica syncs what is not urgent. 500 ms.
	SyncEvery time.Duration
	// Redial is the first wait after a link broke; it doubles up to ten
	// times as much. 1 s.
	Redial time.Duration
	// Retry is the wait before a replica that refused is asked again. 2 min.
	Retry time.Duration
	// Later is how long Await waits for a replica that answers ErrLater. 1 min.
	Later time.Duration
	// SweepAfter is how long an incomplete copy is kept after its owner was heard last.
	// 24 h. A copy that is not updated and of which the subnet is known to have another
	// owner is kept for a twenty-fourth of it.
	SweepAfter time.Duration

	// MaxCopies, MaxURLs and MaxBytes bound what is kept for all other peers
	// together: subnets, URLs in their seen-sets, queues and histories, and bytes as
	// received. 100,000; 200 million; 40 GiB. One owner may use half of each.
	MaxCopies int
	MaxURLs   int64
	MaxBytes  int64
	// Uptime is used to tell how long this peer was away. Nil: that is never known.
	Uptime Uptime
	// Logger receives log records. Nil discards them.
	Logger *slog.Logger
}

const (
	// ownerShare is the part of what is kept for other peers that one owner may use.
	ownerShare = 0.5
	// maxLog is how many records of its log an owner keeps for a follower that lags behind.
	maxLog = 1 << 14
)

// IdleLog is how many records of a log are kept while it has no follower.
const IdleLog = 1024

// withDefaults replaces zero values by defaults.
func (c Config) withDefaults() Config {
	c.Heartbeat = cmp.Or(c.Heartbeat, 5*time.Second)
	c.BatchDelay = cmp.Or(c.BatchDelay, 200*time.Millisecond)
	c.SyncEvery = cmp.Or(c.SyncEvery, 500*time.Millisecond)
	c.Redial = cmp.Or(c.Redial, time.Second)
	c.Retry = cmp.Or(c.Retry, 2*time.Minute)
	c.Later = cmp.Or(c.Later, time.Minute)
	c.SweepAfter = cmp.Or(c.SweepAfter, 24*time.Hour)
	c.MaxCopies = cmp.Or(c.MaxCopies, 100_000)
	c.MaxURLs = cmp.Or(c.MaxURLs, 200_000_000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 40<<30)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate returns all faults of c, joined.
func (c Config) Validate() error {
	f := faults.Of("replica")
	f.If(c.Host == nil, "Host is missing")
	f.If(c.Protocol == "", "Protocol is missing")
	f.If(c.DB == nil, "DB is missing")
	f.If(c.URLs == nil, "URLs is missing")
	for _, d := range []time.Duration{c.Heartbeat, c.BatchDelay, c.SyncEvery, c.Redial, c.Retry,
		c.Later, c.SweepAfter} {
		f.If(d < 0, "a time is %v, want 0 or more", d)
	}
	f.If(c.Heartbeat > silence/2, "Heartbeat is %v, want up to %v", c.Heartbeat, silence/2)
	f.If(c.MaxCopies < 0 || c.MaxURLs < 0 || c.MaxBytes < 0, "a bound is negative")
	return f.Err()
}
