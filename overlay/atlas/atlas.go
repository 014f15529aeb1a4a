package atlas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/overlay/lease"
)

// Config says what an Atlas works with. Start from DefaultConfig.
type Config struct {
	// Self is this peer, PubSub its gossip and Topic where subnets are
	// announced. Required.
	Self   peer.ID
	PubSub *pubsub.PubSub
	Topic  string
	// Own returns this peer's decided subnets. It is called each Step and must
	// be quick. Required.
	Own func() []Own
	// Peers says how many other peers there are. Required.
	Peers func() int
	// Heard is told each valid lease of another peer that is heard, also what is no
	// news. It is called by many at once and must be quick. Nil tells nobody.
	Heard func(lease.Lease)
	// Keeper keeps what is known for the next start. Nil keeps nothing.
	Keeper Keeper
	// Logger gets what Run has to say. Nil discards.
	Logger *slog.Logger

	// Max bounds the subnets of others in memory, of some 400 bytes each.
	Max int
	// Step is how often Own is asked.
	Step time.Duration
	// Gap is the least time between two messages, and Size the most bytes of
	// one.
	Gap  time.Duration
	Size int
	// Settle is how long others must have been in the topic before something is
	// said: gossip sends nothing to peers that it has not chosen yet.
	Settle time.Duration
	// RepeatAfter is how long a subnet of which there is nothing new is left
	// alone at the least, and RepeatRate how many bytes a second all peers'
	// repetitions may come to. The pause between those of one peer follows.
	RepeatAfter time.Duration
	RepeatRate  int
}

// DefaultConfig returns a Config that lacks only what is required.
func DefaultConfig() Config {
	return Config{
		Max: 100_000, Step: time.Second, Gap: 10 * time.Second, Size: 8 << 10, Settle: 5 * time.Second, RepeatAfter: time.Hour, RepeatRate: 32,
	}
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("atlas: "+format, args...))
		}
	}
	fault(c.Self == "", "Self is missing")
	fault(c.PubSub == nil, "PubSub is missing")
	fault(c.Topic == "", "Topic is missing")
	fault(c.Own == nil, "Own is missing")
	fault(c.Peers == nil, "Peers is missing")
	fault(c.Max < 1, "Max is %d, want at least 1", c.Max)
	for name, d := range map[string]time.Duration{"Step": c.Step, "Gap": c.Gap, "RepeatAfter": c.RepeatAfter} {
		fault(d <= 0, "%s is %v, want more than 0", name, d)
	}
	fault(c.Settle < 0, "Settle is %v, want 0 or more", c.Settle)
	fault(c.Size < 4<<10+2*overhead || c.Size > maxMessage, "Size is %d, want room for a lease and at most %d", c.Size, maxMessage)
	fault(c.RepeatRate < 1, "RepeatRate is %d, want at least 1", c.RepeatRate)
	return errors.Join(errs...)
}

// Atlas is one peer's view of the decided subnets. Its methods may be called
// at once.
type Atlas struct {
	cfg   Config
	log   *slog.Logger
	table *table
	quota *quota

	sent, received, bytes atomic.Int64

	// Of the goroutine of Run:
	topic        *pubsub.Topic
	mine         ledger
	next, repeat time.Time // when something may be said again, and repeated
	alone        time.Time // when nobody else was in the topic last
	swept, saved time.Time
}

// New returns an Atlas that knows what its Keeper has kept, or all that is wrong
// with cfg, or what the Keeper said.
func New(cfg Config) (*Atlas, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := newTable(cfg.Max)
	if err != nil {
		return nil, err
	}
	q, err := newQuota(cfg.Gap)
	if err != nil {
		return nil, err
	}
	a := &Atlas{cfg: cfg, log: cfg.Logger, table: t, quota: q, mine: ledger{all: map[netip.Prefix]*spoken{}}}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Keeper != nil {
		if err := a.load(time.Now()); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Known is what is known now. It does not change when more becomes known.
func (a *Atlas) Known() assign.Known { return view{a.table.now.Load()} }

// Stats are the sums of an Atlas.
type Stats struct {
	Subnets   int   // known, our own among them
	Sent      int64 // announcements of subnets of ours
	SentBytes int64 // in messages, each counted once however many peers it went to
	Received  int64 // announcements that were news
}

// Stats returns the sums. The counters begin with the process.
func (a *Atlas) Stats() Stats {
	return Stats{Subnets: a.table.size(), Sent: a.sent.Load(), SentBytes: a.bytes.Load(), Received: a.received.Load()}
}

// sweepEvery is how often expired leases are looked for.
const sweepEvery = 10 * time.Minute

// Run listens and announces until ctx ends; then it returns nil and leaves
// nothing running. The error is that the topic cannot be joined. Call it once.
func (a *Atlas) Run(ctx context.Context) error {
	leave, err := a.join()
	if err != nil {
		return err
	}
	t := time.NewTicker(a.cfg.Step)
	defer t.Stop()
	a.swept = time.Now()
	a.alone, a.saved = a.swept, a.swept
	a.repeat = a.swept.Add(spread(a.cfg.Gap)) // not all peers of a network that starts at once
	for {
		now := time.Now()
		a.look(now)
		a.say(ctx, now)
		if now.Sub(a.swept) > sweepEvery {
			a.swept = now
			a.table.expire(now)
		}
		if now.Sub(a.saved) > keepEvery {
			a.saved = now
			a.save()
		}
		select {
		case <-ctx.Done():
			a.save()
			return leave()
		case <-t.C:
		}
	}
}

// look takes in which subnets are ours.
func (a *Atlas) look(now time.Time) {
	gone, err := a.mine.look(a.cfg.Own(), now, func(l lease.Lease) { a.table.put(newEntry(l), true, now, 0) })
	if err != nil {
		a.log.Error("a lease of ours does not open", "err", err)
	}
	for _, p := range gone {
		a.table.disown(p, now)
	}
}

// hearers is how many messages may be checked at once; those on top are lost,
// and come again with a repetition.
const hearers = 64

// join enters the topic. The validator sees each message once and takes it in,
// before it is passed on; so nobody needs to subscribe.
func (a *Atlas) join() (leave func() error, err error) {
	ps, name := a.cfg.PubSub, a.cfg.Topic
	fail := func(err error, undo ...error) error {
		return errors.Join(append([]error{fmt.Errorf("atlas: join topic: %w", err)}, undo...)...)
	}
	if err := ps.RegisterTopicValidator(name, a.hear, pubsub.WithValidatorConcurrency(hearers)); err != nil {
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
	a.topic = topic
	return func() error {
		stop()
		return errors.Join(topic.Close(), ps.UnregisterTopicValidator(name))
	}, nil
}

// spread is d, 75 to 125 % of it, so that peers do not fall into step.
func spread(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
