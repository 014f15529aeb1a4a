package overlay

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p"
	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// Config says what a Net is built from. Start from DefaultConfig.
type Config struct {
	// Key is this peer's identity. Required.
	Key crypto.PrivKey
	// Network is the network's identifier; see NewNames. Required.
	Network string
	// Listen are the multiaddrs to listen on. Port 0 takes a free one. None
	// makes a peer that only dials.
	Listen []string
	// Bootstrap are the peers to join by.
	Bootstrap []peer.AddrInfo
	// Known are peers met in earlier runs, tried while no bootstrap peer answers.
	Known []peer.AddrInfo
	// MDNS makes peers on one local network find each other without being told.
	MDNS bool
	// Datastore holds the DHT's records. Nil keeps them in memory. The Net does
	// not close it; it must stay open until Close has returned.
	Datastore ds.Batching
	// TCPDialer replaces the dialing of TCP connections, by the address to dial;
	// TCP is then the only transport. Nil dials normally, over TCP and QUIC.
	TCPDialer func(raddr ma.Multiaddr) (tcp.ContextDialer, error)
	// Carrier replaces TCP, QUIC and their encryption by other options of libp2p:
	// how simulated peers get their network. The host is the same in all else.
	// Nil is the real network.
	Carrier []libp2p.Option
	// UserAgent is told to other peers on connecting.
	UserAgent string
	// Validators check the records of DHT namespaces; a record of a namespace
	// without one is refused.
	Validators map[string]record.Validator
	// Logger gets what Run and the handlers have to say. Nil discards.
	Logger *slog.Logger

	// Replicas is how many peers hold a record (k of Kademlia, section 2.3).
	// All peers of a network must agree roughly. 1 to 64.
	Replicas int
	// RecordAge is how long a replica keeps a record that nobody renews. It is
	// housekeeping only: what a record is still worth, its validator says.
	RecordAge time.Duration
	// DialTimeout bounds a connection attempt, handshakes included. Dead peers
	// cost every DHT lookup about this much, so it is no larger than the
	// slowest honest path needs.
	DialTimeout time.Duration
	// AnswerTimeout bounds the answer of one replica in Values.
	AnswerTimeout time.Duration
	// LookupTimeout bounds a whole lookup in Values. It should exceed
	// DialTimeout, or one dead peer on the way fails it.
	LookupTimeout time.Duration
	// ConnsLow and ConnsHigh are the connection manager's water marks: above
	// ConnsHigh connections the least useful are closed down to ConnsLow.
	ConnsLow, ConnsHigh int
}

// DefaultConfig returns a Config that lacks only Key and Network.
func DefaultConfig() Config {
	return Config{
		Listen:        []string{"/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1"},
		UserAgent:     "peerd",
		Replicas:      12, // a network of a dozen peers holds every record everywhere
		RecordAge:     30 * 24 * time.Hour,
		DialTimeout:   3 * time.Second,
		AnswerTimeout: 3 * time.Second,
		LookupTimeout: 6 * time.Second,
		ConnsLow:      160,
		ConnsHigh:     224,
	}
}

// Validate reports everything that is wrong, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("overlay: "+format, args...))
		}
	}
	bad(c.Key == nil, "Key is missing")
	if _, err := NewNames(c.Network); err != nil {
		errs = append(errs, err)
	}
	for _, addr := range c.Listen {
		_, err := ma.NewMultiaddr(addr)
		bad(err != nil, "Listen address %q: %v", addr, err)
	}
	for _, info := range c.Bootstrap {
		bad(info.ID.Validate() != nil, "Bootstrap has a peer without an ID")
		bad(len(info.Addrs) == 0, "Bootstrap peer %s has no address", info.ID)
	}
	for ns, v := range c.Validators {
		bad(ns == "" || strings.Contains(ns, "/"), "Validators has the namespace %q, want a name without '/'", ns)
		bad(v == nil, "Validators has nothing for %q", ns)
	}
	bad(c.Replicas < 1 || c.Replicas > 64, "Replicas is %d, want 1 to 64", c.Replicas)
	bad(c.RecordAge <= 0, "RecordAge is %v, want more than 0", c.RecordAge)
	bad(c.DialTimeout <= 0, "DialTimeout is %v, want more than 0", c.DialTimeout)
	bad(c.AnswerTimeout <= 0, "AnswerTimeout is %v, want more than 0", c.AnswerTimeout)
	bad(c.LookupTimeout <= 0, "LookupTimeout is %v, want more than 0", c.LookupTimeout)
	bad(c.ConnsLow < 1 || c.ConnsHigh < c.ConnsLow, "ConnsLow and ConnsHigh are %d and %d, want 1 <= low <= high", c.ConnsLow, c.ConnsHigh)
	return errors.Join(errs...)
}
