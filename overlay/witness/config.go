package witness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/lease"
)

// The times that do not depend on configuration: all peers must agree on them.
const (
	// VoteWindow is how long after it began to ask a candidate may use the votes:
	// by then its lease must be published. By its own clock.
	VoteWindow = 30 * time.Second
	// VoteLife is for how long a witness gives no vote for another candidate. By
	// its own clock.
	VoteLife = 2 * time.Minute
	// ReviveAfter is how long after a revocation an owner may go on with the subnet,
	// if the DHT shows no better lease then: the candidate's window is over.
	ReviveAfter = VoteWindow + 5*time.Second
	// Forget is how long an owner that does not come back is told of votes:
	// longer than any lease counts.
	Forget = lease.MaxTTL + lease.Grace
	// MaxAsk is how many subnets one Ask may be about.
	MaxAsk = 256
)

// Store keeps what a witness must not forget: its votes, and the newest panel
// that it knows of each owner; and this peer's own panels. OnDB is one.
type Store interface {
	// Each calls fn for every value, and fails with fn's first error.
	Each(fn func(key string, val []byte) error) error
	// Write sets each key to its value, or removes it when that is nil: all of
	// them or none. It returns when that is on the disk itself. It may be called
	// by many at once; calls for one key do not overlap.
	Write(vals map[string][]byte) error
}

// A Revocation is a witness's message to an owner: it has voted that To owns Subnet
// at Epoch.
type Revocation struct {
	By     peer.ID
	Subnet netip.Prefix
	Epoch  uint64
	To     peer.ID
}

// Config holds what a Service works with.
type Config struct {
	// Host carries the protocol; required, as are Key, this peer's private key,
	// and Protocol.
	Host     host.Host
	Key      crypto.PrivKey
	Protocol protocol.ID
	// Store is required.
	Store Store
	// Peers lists the peers that may be witnesses: those that seem present, self
	// left out or not. Required. It is called every Interval and must not block.
	Peers func() []peer.ID
	// Members is how many witnesses to have besides self, if there are enough
	// peers: 0, 2 or 4. With 0 nobody can take over, and the right is for ever.
	Members int
	// Interval is the time between two heartbeats to a witness.
	Interval time.Duration
	// Hold is how long after a heartbeat was sent its answer counts.
	Hold time.Duration
	// Promise is how long after a heartbeat came a witness gives no vote against
	// its sender. It outlasts Hold, however different the rates of two clocks.
	// All peers of a network must have the same Hold and Promise.
	Promise time.Duration
	// Gone is the silence after which a witness is replaced.
	Gone time.Duration
	// Revoked is told, before the right that its bearer's answer would give counts,
	// that witnesses voted subnets of this peer away. When it returns nil, nothing
	// may be fetched there any more and that is on the disk. It may be told the
	// same again. An error leaves the answer uncounted; it comes again. Nil:
	// nobody is told. Calls for one witness do not overlap.
	Revoked func(context.Context, []Revocation) error
	// Doubt is called when witnesses were given up after lease.LongSilence: what
	// they voted for meanwhile will not be known, so each lease has to be read
	// again before the right counts for it. Nil: nobody is told.
	Doubt func()
	// Logger hears of the right gained and lost, and of panels. Nil discards.
	Logger *slog.Logger
}

// DefaultConfig returns a Config that lacks Host, Key, Protocol, Store and Peers.
func DefaultConfig() Config {
	return Config{
		Members: lease.MaxMembers, Interval: 5 * time.Second,
		Hold: 15 * time.Second, Promise: 20 * time.Second, Gone: 30 * time.Second,
	}
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("witness: "+format, args...))
		}
	}
	fault(c.Host == nil || c.Key == nil || c.Protocol == "", "Host, Key or Protocol is missing")
	fault(c.Host != nil && c.Key != nil && !c.Host.ID().MatchesPrivateKey(c.Key), "Key is not that of Host")
	fault(c.Store == nil || c.Peers == nil, "Store or Peers is missing")
	fault(c.Members < 0 || c.Members > lease.MaxMembers || c.Members%2 != 0, "Members is %d, want 0, 2 or %d", c.Members, lease.MaxMembers)
	fault(c.Interval < 10*time.Millisecond || 2*c.Interval > c.Hold, "Interval is %v, want 10ms to half of Hold, %v", c.Interval, c.Hold)
	fault(c.Promise < c.Hold+c.Hold/20, "Promise is %v, want a twentieth more than Hold, %v", c.Promise, c.Hold)
	fault(c.Gone < c.Promise, "Gone is %v, want at least Promise, %v", c.Gone, c.Promise)
	return errors.Join(errs...)
}
