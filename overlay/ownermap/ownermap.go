package ownermap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/internal/backoff"
	"peerd/internal/faults"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// A Node is the peer that a Map belongs to. Its methods must not block.
type Node interface {
	// OwnSubnets returns the decided subnets of this peer. It is called every Step.
	OwnSubnets() []OwnSubnet
	// OtherPeers returns the number of other peers.
	OtherPeers() int
	// ObserveLease is called with each valid lease of another peer in a message with news. A lease
	// of an own subnet is always news. It is called concurrently.
	ObserveLease(lease.Lease)
}

// Config configures a Map. Start from DefaultConfig.
type Config struct {
	// Self is this peer, and Network its network. PubSub is its gossip and Topic the topic of the
	// announcements. Required.
	Self    peer.ID
	Network string
	PubSub  *pubsub.PubSub
	Topic   string
	// Node is required.
	Node Node
	// Store saves the leases for the next start. It may be nil.
	Store Store
	// Logger receives the log of Run. It may be nil.
	Logger *slog.Logger

	// Max is the maximum number of subnets of other peers. Each takes about 400 bytes of
	// memory.
	Max int
	// Step is how often Node.OwnSubnets is called.
	Step time.Duration
	// Gap is the minimum time between two messages. Size is the maximum size of a message in
	// bytes.
	Gap  time.Duration
	Size int
	// Settle is for how long other peers must have been in the topic before a message is
	// published, because gossip sends to a peer only after it has joined the mesh.
	Settle time.Duration
	// RepeatAfter is the minimum time between two announcements of an unchanged subnet.
	// RepeatRate is the total rate of the repetitions of all peers in bytes per second; the
	// interval of each peer follows from it.
	RepeatAfter time.Duration
	RepeatRate  int
}

// DefaultConfig returns a Config in which only the required fields are missing.
func DefaultConfig() Config {
	return Config{
		Max: 100_000, Step: time.Second, Gap: 10 * time.Second, Size: 8 << 10,
		Settle: 5 * time.Second, RepeatAfter: time.Hour, RepeatRate: 32,
	}
}

// Validate returns all errors of c, joined.
func (c Config) Validate() error {
	f := faults.Of("ownermap")
	f.If(c.Self == "", "Self is missing")
	f.If(c.Network == "", "Network is missing")
	f.If(c.PubSub == nil, "PubSub is missing")
	f.If(c.Topic == "", "Topic is missing")
	f.If(c.Node == nil, "Node is missing")
	f.If(c.Max < 1, "Max is %d, want at least 1", c.Max)
	for name, d := range map[string]time.Duration{
		"Step": c.Step, "Gap": c.Gap, "RepeatAfter": c.RepeatAfter,
	} {
		f.If(d <= 0, "%s is %v, want more than 0", name, d)
	}
	f.If(c.Settle < 0, "Settle is %v, want 0 or more", c.Settle)
	f.If(c.Size < 4<<10+2*overhead || c.Size > maxMessage,
		"Size is %d, want room for a lease and at most %d", c.Size, maxMessage)
	f.If(c.RepeatRate < 1, "RepeatRate is %d, want at least 1", c.RepeatRate)
	return f.Err()
}

// A Map holds the owners of decided subnets as far as this peer knows them. Its methods may be
// called concurrently.
type Map struct {
	cfg   Config
	log   *slog.Logger
	table *table
	quota *quota // by owner
	// forwarded counts messages by who has forwarded them, and verified the KiB of those of which
	// the signatures were checked.
	forwarded, verified wire.Limiter

	sent, received, bytes atomic.Int64

	// Used by the goroutine of Run only.
	topic                *pubsub.Topic
	own                  ownTable
	nextSend, nextRepeat time.Time // earliest times of the next message and repetition
	lastAlone            time.Time // when no other peer was in the topic
	lastSweep, lastSave  time.Time
}

// New returns a Map with the leases from Config.Store. It returns an error if cfg is invalid or
// the Store cannot be read.
func New(cfg Config) (*Map, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Map{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		table: newTable(cfg.Max), quota: newQuota(cfg.Gap),
		own: ownTable{all: map[netip.Prefix]*ownState{}},
	}
	if cfg.Store != nil {
		if err := m.load(time.Now()); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Known returns an immutable snapshot.
func (m *Map) Known() assign.Delegations { return view{m.table.current.Load()} }

// Stats are counters of a Map since the process started.
type Stats struct {
	Subnets   int   // current number, including own subnets
	Sent      int64 // announcements of own subnets
	SentBytes int64 // size of the published messages, each counted once
	Received  int64 // announcements that were new
}

// Stats returns the current values.
func (m *Map) Stats() Stats {
	return Stats{
		Subnets: m.table.size(), Sent: m.sent.Load(),
		SentBytes: m.bytes.Load(), Received: m.received.Load(),
	}
}

// sweepInterval is how often expired leases are deleted.
const sweepInterval = 10 * time.Minute

// Run receives and announces leases until ctx is done. It then returns nil and leaves no
// goroutines running. It returns an error if it cannot join the topic. It must be called once.
func (m *Map) Run(ctx context.Context) error {
	leave, err := m.join()
	if err != nil {
		return err
	}
	m.lastSweep = time.Now()
	m.lastAlone, m.lastSave = m.lastSweep, m.lastSweep
	// spreads the peers of a network that starts at once
	m.nextRepeat = m.lastSweep.Add(backoff.Jitter(m.cfg.Gap))
	for {
		now := time.Now()
		m.updateOwn(now)
		m.announce(ctx, now)
		if now.Sub(m.lastSweep) > sweepInterval {
			m.lastSweep = now
			m.table.expire(now)
		}
		if now.Sub(m.lastSave) > saveInterval {
			m.lastSave = now
			m.save()
		}
		if backoff.Sleep(ctx, m.cfg.Step) != nil {
			m.save()
			return leave()
		}
	}
}

// updateOwn reads the subnets of this peer.
func (m *Map) updateOwn(now time.Time) {
	lost, err := m.own.update(m.cfg.Node.OwnSubnets(), now, func(l lease.Lease) {
		m.table.put(newEntry(l), true, now, 0)
	})
	if err != nil {
		m.log.Error("failed to open own lease", "err", err)
	}
	for _, p := range lost {
		m.table.disown(p, now)
	}
}

// validators is how many messages are validated concurrently. Messages beyond that are lost
// until they are repeated.
const validators = 64

// join joins the topic. The validator receives each message once, before it is relayed, so no
// subscription is needed.
func (m *Map) join() (leave func() error, err error) {
	ps, name := m.cfg.PubSub, m.cfg.Topic
	fail := func(err error, undo ...error) error {
		return errors.Join(append([]error{fmt.Errorf("ownermap: join topic: %w", err)}, undo...)...)
	}
	if err := ps.RegisterTopicValidator(name, m.validate,
		pubsub.WithValidatorConcurrency(validators)); err != nil {
		return nil, fail(err)
	}
	topic, err := ps.Join(name)
	if err != nil {
		return nil, fail(err, ps.UnregisterTopicValidator(name))
	}
	stop, err := topic.Relay()
	if err != nil {
		return nil, fail(err, topic.Close(), ps.UnregisterTopicValidator(name))
	}
	m.topic = topic
	return func() error {
		stop()
		return errors.Join(topic.Close(), ps.UnregisterTopicValidator(name))
	}, nil
}
