package overlay

import (
	"log/slog"
	"strings"
	"time"

	ds "github.com/ipfs/go-datastore"
	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/config"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"peerd/internal/faults"
	"peerd/overlay/admission"
)

const (
	// numHolders is how many peers hold a record (k of Kademlia, section 2.3). A network of a
	// dozen peers holds every record everywhere.
	numHolders = 12
	// recordAge is how long a peer holds a record that is not renewed. It only limits
	// storage: whether a record is still valid is for its validator to say.
	recordAge = 30 * 24 * time.Hour
	// dialTimeout bounds a connection attempt, handshakes included. A dead peer
	// delays a DHT lookup by about this much, so it is no longer than the slowest
	// working path needs.
	dialTimeout = 3 * time.Second
	// answerTimeout bounds the answer of one record holder in Values.
	answerTimeout = 3 * time.Second
	// lookupTimeout bounds a whole lookup in Values. It exceeds dialTimeout, or one dead peer on
	// the way would make the lookup fail.
	lookupTimeout = 6 * time.Second
	// connsLow and connsHigh are the connection manager's water marks: above
	// connsHigh connections the least useful are closed down to connsLow.
	connsLow, connsHigh = 160, 224
)

// Config says what a Net is built from. Start from DefaultConfig.
type Config struct {
	// Key is this peer's identity. Required.
	Key crypto.PrivKey
	// Network is the network's identifier; see NewNames. Required.
	Network string
	// Listen are the multiaddrs to listen on. Port 0 stands for any free port. With none
	// the peer only dials.
	Listen []string
	// Announce are the multiaddrs that other peers are told instead of those of Listen: of a
	// router that forwards a port, or a DNS name. Empty: those of Listen.
	Announce []string
	// Bootstrap are the peers through which this peer joins the network.
	Bootstrap []peer.AddrInfo
	// Known are peers met in earlier runs, tried while no bootstrap peer answers.
	Known []peer.AddrInfo
	// Admission says which peers belong to the network. The zero value is an open network.
	Admission admission.Rules
	// Membership is that of this peer; not used in an open network and for founders.
	Membership admission.Membership
	// NAT lets this peer find out whether others can connect to it, ask a router to forward its
	// ports, and be reached through other members otherwise. Without it, this peer does not
	// reach those either that can be reached so only.
	NAT bool
	// Relay lets other members that cannot be reached be reached through this one, if NAT has
	// found that it can be reached itself.
	Relay bool
	// Metrics gets libp2p's own metrics, which belong to the process: only one Net of a process
	// may have it. Nil: there are none.
	Metrics prometheus.Registerer
	// MDNS makes peers on one local network find each other without configuration.
	MDNS bool
	// Datastore holds the DHT's records. Nil keeps them in memory. The Net does
	// not close it; it must stay open until Close has returned.
	Datastore ds.Batching
	// TCPDialer replaces the dialing of TCP connections, by the address to dial;
	// TCP is then the only transport. Nil dials normally, over TCP and QUIC.
	TCPDialer func(raddr ma.Multiaddr) (tcp.ContextDialer, error)
	// TransportOptions replace TCP, QUIC and their encryption by other options of libp2p;
	// simulations use them. The rest of the host is the same. Nil is the real network.
	TransportOptions []config.Option
	// Limiter limits the traffic of the connections; nil: it is not limited.
	Limiter Limiter
	// NoQUIC uses TCP only, until Net.UseQUIC: a Limiter does not see packets of QUIC.
	NoQUIC bool
	// UserAgent is sent to other peers on connecting.
	UserAgent string
	// Validators check the records of DHT namespaces; a record of a namespace
	// without one is refused.
	Validators map[string]record.Validator
	// Logger receives log records. Nil discards them.
	Logger *slog.Logger
}

// DefaultConfig returns a Config that lacks only Key and Network.
func DefaultConfig() Config {
	return Config{
		Listen:    []string{"/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1"},
		UserAgent: "peerd",
	}
}

// Validate returns all faults of c, joined.
func (c Config) Validate() error {
	f := faults.Of("overlay")
	f.If(c.Key == nil, "Key is missing")
	_, err := NewNames(c.Network)
	f.Add(err)
	for _, addr := range c.Listen {
		_, err := ma.NewMultiaddr(addr)
		f.If(err != nil, "Listen address %q: %v", addr, err)
	}
	for _, addr := range c.Announce {
		_, err := ma.NewMultiaddr(addr)
		f.If(err != nil, "Announce address %q: %v", addr, err)
	}
	for _, info := range c.Bootstrap {
		f.If(info.ID.Validate() != nil, "Bootstrap has a peer without an ID")
		f.If(len(info.Addrs) == 0, "Bootstrap peer %s has no address", info.ID)
	}
	if c.Key != nil {
		self, err := peer.IDFromPrivateKey(c.Key)
		if err == nil {
			err = c.Admission.Check(self, c.Membership)
		}
		f.If(err != nil, "this peer: %w", err)
	}
	for ns, v := range c.Validators {
		f.If(ns == "" || strings.Contains(ns, "/"),
			"Validators has the namespace %q, want a name without '/'", ns)
		f.If(v == nil, "Validators has nothing for %q", ns)
	}
	return f.Err()
}
