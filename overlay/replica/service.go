package replica

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
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
// Its methods, and those exported of its parts, may be called at once.
type Service struct {
	cfg     *Config
	limiter wire.Limiter
	*sources
	*copies
	server *server
}

// New loads the copies that this peer keeps. It does not start anything.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	locks := &subnetLocks{locked: map[netip.Prefix]chan struct{}{}}
	s := &Service{cfg: &cfg}
	s.sources = &sources{cfg: &cfg, locks: locks,
		subnets: map[netip.Prefix]*source{}, links: map[peer.ID]*ownerLink{},
		linkAdded: backoff.NewWake()}
	s.copies = &copies{cfg: &cfg, locks: locks, sources: s.sources,
		held: map[netip.Prefix]*heldCopy{}, witnessSets: map[peer.ID][]byte{},
		usage: map[peer.ID]usage{}, numbers: map[peer.ID]int{},
		pinned: map[netip.Prefix]func() error{}, wipeAdded: backoff.NewWake()}
	s.server = &server{cfg: &cfg, copies: s.copies,
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

// Await returns when a follower is synced, or with its error when it has failed. While the error is
// ErrLater it waits, for up to Config.Later.
func (s *Service) Await(ctx context.Context, p netip.Prefix, to peer.ID) error {
	return s.await(ctx, p, to, s.cfg.Later, (*follower).synced)
}

// AskAgain has an owner repeat at once an open request to which the Policy answered ErrLater,
// because the reason is gone. id is that of the request. If the owner has sent another one since,
// or is not connected, nothing happens.
func (s *Service) AskAgain(owner peer.ID, p netip.Prefix, id uint64) {
	s.server.mu.Lock()
	in := s.server.links[owner]
	s.server.mu.Unlock()
	if in != nil {
		in.reply(openReply{Subnet: p, ID: id, Status: statusReopen, Reason: "possible now"})
	}
}

// LogPos is a position in a log.
type LogPos = store.LogPos
