package overlay

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/config"
	coreconnmgr "github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/pnet"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/p2p/transport/tcpreuse"
	"github.com/libp2p/go-libp2p/x/rate"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"go.uber.org/fx"
)

const (
	// connGrace is how long the connection manager does not close a new connection.
	connGrace = 20 * time.Second
	// streamsPerPeer is how many streams one peer may have open here. The library's 75
	// per protocol break a busy pair without notice: a sender may have hundreds of
	// batches in flight.
	streamsPerPeer = 1024
	// memoryPerPeer is how much memory the streams of one peer may reserve; yamux
	// reserves 256 KiB per stream. Bytes.
	memoryPerPeer = 512 << 20
	// connsPerAddress is how many connections one IP address may hold, and how
	// many it may open in a burst. The library's 8 suit unknown hosts; our
	// peers share addresses behind a NAT or a container bridge.
	connsPerAddress = 512
	// dialsPerAddress is how many connections per second one IP address may open
	// after a burst.
	dialsPerAddress = 16
)

// newHost opens the sockets and starts the host.
func newHost(cfg Config, count *traffic, gate *gater) (h host.Host, err error) {
	limits, err := newResourceManager(cfg)
	if err != nil {
		return nil, err
	}
	conns, err := connmgr.NewConnManager(connsLow, connsHigh,
		connmgr.WithGracePeriod(connGrace))
	if err != nil {
		_ = limits.Close()
		return nil, fmt.Errorf("overlay: connection manager: %w", err)
	}
	c, err := hostConfig(cfg)
	if err == nil {
		c.ResourceManager, c.ConnManager, c.ConnectionGater, c.Reporter = limits, conns, gate, count
		h, err = c.NewNode()
	}
	if err != nil {
		_ = conns.Close()
		_ = limits.Close()
		return nil, fmt.Errorf("overlay: start host: %w", err)
	}
	addrs := cfg.Listen
	if cfg.NoQUIC {
		addrs = withoutQUIC(addrs)
	}
	if err := listen(h, addrs); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// hostConfig returns the configuration of a host that listens nowhere yet. It sets libp2p's fields
// itself: the package of the options that do so links every transport, WebRTC for example.
func hostConfig(cfg Config) (*config.Config, error) {
	known, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, err
	}
	c := &config.Config{
		PeerKey:     cfg.Key,
		UserAgent:   cfg.UserAgent,
		Peerstore:   known,
		Muxers:      []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: newMuxer()}},
		DialTimeout: dialTimeout,

		DisableMetrics:       cfg.Metrics == nil,
		PrometheusRegisterer: cfg.Metrics,
		// What the options of libp2p set: a kind of address of which almost no dial succeeds is
		// not dialed for a while.
		UDPBlackHoleSuccessCounter:  fewDials("UDP"),
		IPv6BlackHoleSuccessCounter: fewDials("IPv6"),
	}
	if announced := announce(cfg.Announce); len(announced) > 0 {
		c.AddrsFactory = func([]ma.Multiaddr) []ma.Multiaddr { return announced }
	}
	configureNAT(c, cfg)
	if cfg.TransportOptions != nil {
		return c, c.Apply(cfg.TransportOptions...)
	}
	addTransports(c, cfg)
	return c, nil
}

// muxer multiplexes TCP connections as yamux of libp2p does, but sends less over idle ones.
type muxer struct{ dialed, accepted *yamux.Transport }

// newMuxer returns a muxer that measures the round trip, which decides how fast a window grows, at
// the beginning only. The end that dialed pings, so that no router forgets an idle connection, and
// the other end only if no ping comes. That a peer has failed is noticed earlier, by heartbeats.
func newMuxer() muxer {
	dialed := *yamux.DefaultTransport
	dialed.MeasureRTTInterval = 24 * time.Hour
	accepted := dialed
	dialed.KeepAliveInterval, accepted.KeepAliveInterval = 45*time.Second, 55*time.Second
	return muxer{&dialed, &accepted}
}

