package replica

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// Service is one peer's half of all links: owner of some, replica of others. Its parts have a
// mutex each:
//
//	sources  this peer's subnets, their followers, and the links to these
//	copies   the copies of other peers' subnets
//	server   the links of the owners of these
//
// Its methods, which are those of the parts, may be called at once.
type Service struct {
	cfg     *Config
	limiter wire.Limiter
	*sources
	*copies
	*server
}

// New loads the copies that this peer keeps. It does not start anything.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	locks := &subnetLocks{locked: map[netip.Prefix]chan struct{}{}}
	syncs := &groupSync{fn: cfg.DB.Sync}
	s := &Service{cfg: &cfg}
	s.sources = &sources{cfg: &cfg, locks: locks, sync: syncs,
		subnets: map[netip.Prefix]*source{}, links: map[peer.ID]*ownerLink{},
		linkAdded: make(chan struct{}, 1)}
	s.copies = &copies{cfg: &cfg, locks: locks, sources: s.sources,
		held: map[netip.Prefix]*heldCopy{}, witnessSets: map[peer.ID][]byte{},
		usage: map[peer.ID]usage{}, numbers: map[peer.ID]int{},
		pinned: map[netip.Prefix]func() error{}, wipeAdded: make(chan struct{}, 1)}
	s.server = &server{cfg: &cfg, sync: syncs, copies: s.copies,
		links: map[peer.ID]*replicaLink{}}
	if err := s.copies.load(); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	return s, nil
}

// SetPolicy sets Config.Policy. Call it before Run.
func (s *Service) SetPolicy(p Policy) { s.cfg.Policy = p }

// Run serves as replica and updates the followers of this peer's subnets until
// ctx ends, and returns when everything has stopped. An error is final and comes from
// the store.
func (s *Service) Run(ctx context.Context) error {
	if s.cfg.Policy == nil {
		return errors.New("replica: Policy is missing")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links := wire.Serve(s.cfg.Host, s.cfg.Protocol, ownerLimits, s.cfg.Logger, s.server.serve)
	defer links.Close()
	if s.cfg.QueryProtocol != "" {
		queries := wire.Serve(s.cfg.Host, s.cfg.QueryProtocol, queryLimits, s.cfg.Logger,
			s.answerQuery)
		defer queries.Close()
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.copies.runSweep(ctx) })
	wg.Go(func() { s.server.runConfirmed(ctx) })
	s.sources.run(ctx)
	return nil
}

// LogPos is a position in a log.
type LogPos = store.LogPos
