package overlay

import (
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

	"peerd/overlay/wire"
)

// A Net is this peer's part in one network. Its methods may be called
// concurrently. Only the Net closes what it holds.
type Net struct {
	// Host connects to peers and answers their streams.
	Host host.Host
	// DHT finds peers and holds records. Use Values to read and write them.
	DHT *dht.IpfsDHT
	// PubSub gossips. It neither signs nor names authors: publish only what is
	// sealed.
	PubSub *pubsub.PubSub
	// Names are the network's protocols and topics.
	Names Names

	cfg    Config
	log    *slog.Logger
	count  *traffic
	values *Values
	stop   context.CancelFunc // ends DHT and gossip

	mu      sync.Mutex
	servers []*wire.Server
	closed  bool
}

// New builds a Net and opens its listening sockets; it connects to nobody
// until Run. The libraries start goroutines of their own, which Close ends.
func New(cfg Config) (*Net, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	names, err := NewNames(cfg.Network)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Datastore == nil {
		cfg.Datastore = dssync.MutexWrap(ds.NewMapDatastore())
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &Net{Names: names, cfg: cfg, log: cfg.Logger, count: &traffic{}, stop: stop}
	if err := n.build(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// build starts the parts bottom-up. What it leaves unset, Close skips.
func (n *Net) build(ctx context.Context) (err error) {
	if n.Host, err = newHost(n.cfg, n.count); err != nil {
		return err
	}
	if n.DHT, err = newDHT(ctx, n.Host, n.cfg, n.Names, n.cfg.Datastore, n.bootstrap); err != nil {
		return err
	}
	if n.PubSub, err = newGossip(ctx, n.Host, n.Names, n.log); err != nil {
		return err
	}
	n.values = newValues(n.Host, n.DHT, n.Names, n.cfg)
	return nil
}

// Run keeps this peer connected and its records swept until ctx ends, then
// returns nil. Call it once.
func (n *Net) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return newJoiner(n).run(ctx) })
	g.Go(func() error { return n.values.local.run(ctx, n.log) })
	g.Go(func() error { return n.runPrune(ctx) })
	if n.cfg.MDNS {
		g.Go(func() error { return n.runMDNS(ctx) })
	}
	return g.Wait()
}

// Close ends the handlers, the gossip, the DHT and the host, in this order, and
// waits for them. Cancel Run first. Closing again does nothing.
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
	var errs []error
	if n.DHT != nil {
		if err := n.DHT.Close(); err != nil {
			errs = append(errs, fmt.Errorf("overlay: close DHT: %w", err))
		}
	}
	if n.Host != nil {
		if err := n.Host.Close(); err != nil {
			errs = append(errs, fmt.Errorf("overlay: close host: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Handle lets fn answer a protocol until Close: within limits, with a deadline
// a message, and safe from panics in fn. See wire.Serve.
func (n *Net) Handle(proto protocol.ID, l wire.Limits, fn wire.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.servers = append(n.servers, wire.Serve(n.Host, proto, l, n.log, fn))
}

// Dial opens a conversation with p over a protocol; see wire.Dial.
func (n *Net) Dial(ctx context.Context, p peer.ID, proto protocol.ID, l wire.Limits) (*wire.Conn, error) {
	return wire.Dial(ctx, n.Host, p, l, proto)
}

// Values reads and writes the records of this network's DHT.
func (n *Net) Values() *Values { return n.values }

// Self is this peer's identifier.
func (n *Net) Self() peer.ID { return n.Host.ID() }

// ControlBytes is what the overlay cost since New: the bytes sent and received
// on all streams, without the framing and encryption beneath them.
func (n *Net) ControlBytes() (sent, received int64) {
	return n.count.sent.Load(), n.count.received.Load()
}

// Traffic is ControlBytes by protocol. What two sides send before they have
// agreed on one counts under "".
func (n *Net) Traffic() map[protocol.ID]Bytes { return n.count.byProtocol() }
