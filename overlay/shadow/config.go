package shadow

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/store"
)

var (
	// ErrRefused is a replica's: it does not want the subnet. It is asked again
	// after Config.Retry, or at once by a Follow that says something new.
	ErrRefused = errors.New("shadow: refused")
	// ErrStale is a replica's: it knows a later epoch of the subnet.
	ErrStale = errors.New("shadow: a later epoch is known")
	// ErrLater is a replica's: it cannot take the subnet at this moment. It is asked
	// again within seconds.
	ErrLater = errors.New("shadow: not at this moment")
	// ErrLink says that the replica is not connected, or has fallen silent.
	ErrLink = errors.New("shadow: no link to the replica")
	// ErrNotFollowed is returned for a peer that is no follower of the subnet.
	ErrNotFollowed = errors.New("shadow: not a follower")
	// ErrNotHeld is returned for a subnet of which there is no copy here.
	ErrNotHeld = errors.New("shadow: no copy of this subnet")
	// ErrIncomplete is returned for a copy that has gaps.
	ErrIncomplete = errors.New("shadow: the copy is not complete")
)

// Keeper decides what this peer keeps for others; given by owner.Manager. Its
// methods may be called at once, and never while the Service holds a lock.
type Keeper interface {
	// Willing says whether this peer becomes, or goes on as, a replica of a
	// subnet that `from` owns by the lease shown. It checks lease and panel, which
	// nobody has done before; what its error says is told to the owner. An error that
	// wraps ErrStale says that a later epoch is known, one that wraps ErrLater that
	// the owner should ask again soon. It must not wait for a method that changes a
	// copy of the same subnet (Promote, Forget, Demote).
	Willing(from peer.ID, o Open) error
	// Current returns the best lease that is known of a subnet, without asking
	// anybody.
	Current(p netip.Prefix) (owner peer.ID, epoch uint64, ok bool)
	// Wanted is told that somebody asks for the copy of a subnet, whose owner it does
	// not reach. It returns at once.
	Wanted(p netip.Prefix)
	// Reminded is told that somebody keeps a copy of a subnet of this peer's, as it
	// says, that this peer does not follow up. It returns at once.
	Reminded(p netip.Prefix)
}

// Config says what a Service works with. The zero value of a time or a number
// means its default.
type Config struct {
	Host     host.Host
	Protocol protocol.ID
	Asking   protocol.ID // on which others ask what is kept here; empty: on none
	DB       *store.DB
	Keeper   Keeper // may be set by Attach, before Run
	// Check rejects URLs that no peer of this network would send.
	Check func(store.URL) error

	// Beat is how often the owner says that it is there. 5 s.
	Beat time.Duration
	// Gather is how long changes are gathered before they are sent. 200 ms.
	Gather time.Duration
	// SyncEvery is how long a replica lets what nobody waits for be without a
	// Sync. 500 ms.
	SyncEvery time.Duration
	// Redial is the first wait after a link broke; it doubles up to thirty
	// times as much. 1 s.
	Redial time.Duration
	// Retry is the wait before a replica that refused is asked again. 2 min.
	Retry time.Duration
	// Sweep is how long a copy that is not complete, and not heard of, is
	// kept. 24 h. One whose subnet is known to be another's now, and which nobody
	// continues, is kept for a twenty-fourth of it.
	Sweep time.Duration

	// MaxReplicas, MaxURLs and MaxBytes bound what is kept for all other peers
	// together: subnets, URLs in their seen-sets, queues and histories, and bytes,
	// counted as they came. 100,000; 200 million; 40 GiB.
	MaxReplicas int
	MaxURLs     int64
	MaxBytes    int64
	// OwnerShare is the part of these that one owner may take. 0.5.
	OwnerShare float64

	// MaxLog is how many records of its log an owner keeps for a follower that
	// lags behind. 16,384.
	MaxLog uint64
	// Uptime tells how long this peer was away. Nil: that is never known.
	Uptime Uptime
	// Logger is nil to discard.
	Logger *slog.Logger
}

// IdleLog is how many records of a log are kept while nobody follows.
const IdleLog = 1024

// withDefaults fills in what is left zero.
func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Beat, 5*time.Second)
	def(&c.Gather, 200*time.Millisecond)
	def(&c.SyncEvery, 500*time.Millisecond)
	def(&c.Redial, time.Second)
	def(&c.Retry, 2*time.Minute)
	def(&c.Sweep, 24*time.Hour)
	if c.MaxReplicas == 0 {
		c.MaxReplicas = 100_000
	}
	if c.MaxURLs == 0 {
		c.MaxURLs = 200_000_000
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 40 << 30
	}
	if c.OwnerShare == 0 {
		c.OwnerShare = 0.5
	}
	if c.MaxLog == 0 {
		c.MaxLog = 1 << 14
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("shadow: "+format, args...))
		}
	}
	fault(c.Host == nil, "Host is missing")
	fault(c.Protocol == "", "Protocol is missing")
	fault(c.DB == nil, "DB is missing")
	fault(c.Check == nil, "Check is missing")
	for _, d := range []time.Duration{c.Beat, c.Gather, c.SyncEvery, c.Redial, c.Retry, c.Sweep} {
		fault(d < 0, "a time is %v, want 0 or more", d)
	}
	fault(c.Beat > silence/2, "Beat is %v, want up to %v", c.Beat, silence/2)
	fault(c.MaxReplicas < 0 || c.MaxURLs < 0 || c.MaxBytes < 0, "a bound is negative")
	fault(!(c.OwnerShare >= 0 && c.OwnerShare <= 1), "OwnerShare is %v, want 0 to 1", c.OwnerShare)
	return errors.Join(errs...)
}