// NewConn implements network.Multiplexer.
func (m muxer) NewConn(
	c net.Conn, isServer bool, scope network.PeerScope,
) (network.MuxedConn, error) {
	if isServer {
		return m.accepted.NewConn(c, isServer, scope)
	}
	return m.dialed.NewConn(c, isServer, scope)
}

// announce parses the addresses of Config.Announce, which are valid.
func announce(texts []string) (all []ma.Multiaddr) {
	for _, text := range texts {
		if a, err := ma.NewMultiaddr(text); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// listen opens all addresses or returns an error. libp2p's own option succeeds if one of
// them could be opened; but then a peer that lacks some of its addresses looks healthy.
// Only "all of IPv6" is skipped on a machine without IPv6.
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

// hasIPv6 reports whether this machine can listen on IPv6.
func hasIPv6() bool {
	ln, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}

// fewDials decides that addresses of a kind cannot be dialed: 5 of 100 dials have succeeded.
func fewDials(kind string) *swarm.BlackHoleSuccessCounter {
	return &swarm.BlackHoleSuccessCounter{N: 100, MinSuccesses: 5, Name: kind}
}

// addTransports adds TCP and QUIC, or only TCP over Config.TCPDialer, with encryption. TCP
// connections are not dialed from the listening port, which makes a dead peer look alive when
// its port is in use twice: holes are punched for QUIC only.
func addTransports(c *config.Config, cfg Config) {
	// Noise first: its handshake costs a fraction of that of TLS, which matters when
	// a network starts and all peers connect to each other.
	c.SecurityTransports = []config.Security{
		{ID: noise.ID, Constructor: noise.New}, {ID: tls.ID, Constructor: tls.New}}
	opts := []tcp.Option{tcp.DisableReuseport(), tcp.WithConnectionTimeout(dialTimeout)}
	if cfg.TCPDialer != nil {
		opts = append(opts, tcp.WithDialerForAddr(cfg.TCPDialer))
	}
	addTransport(c, func(u transport.Upgrader, limits network.ResourceManager,
		shared *tcpreuse.ConnMgr) (*tcp.TcpTransport, error) {
		return tcp.NewTCPTransport(tcpUpgrader{u, cfg.Limiter}, limits, shared, opts...)
	})
	if cfg.TCPDialer == nil {
		addTransport(c, func(key crypto.PrivKey, conns *quicreuse.ConnManager, psk pnet.PSK,
			gate coreconnmgr.ConnectionGater, limits network.ResourceManager,
		) (transport.Transport, error) {
			return quic.NewTransport(key, conns, psk, gate, limits)
		})
	}
}

// addTransport adds the transport that a function makes of what a host has.
func addTransport(c *config.Config, newTransport any) {
	c.Transports = append(c.Transports, fx.Provide(fx.Annotate(newTransport,
		fx.As(new(transport.Transport)), fx.ResultTags(`group:"transport"`))))
}

// newResourceManager keeps the library's bounds on memory and file descriptors and
// raises those that are meant for unknown hosts.
func newResourceManager(cfg Config) (network.ResourceManager, error) {
	defaults := rcmgr.DefaultLimits
	limitServices(&defaults)

	conns := rcmgr.LimitVal(4 * connsHigh)
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
			Streams: rcmgr.Unlimited, StreamsInbound: rcmgr.Unlimited,
			StreamsOutbound: rcmgr.Unlimited,
		},
		Transient: rcmgr.ResourceLimits{
			Conns: conns, ConnsInbound: conns, ConnsOutbound: conns,
			Streams: rcmgr.LimitVal(streamsPerPeer), StreamsInbound: rcmgr.LimitVal(streamsPerPeer),
			StreamsOutbound: rcmgr.LimitVal(streamsPerPeer),
		},
		PeerDefault:         perPeer,
		ProtocolDefault:     wide,
		ProtocolPeerDefault: streams,
	}.Build(defaults.AutoScale())

	opts := []rcmgr.Option{
		rcmgr.WithLimitPerSubnet(
			connLimits(cfg, 32, 24, 16), connLimits(cfg, 64, 48, 32)),
		rcmgr.WithNetworkPrefixLimit(connLimitsLocal(conns)),
		rcmgr.WithConnRateLimiters(newDialLimiter()),
	}
	if cfg.Metrics == nil {
		opts = append(opts, rcmgr.WithMetricsDisabled())
	}
	rm, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits), opts...)
	if err != nil {
		return nil, fmt.Errorf("overlay: resource manager: %w", err)
	}
	return rm, nil
}

