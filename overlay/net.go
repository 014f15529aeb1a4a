package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	ds "github.com/ipfs/go-datastore"
	dssync "github.com/ipfs/go-datastore/sync"
	dht "github.com/libp2p/go-libp2p-kad-dht"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/sync/errgroup"

	"peerd/internal/backoff"
	"peerd/overlay/admission"
	"peerd/overlay/wire"
)

// A Net is this peer's part of one network. Its methods are safe for concurrent use.
// Only the Net closes what its fields hold.
type Net struct {
	// Host connects to peers and answers their streams: only members, unless the network is
	// open.
	Host host.Host
	// Strangers is the same host without that restriction.
	Strangers host.Host
	// DHT finds peers. Values reads and writes records.
	DHT *dht.IpfsDHT
	// PubSub gossips. It neither signs messages nor names authors: publish only sealed
	// messages.
	PubSub *pubsub.PubSub
	// Names are the network's protocols and topics.
	Names Names

	cfg     Config
	log     *slog.Logger
	traffic *traffic
	gate    *gater
	members *admission.Gate // nil: the network is open
	nat     *nat            // nil: Config.NAT is not set
	values  *Values
	stop    context.CancelFunc // ends DHT and gossip

	attempts attempts // at bootstrap addresses
	refused  refusals
	outages  outages

	mu      sync.Mutex
	servers []*wire.Server
	closed  bool
}

// New builds a Net and opens its listening sockets; it does not connect to peers
// before Run. The libraries start goroutines of their own, which Close ends.
func New(cfg Config) (*Net, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	names, err := NewNames(cfg.Network)
	if err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Datastore == nil {
		cfg.Datastore = dssync.MutexWrap(ds.NewMapDatastore())
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &Net{Names: names, cfg: cfg, log: cfg.Logger, traffic: &traffic{},
		gate: newGater(cfg), stop: stop,
		outages: outages{over: backoff.NewWake()}}
	if err := n.build(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// build starts the parts bottom-up. Close skips those that were not started.
func (n *Net) build(ctx context.Context) (err error) {
	n.gate.relays = n.member
	if n.Strangers, err = newHost(n.cfg, n.traffic, n.gate); err != nil {
		return err
	}
	if n.cfg.NAT {
		n.Strangers = relayHost{n.Strangers}
	}
	n.Host = n.Strangers
	if !n.cfg.Admission.Open() {
		n.members = admission.NewGate(n.Host, n.cfg.Admission, n.cfg.Membership,
			n.Names.Membership())
		n.servers = append(n.servers, n.members.Serve(n.log))
		n.Host = n.members
	}
	if n.DHT, err = newDHT(ctx, n.Host, n.Names, n.bootstrap); err != nil {
		return err
	}
	libLog := slog.New(libraryHandler{n.log.Handler()})
	if n.PubSub, err = newGossip(ctx, n.Host, n.Names, libLog); err != nil {
		return err
	}
	n.values = newValues(n.Host, n.DHT, n.cfg, n.Names)
	n.Handle(n.Names.Record(), recordLimits, n.values.serve)
	return n.startNAT()
}

// Run keeps this peer connected and removes old records until ctx ends, then
// returns nil. Call it once.
func (n *Net) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	j := newJoiner(n)
	g.Go(func() error { return j.run(ctx) })
	g.Go(func() error { return n.values.local.run(ctx, n.log) })
	g.Go(func() error { return n.runPrune(ctx) })
	g.Go(func() error { return n.runRefuse(ctx) })
	if n.nat != nil {
		g.Go(func() error { return n.nat.run(ctx) })
	}
	if n.cfg.MDNS {
		g.Go(func() error { return n.runMDNS(ctx, j) })
	}
	return g.Wait()
}

// Close ends the handlers, the gossip, the DHT and the host, in this order, and
// waits for them. End Run first. Calling Close again has no effect.
func (n *Net) Close() error {
	n.mu.Lock()
	servers, closed := n.servers, n.closed
	n.servers, n.closed = nil, true
	n.mu.Unlock()
	if closed {
		return nil
	}
	for _, s := range servers {
		s.Close()
	}
	n.stop()
	if n.nat != nil {
		n.nat.close()
	}
	if n.members != nil {
		n.members.End()
	}
	var errs []error
	if n.DHT != nil {
		if err := n.DHT.Close(); err != nil {
			errs = append(errs, fmt.Errorf("overlay: close DHT: %w", err))
		}
	}
	if n.Host != nil {
		// Host.Close of go-libp2p 0.51 stops reading the events of identified peers before it
		// closes the connections. If more than 16 peers identify themselves in between it does not
		// return, as happened when forty peers were stopped at once.
		if err := n.Host.Network().Close(); err != nil {
			errs = append(errs, fmt.Errorf("overlay: close connections: %w", err))
		}
		if err := n.Host.Close(); err != nil {
			errs = append(errs, fmt.Errorf("overlay: close host: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Handle serves a protocol with fn until Close: within limits, with a deadline for each
// message, and safe from panics in fn. See wire.Serve.
func (n *Net) Handle(proto protocol.ID, l wire.Limits, fn wire.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.servers = append(n.servers, wire.Serve(n.Host, proto, l, n.log, fn))
}

// Values returns the records of this network's DHT.
func (n *Net) Values() *Values { return n.values }

// Self returns this peer's identifier.
func (n *Net) Self() peer.ID { return n.Host.ID() }

// ControlBytes returns the bytes sent and received on all streams since New, without
// framing and encryption beneath the streams.
func (n *Net) ControlBytes() (sent, received int64) {
	return n.traffic.sent.Load(), n.traffic.received.Load()
}

// Traffic returns ControlBytes by protocol. Bytes sent before two sides have agreed on a
// protocol count under "".
func (n *Net) Traffic() map[protocol.ID]Bytes { return n.traffic.byProtocol() }
