package replica

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

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
// Its methods may be called at once.
type Service struct {
	cfg     *Config
	limiter wire.Limiter
	sources *sources
	copies  *copies
	server  *server
}

// New loads the copies that this peer keeps. It does not start anything.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	locks := &subnetLocks{locked: map[netip.Prefix]chan struct{}{}}
	syncs := &groupSync{db: cfg.DB}
	s := &Service{cfg: &cfg}
	s.sources = &sources{cfg: &cfg, locks: locks, sync: syncs,
		subnets: map[netip.Prefix]*source{}, links: map[peer.ID]*ownerLink{},
		linkAdded: backoff.NewWake()}
	s.copies = &copies{cfg: &cfg, locks: locks, sources: s.sources,
		held: map[netip.Prefix]*heldCopy{}, witnessSets: map[peer.ID][]byte{},
		usage: map[peer.ID]usage{}, numbers: map[peer.ID]int{},
		pinned: map[netip.Prefix]func() error{}, wipeAdded: backoff.NewWake()}
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

// SetWitnessSet sends this peer's witness set, sealed, to all replicas. Follow does the
// same if its request has a new one.
func (s *Service) SetWitnessSet(sealed []byte) { s.sources.setWitnessSet(sealed) }

// Follow keeps a copy of one of this peer's subnets at another peer until Unfollow. Call
// it again if the lease or the witness set has changed. It starts a log of the subnet if
// there is none. An error comes from the store.
func (s *Service) Follow(p netip.Prefix, to peer.ID, o OpenRequest) error {
	return s.sources.follow(p, to, o)
}

// Unfollow ends a Follow. With drop the replica drops its copy, otherwise it keeps the
// copy for a time as it is. A replica that cannot be reached is told within ten minutes.
func (s *Service) Unfollow(p netip.Prefix, to peer.ID, drop bool) {
	s.sources.unfollow(p, to, drop)
}

// Release ends everything for a subnet that this peer no longer owns: it unfollows each
// follower without drop and stops the log.
func (s *Service) Release(p netip.Prefix) error { return s.sources.release(p) }

// State returns the state of a follower. Err is ErrNotFollowed if to is not a follower.
func (s *Service) State(p netip.Prefix, to peer.ID) Follower { return s.sources.state(p, to) }

// Flush returns when the named followers, or all if none are named, have complete copies
// on their disks with everything that was committed before the call.
// It waits for followers that are being brought up to date, and returns the error of one
// that has failed at once.
func (s *Service) Flush(ctx context.Context, p netip.Prefix, to ...peer.ID) error {
	return s.sources.flush(ctx, p, to...)
}

// Await returns when a follower is synced, or with its error when it has failed. While the error is
// ErrLater it waits, for up to Config.Later.
func (s *Service) Await(ctx context.Context, p netip.Prefix, to peer.ID) error {
	return s.sources.await(ctx, p, to, s.cfg.Later, (*follower).synced)
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

// Copies returns the copies that this peer keeps.
func (s *Service) Copies() []LocalCopy { return s.copies.list() }

// Copy returns the copy of one subnet; ok is false if there is none.
func (s *Service) Copy(p netip.Prefix) (c LocalCopy, ok bool) { return s.copies.get(p) }

// Pin protects a complete copy of that epoch while this peer is about to take the subnet
// over. Otherwise an owner that returns in that moment could end the copy or send it
// again, and there would be a lease without data. What the owner asks for is done by
// unpin, if the copy still exists. ok is false, and unpin nil, if there is no
// such copy, or it is pinned already.
func (s *Service) Pin(p netip.Prefix, epoch uint64) (unpin func(), ok bool) {
	return s.copies.pin(p, epoch)
}

// Promote ends a copy because this peer owns the subnet from now on: no changes are
// accepted any more. The data on disk is complete up to the position that fn receives. fn
// makes the subnet's record that of an owned subnet; the copy does not change meanwhile. If
// fn fails, the copy remains; Drop refuses to drop it once fn has written that record. fn
// must not call Promote, Drop or Demote for the same subnet.
func (s *Service) Promote(p netip.Prefix, fn func(pos LogPos) error) error {
	return s.copies.promote(p, fn)
}

// Drop ends a copy that is not needed any more. Its data is deleted while Run runs.
func (s *Service) Drop(p netip.Prefix) error {
	return s.copies.dropIf(p, func(*heldCopy) bool { return true })
}

// Demote turns a subnet that this peer has handed over to another one, by the given
// lease, into a copy at the end of its log. The new owner continues that copy if its own
// log has this position as its base. The followers of the subnet are told that they are
// no longer replicas, and the log is deleted. confirmed is until when the new owner is
// known to count on the copy; zero if it may not.
func (s *Service) Demote(
	p netip.Prefix, to peer.ID, epoch uint64, lease []byte, confirmed time.Time,
) error {
	return s.copies.demote(p, to, epoch, lease, confirmed)
}

// LogPos is a position in a log.
type LogPos = store.LogPos