// limitServices bounds the protocols of libp2p itself, by the values of its package libp2p.
func limitServices(c *rcmgr.ScalingLimitConfig) {
	for _, s := range []struct {
		service   string
		protocols []protocol.ID
		all, peer int // streams
	}{
		{identify.ServiceName, []protocol.ID{identify.ID, identify.IDPush}, 128, 32},
		{ping.ServiceName, []protocol.ID{ping.ID}, 64, 4},
		{holepunch.ServiceName, []protocol.ID{holepunch.Protocol}, 64, 2},
		{relay.ServiceName, nil, 256, 64},
		{"", []protocol.ID{circuit.ProtoIDv2Hop, circuit.ProtoIDv2Stop}, 640, 128},
	} {
		all, peer := serviceLimit(s.all, 16<<20), serviceLimit(s.peer, 8<<20)
		if s.service != "" {
			c.AddServiceLimit(s.service, all, rcmgr.BaseLimitIncrease{})
			c.AddServicePeerLimit(s.service, peer, rcmgr.BaseLimitIncrease{})
		}
		for _, id := range s.protocols {
			c.AddProtocolLimit(id, all, rcmgr.BaseLimitIncrease{})
			c.AddProtocolPeerLimit(id, peer, rcmgr.BaseLimitIncrease{})
		}
	}
}

// serviceLimit permits so many streams, in either direction, and bytes.
func serviceLimit(streams int, memory int64) rcmgr.BaseLimit {
	return rcmgr.BaseLimit{Streams: streams, StreamsInbound: streams, StreamsOutbound: streams,
		Memory: memory}
}

// connLimits returns how many connections one address, one /24 or /48, and one /16 or /32 may
// hold of the 4*connsHigh that there may be: a quarter and a half for networks.
func connLimits(cfg Config, address, near, wide int) []rcmgr.ConnLimitPerSubnet {
	return []rcmgr.ConnLimitPerSubnet{
		{PrefixLength: address, ConnCount: min(connsPerAddress, connsHigh)},
		{PrefixLength: near, ConnCount: connsHigh},
		{PrefixLength: wide, ConnCount: 2 * connsHigh},
	}
}

// connLimitsLocal returns limits for the addresses of local networks, of which all peers of a
// testnet or a site may have the same prefix.
func connLimitsLocal(conns rcmgr.LimitVal) (v4, v6 []rcmgr.NetworkPrefixLimit) {
	for _, n := range manet.Private4 {
		p, _ := toPrefix(n) // constants of the library
		v4 = append(v4, rcmgr.NetworkPrefixLimit{Network: p, ConnCount: int(conns)})
	}
	for _, n := range manet.Private6 {
		p, _ := toPrefix(n)
		v6 = append(v6, rcmgr.NetworkPrefixLimit{Network: p, ConnCount: int(conns)})
	}
	return v4, v6
}

// newDialLimiter bounds how fast one address may open connections. Loopback is
// not bounded.
func newDialLimiter() *rate.Limiter {
	perAddress := rate.Limit{RPS: dialsPerAddress, Burst: connsPerAddress}
	l := &rate.Limiter{SubnetRateLimiter: rate.SubnetLimiter{
		IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: perAddress}},
		IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 56, Limit: perAddress}},
		GracePeriod:      time.Minute,
	}}
	for _, np := range append(rcmgr.DefaultNetworkPrefixLimitV4,
		rcmgr.DefaultNetworkPrefixLimitV6...) {
		l.NetworkPrefixLimits = append(l.NetworkPrefixLimits, rate.PrefixLimit{Prefix: np.Network})
	}
	return l
}
