// Package optout tells all peers that the opt-out of a web site has changed, by gossip. It is never
// more than a hint: a peer that is about to request the site reads the site's own file first.
//
// A peer publishes only what it has read itself (Publish), and repeats what it obeys, for peers
// that were away. Repetitions by others suppress its own. Memory is bounded, and so is what a peer
// accepts from each other one. docs/protocol/optout.md describes the messages.
//
// The package imports overlay/wire and libp2p, and opens no streams. Call Run once; Publish may be
// called concurrently.
package optout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// ErrMessage means that bytes are not a claim.
var ErrMessage = errors.New("optout: bad claim")

const (
	maxMessage = 512 // bytes
	maxHeard   = 8192
	// relayGap is the minimum time between two claims about an origin that are relayed.
	relayGap = 10 * time.Second
	// repeatMost is how many claims are repeated at a time, and repeatCost lengthens the time
	// between two repetitions for each origin that this peer obeys.
	repeatMost = 8
	repeatCost = 500 * time.Millisecond
	validators = 16
)

// forwardRate limits what each peer forwards.
var forwardRate = wire.Rate{PerSecond: 5, Burst: 50, TotalFactor: 8}

// Sites are the opt-outs that this peer knows.
type Sites interface {
	// Valid returns nil for the origin of a web site that this network may crawl.
	Valid(origin string) error
	// Claim receives what others say has changed. It must not block.
	Claim(origin string)
	// Obeyed returns the origins that this peer has read, and obeys.
	Obeyed() []string
}

// Config configures a Service. All fields but Logger are required.
type Config struct {
	Self   peer.ID
	PubSub *pubsub.PubSub
	Topic  string
	Sites  Sites
	// Every is the time between two repetitions by whichever peer.
	Every  time.Duration
	Logger *slog.Logger
}

// Service publishes and receives claims.
type Service struct {
	cfg       Config
	topic     *pubsub.Topic
	forwarded wire.Limiter

	mu    sync.Mutex
	heard *simplelru.LRU[string, time.Time] // by origin; also of what this peer has published
	said  map[string]time.Time              // the same of all origins that this peer obeys
}

// claim is the message.
type claim struct {
	Origin string `cbor:"1,keyasint"`
	At     int64  `cbor:"2,keyasint"` // tells repetitions apart, which gossip would suppress
}

// New returns a Service that does nothing before Run.
func New(cfg Config) (*Service, error) {
	heard, err := simplelru.NewLRU[string, time.Time](maxHeard, nil)
	if err != nil {
		return nil, fmt.Errorf("optout: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, heard: heard}, nil
}

// Run receives claims, and repeats those that this peer obeys, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	leave, err := s.join()
	if err != nil {
		return err
	}
	t := time.NewTicker(s.cfg.Every / 20)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return leave()
		case now := <-t.C:
			for _, origin := range s.due(now) {
				if err := s.Publish(ctx, origin); err != nil && ctx.Err() == nil {
					s.cfg.Logger.Warn("failed to repeat opt-out", "origin", origin, "err", err)
				}
			}
		}
	}
}

// join joins the topic. The validator receives each message once, before it is relayed, so no
// subscription is needed.
func (s *Service) join() (leave func() error, err error) {
	ps, name := s.cfg.PubSub, s.cfg.Topic
	fail := func(err error, undo ...error) error {
		return errors.Join(append([]error{fmt.Errorf("optout: join topic: %w", err)}, undo...)...)
	}
	if err := ps.RegisterTopicValidator(name, s.validate,
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
	s.mu.Lock()
	s.topic = topic
	s.mu.Unlock()
	return func() error {
		stop()
		return errors.Join(topic.Close(), ps.UnregisterTopicValidator(name))
	}, nil
}

// due returns the origins to repeat, the one that was not repeated for longest first. An origin
// that is new here is not repeated before half of the time has passed, so that the peers take turns
// after all have started.
func (s *Service) due(now time.Time) (due []string) {
	obeyed := s.cfg.Sites.Obeyed()
	s.mu.Lock()
	defer s.mu.Unlock()
	every := max(s.cfg.Every, time.Duration(len(obeyed))*repeatCost)
	said := make(map[string]time.Time, len(obeyed))
	for _, origin := range obeyed {
		last, ok := s.said[origin]
		if !ok {
			last, ok = s.heard.Peek(origin)
		}
		if !ok {
			last = now.Add(-rand.N(every / 2))
		}
		if said[origin] = last; now.Sub(last) >= every {
			i, _ := slices.BinarySearchFunc(due, last, func(o string, t time.Time) int {
				return said[o].Compare(t)
			})
			due = slices.Insert(due, i, origin)
			due = due[:min(len(due), repeatMost)]
		}
	}
	s.said = said
	return due
}

// note notes that a claim was heard or published. s.mu is held.
func (s *Service) note(origin string, now time.Time) {
	s.heard.Add(origin, now)
	if _, ok := s.said[origin]; ok {
		s.said[origin] = now
	}
}

// Publish says that the opt-out of an origin has changed.
func (s *Service) Publish(ctx context.Context, origin string) error {
	now := time.Now()
	raw, err := wire.Marshal(claim{origin, now.UnixMilli()})
	if err != nil {
		return fmt.Errorf("optout: %w", err)
	}
	s.mu.Lock()
	topic := s.topic
	s.note(origin, now)
	s.mu.Unlock()
	if topic == nil {
		return errors.New("optout: the peer is not running yet")
	}
	if err := topic.Publish(ctx, raw); err != nil {
		return fmt.Errorf("optout: publish: %w", err)
	}
	return nil
}

// parse returns the origin in a message.
func parse(raw []byte) (origin string, err error) {
	if len(raw) > maxMessage {
		return "", fmt.Errorf("%w: %d bytes, at most %d", ErrMessage, len(raw), maxMessage)
	}
	var c claim
	if err := wire.Unmarshal(raw, &c); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return c.Origin, nil
}

// validate takes note of a message from another peer.
func (s *Service) validate(
	_ context.Context, from peer.ID, msg *pubsub.Message,
) pubsub.ValidationResult {
	now := time.Now()
	if from == s.cfg.Self {
		return pubsub.ValidationAccept
	}
	if !s.forwarded.Allow(forwardRate, from, now) {
		return pubsub.ValidationIgnore // it is repeated
	}
	origin, err := parse(msg.GetData())
	if err == nil {
		err = s.cfg.Sites.Valid(origin)
	}
	if err != nil {
		s.cfg.Logger.Debug("rejected opt-out", "peer", from, "err", err)
		return pubsub.ValidationReject
	}
	s.cfg.Sites.Claim(origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.heard.Get(origin); ok && now.Sub(last) < relayGap {
		return pubsub.ValidationIgnore
	}
	s.note(origin, now)
	return pubsub.ValidationAccept
}
