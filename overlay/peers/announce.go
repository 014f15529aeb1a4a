package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// lookEvery is how often the load is asked for.
const lookEvery = time.Second

// addrTTL is how long the addresses in a beacon are kept for dialing: a few
// beacons long, and renewed by each.
const addrTTL = 10 * time.Minute

// join enters the topic. Beacons are taken in by the validator, which sees each
// once, before it is passed on; so nobody needs to subscribe.
func (s *Service) join() (leave func() error, err error) {
	ps, name := s.cfg.PubSub, s.cfg.Topic
	if err := ps.RegisterTopicValidator(name, s.hear, pubsub.WithValidatorInline(true)); err != nil {
		return nil, fmt.Errorf("peers: join topic: %w", err)
	}
	topic, err := ps.Join(name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("peers: join topic: %w", err), ps.UnregisterTopicValidator(name))
	}
	stop, err := topic.Relay()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("peers: join topic: %w", err), topic.Close(), ps.UnregisterTopicValidator(name))
	}
	s.topic = topic
	return func() error {
		stop()
		return errors.Join(topic.Close(), ps.UnregisterTopicValidator(name))
	}, nil
}

// hear judges a gossiped beacon. It runs inline, so it must be quick: it is one
// signature check.
func (s *Service) hear(_ context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
	if from == s.cfg.Host.ID() {
		return pubsub.ValidationAccept
	}
	err := s.take(m.GetData(), 0)
	switch {
	case err == nil:
		return pubsub.ValidationAccept
	case errors.Is(err, ErrBeacon):
		s.log.Debug("bad beacon", "peer", from, "err", err)
		return pubsub.ValidationReject
	}
	return pubsub.ValidationIgnore
}

// take puts a beacon into the directory and its addresses where dials find
// them.
func (s *Service) take(raw []byte, age time.Duration) error {
	b, err := s.dir.PutAged(raw, age)
	if err != nil {
		return err
	}
	s.cfg.Host.Peerstore().AddAddrs(b.Peer, b.Info().Addrs, addrTTL)
	if s.cfg.Host.Network().Connectedness(b.Peer) == network.Connected {
		return nil
	}
	s.hurry()
	return nil
}

// hurry makes the loop look now, not at its next step.
func (s *Service) hurry() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// announce looks at the load and publishes a beacon when one is due or enough
// has changed.
func (s *Service) announce(ctx context.Context, now time.Time) {
	if now.Sub(s.looked) < lookEvery {
		return
	}
	s.looked = now
	wait, capacity := s.load()
	if now.Sub(s.sent) < s.cfg.Gap || !s.changed(wait) && now.Before(s.due) {
		return
	}
	s.sent, s.due = now, now.Add(spread(s.cfg.Interval))
	if err := s.renew(now, wait, capacity); err != nil {
		s.log.Error("sealing the own beacon failed", "err", err)
		return
	}
	s.mu.Lock()
	raw := s.ownSealed
	s.mu.Unlock()
	if err := s.topic.Publish(ctx, raw); err != nil && ctx.Err() == nil {
		s.log.Warn("publishing the own beacon failed", "err", err)
	}
}

// load asks for the load and puts it within bounds.
func (s *Service) load() (time.Duration, float64) {
	wait, capacity := s.cfg.Load()
	wait = min(max(wait, 0), maxWait)
	if !(capacity >= 0) { // also NaN
		capacity = 0
	}
	return wait, min(capacity, maxCapacity)
}

// changed takes in the load and reports whether the coordinate, with it, is
// worth announcing.
func (s *Service) changed(wait time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.est.SetLoad(wait)
	return s.announcer.Consider(s.est.Announced())
}

// renew makes the own beacon.
func (s *Service) renew(now time.Time, wait time.Duration, capacity float64) error {
	addrs := addresses(s.cfg.Host)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.est.SetLoad(wait)
	b := Beacon{
		Peer:     s.cfg.Host.ID(),
		At:       s.est.Announced(),
		Wait:     wait,
		Capacity: capacity,
		Version:  s.cfg.Version,
		// The time in it makes it grow over restarts.
		Seq:   max(s.own.Seq+1, uint64(max(now.UnixMilli(), 0))),
		Time:  now.Round(0),
		Addrs: addrs,
	}
	raw, err := Seal(s.cfg.Key, s.cfg.Topic, b)
	if err != nil {
		return err
	}
	s.own, s.ownSealed = b, raw
	return nil
}

// addresses are those to tell others: loopback ones only if there are no other,
// as they mean something else everywhere else.
func addresses(h host.Host) []string {
	addrs := slices.DeleteFunc(slices.Clone(h.Addrs()), func(a ma.Multiaddr) bool { return len(a.String()) > maxAddr })
	if slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool { return !manet.IsIPLoopback(a) }) {
		addrs = slices.DeleteFunc(addrs, manet.IsIPLoopback)
	}
	texts := make([]string, 0, maxAddrs)
	for _, a := range addrs[:min(len(addrs), maxAddrs)] {
		texts = append(texts, a.String())
	}
	return texts
}
