package witness

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/internal/faults"
	"peerd/overlay/lease"
)

// Times that are not configurable, because all peers must use the same.
const (
	// VoteWindow is how long after its request a candidate may use the votes: by then
	// it must have published its lease. By the candidate's clock.
	VoteWindow = 30 * time.Second
	// VoteLife is how long a witness does not vote for another candidate. By the
	// witness's clock.
	VoteLife = 2 * time.Minute
	// ReviveAfter is how long after a revocation an owner may continue with the subnet
	// if the DHT has no better lease then: the candidate's window is over.
	ReviveAfter = VoteWindow + 5*time.Second
	// AloneAfter is the silence after which each peer of a network of two acts alone: the
	// witness votes, and an owner that was just started does without its acknowledgement.
	// Longer than most restarts and cuts, as after longer ones both act.
	AloneAfter = time.Minute
	// StrangerAfter is how much longer than the promise an owner must have been silent before a
	// witness votes for a candidate that it has not known for long. The owner's replicas have asked
	// several times by then; keys cost nothing, and one made for this would ask before them.
	StrangerAfter = time.Minute
	// NoticeLife is how long votes are kept for an owner that does not come back:
	// longer than any lease is valid.
	NoticeLife = lease.MaxTTL + lease.Grace
	// MaxProposals is how many subnets one request for votes may name.
	MaxProposals = 256
)

// Store keeps what a witness must not lose: its votes, the newest witness set that it
// knows of each owner, and its own sets in force. OnDB returns one.
type Store interface {
	// Each calls fn for every value, and fails with fn's first error.
	Each(fn func(key string, val []byte) error) error
	// Write sets each key to its value, or removes it if the value is nil: all of
	// them or none. It returns after a sync to disk. It must be safe for concurrent
	// use; calls for the same key do not overlap.
	Write(vals map[string][]byte) error
}

// A Revocation is a vote of which a witness notifies an owner: By has voted that To owns
// Subnet at Epoch.
type Revocation struct {
	By     peer.ID
	Subnet netip.Prefix
	Epoch  uint64
	To     peer.ID
}

// Origin says what peers have in common that may fail or lie together.
type Origin struct {
	// Network is the /16 or /32 of the peer's address; invalid if that is not known.
	Network netip.Prefix
	// Old means that the peer has been known for long.
	Old bool
}

// A Node is what a Service knows of the other peers, and whom it tells of votes. Its methods may
// be called concurrently.
type Node interface {
	// SendHeartbeat sends a heartbeat with a payload to a peer and returns the payload of its
	// answer: that of Service.AnswerHeartbeat there. It takes a few seconds at most.
	SendHeartbeat(ctx context.Context, p peer.ID, payload []byte) ([]byte, error)
	// LivePeers returns the peers that may be witnesses: those that are believed to be
	// running, with or without this peer. It is called every Interval and must not block.
	LivePeers() []peer.ID
	// Owns reports whether this peer has a subnet. It must answer from memory.
	Owns() bool
	// Origin returns what is known of a peer. It must answer from memory.
	Origin(p peer.ID) Origin
	// Revoked is called with votes against this peer before the acknowledgement that
	// brought them counts. When it returns nil, it must be on disk that this peer does
	// not fetch from these subnets any more. It may be called with the same votes again.
	// After an error the acknowledgement does not count, and the votes come again.
	// Calls for one witness do not overlap.
	Revoked(context.Context, []Revocation) error
	// RereadLeases is called when witnesses were given up after lease.LongSilence, or have lost
	// their disks. Their votes will not be known, so each lease has to be read again before it
	// is used under the quorum lease.
	RereadLeases()
}

// Config configures a Service.
type Config struct {
	// Host carries the protocol. Host, Key, which is this peer's private key, and
	// Protocol are required.
	Host     host.Host
	Key      crypto.PrivKey
	Protocol protocol.ID
	// Network identifies the network of the witness sets.
	Network string
	// Node and Store are required.
	Node  Node
	Store Store
	// Members is how many witnesses to have besides this peer, if there are enough
	// peers: 0, 2 or 4. With 0 no peer can take over, and the quorum lease does not end.
	Members int
	// Interval is the time between two heartbeats to a witness, while this peer has a subnet.
	Interval time.Duration
	// IdleInterval is the same while it has none: such a peer needs no quorum lease, but has one
	// at once if it claims a subnet.
	IdleInterval time.Duration
	// Hold is how long an acknowledged heartbeat counts, from when it was sent.
	Hold time.Duration
	// Promise is how long a witness does not vote against the sender of a heartbeat,
	// from when it came. It is longer than Hold by more than the rates of two clocks
	// differ. All peers of a network must have the same Hold and Promise.
	Promise time.Duration
	// Gone is the silence after which a witness is replaced.
	Gone time.Duration
	// Logger receives log records. Nil discards them.
	Logger *slog.Logger
}

// DefaultConfig returns a Config that lacks the required fields.
func DefaultConfig() Config {
	return Config{
		Members: lease.MaxWitnesses, Interval: 5 * time.Second, IdleInterval: 10 * time.Second,
		Hold: 15 * time.Second, Promise: 20 * time.Second, Gone: 30 * time.Second,
	}
}

// Validate returns all faults of c, joined.
func (c Config) Validate() error {
	f := faults.Of("witness")
	f.If(c.Host == nil || c.Key == nil || c.Protocol == "", "Host, Key or Protocol is missing")
	f.If(c.Host != nil && c.Key != nil && !c.Host.ID().MatchesPrivateKey(c.Key),
		"Key is not that of Host")
	f.If(c.Store == nil || c.Node == nil, "Store or Node is missing")
	f.If(c.Members < 0 || c.Members > lease.MaxWitnesses || c.Members%2 != 0,
		"Members is %d, want 0, 2 or %d", c.Members, lease.MaxWitnesses)
	f.If(c.Interval < 10*time.Millisecond || 2*c.Interval > c.Hold,
		"Interval is %v, want 10ms to half of Hold, %v", c.Interval, c.Hold)
	f.If(c.IdleInterval < c.Interval || c.IdleInterval >= c.Hold,
		"IdleInterval is %v, want Interval, %v, to less than Hold, %v", c.IdleInterval, c.Interval,
		c.Hold)
	f.If(c.Promise < c.Hold+c.Hold/20, "Promise is %v, want a twentieth more than Hold, %v",
		c.Promise, c.Hold)
	f.If(c.Gone < c.Promise, "Gone is %v, want at least Promise, %v", c.Gone, c.Promise)
	return f.Err()
}
