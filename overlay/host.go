package overlay

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/x/rate"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	// connGrace is how long a new connection is safe from the connection
	// manager: long enough to have shown what it is good for.
	connGrace = 20 * time.Second
	// streamsPerPeer is how many streams one peer may hold here at once. The
	// library's 75 a protocol silently break a busy pair: a sender may have
	// hundreds of batches under way.
	streamsPerPeer = 1024
	// memoryPerPeer is what the streams of one peer may reserve. yamux asks for
	// 256 KiB a stream. Bytes.
	memoryPerPeer = 512 << 20
	// connsPerAddress is how many connections one IP address may hold, and how
	// many it may open in a burst. The library's 8 are right for strangers; our
	// peers share addresses behind a NAT or a container bridge.
	connsPerAddress = 512
	// dialsPerAddress is how many connections a second one IP address may open
	// on after a burst.
	dialsPerAddress = 16
)

// newHost opens the sockets and starts the host.
func newHost(cfg Config, count *traffic) (host.Host, error) {
	limits, err := newResourceManager(cfg)
	if err != nil {
		return nil, err
	}
	conns, err := connmgr.NewConnManager(cfg.ConnsLow, cfg.ConnsHigh, connmgr.WithGracePeriod(connGrace))
	if err != nil {
		_ = limits.Close()
		return nil, fmt.Errorf("overlay: connection manager: %w", err)
	}
	opts := []libp2p.Option{
		libp2p.Identity(cfg.Key),
		libp2p.UserAgent(cfg.UserAgent),
		libp2p.ResourceManager(limits),
		libp2p.ConnectionManager(conns),
		libp2p.BandwidthReporter(count),
		libp2p.WithDialTimeout(cfg.DialTimeout),
		libp2p.DisableMetrics(), // a process may hold many hosts
		libp2p.NoListenAddrs,    // listen opens them
		libp2p.DisableRelay(),   // a relayed peer can be neither replica nor owner
	}
	h, err := libp2p.New(append(opts, transports(cfg)...)...)
	if err != nil {
		_ = conns.Close()
		_ = limits.Close()
		return nil, fmt.Errorf("overlay: start host: %w", err)
	}
	if err := listen(h, cfg.Listen); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// listen opens every address, or fails: libp2p's own option is content when
// one of them could be opened, and a peer with half its addresses looks well
// and is not. Only "all of IPv6" is passed over on a machine that has none.
func listen(h host.Host, addrs []string) error {
	for _, text := range addrs {
		if strings.HasPrefix(text, "/ip6/::/") && !hasIPv6() {
			continue
		}
		addr, err := ma.NewMultiaddr(text)
		if err != nil {
			return fmt.Errorf("overlay: listen on %q: %w", text, err)
		}
		if err := h.Network().Listen(addr); err != nil {
			return fmt.Errorf("overlay: listen on %s: %w", text, err)
		}
	}
	return nil
}

// hasIPv6 says whether this machine lets anybody listen on IPv6.
func hasIPv6() bool {
	ln, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}

// transports are TCP and QUIC, or TCP alone over a given dialer, encrypted, or
// whatever carrier is given. Connections are not dialed from the listening port:
// it saves nothing where nobody punches holes, and a port that is in use twice
// makes a dead peer look alive.
func transports(cfg Config) []libp2p.Option {
	if cfg.Carrier != nil {
		return cfg.Carrier
	}
	tcpOpts := []any{tcp.DisableReuseport(), tcp.WithConnectionTimeout(cfg.DialTimeout)}
	if cfg.TCPDialer != nil {
		tcpOpts = append(tcpOpts, tcp.WithDialerForAddr(cfg.TCPDialer))
	}
	opts := []libp2p.Option{
		// Noise first: its handshake costs a fraction of TLS's, which shows
		// when a network starts and everybody connects to everybody.
		libp2p.Security(noise.ID, noise.New),
		libp2p.Security(tls.ID, tls.New),
		libp2p.Transport(tcp.NewTCPTransport, tcpOpts...),
	}
	if cfg.TCPDialer == nil {
		opts = append(opts, libp2p.Transport(quic.NewTransport))
	}
	return opts
}

// newResourceManager keeps the library's bounds on memory and file descriptors
// and widens those that are meant for strangers on the open Internet.
func newResourceManager(cfg Config) (network.ResourceManager, error) {
	defaults := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&defaults)

	conns := rcmgr.LimitVal(4 * cfg.ConnsHigh)
	streams := rcmgr.ResourceLimits{
		Streams:         2 * streamsPerPeer,
		StreamsInbound:  streamsPerPeer,
		StreamsOutbound: streamsPerPeer,
		Memory:          memoryPerPeer,
	}
	perPeer := streams
	perPeer.Conns, perPeer.ConnsInbound, perPeer.ConnsOutbound = 16, 8, 16
	wide := rcmgr.ResourceLimits{
		Streams:         rcmgr.Unlimited,
		StreamsInbound:  rcmgr.Unlimited,
		StreamsOutbound: rcmgr.Unlimited,
	}
	limits := rcmgr.PartialLimitConfig{
		System: rcmgr.ResourceLimits{
			Conns: 2 * conns, ConnsInbound: conns, ConnsOutbound: conns,
			Streams: rcmgr.Unlimited, StreamsInbound: rcmgr.Unlimited, StreamsOutbound: rcmgr.Unlimited,
		},
		Transient: rcmgr.ResourceLimits{
			Conns: conns, ConnsInbound: conns, ConnsOutbound: conns,
			Streams: rcmgr.LimitVal(streamsPerPeer), StreamsInbound: rcmgr.LimitVal(streamsPerPeer), StreamsOutbound: rcmgr.LimitVal(streamsPerPeer),
		},
		PeerDefault:         perPeer,
		ProtocolDefault:     wide,
		ProtocolPeerDefault: streams,
	}.Build(defaults.AutoScale())

	rm, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits),
		rcmgr.WithMetricsDisabled(),
		rcmgr.WithLimitPerSubnet(
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: connsPerAddress}},
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: connsPerAddress}}),
		rcmgr.WithConnRateLimiters(newDialLimiter()))
	if err != nil {
		return nil, fmt.Errorf("overlay: resource manager: %w", err)
	}
	return rm, nil
}

// newDialLimiter bounds how fast one address may open connections; loopback is
// not bounded.
func newDialLimiter() *rate.Limiter {
	perAddress := rate.Limit{RPS: dialsPerAddress, Burst: connsPerAddress}
	l := &rate.Limiter{SubnetRateLimiter: rate.SubnetLimiter{
		IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: perAddress}},
		IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 56, Limit: perAddress}},
		GracePeriod:      time.Minute,
	}}
	for _, np := range append(rcmgr.DefaultNetworkPrefixLimitV4, rcmgr.DefaultNetworkPrefixLimitV6...) {
		l.NetworkPrefixLimits = append(l.NetworkPrefixLimits, rate.PrefixLimit{Prefix: np.Network})
	}
	return l
}
