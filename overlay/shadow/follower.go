package shadow

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// source is a subnet of ours that is, or was, followed. Guarded by Service.mu.
type source struct {
	prefix    netip.Prefix
	followers map[peer.ID]*follower
	log       uint64  // that cut is of
	cut       uint64  // up to here the log has been trimmed, as far as we know
	synced    TailPos // up to here it is on our disk
}

// holdTime is for how long a follower that has failed holds the log back.
const holdTime = time.Minute

// pin returns up to where the log may be trimmed: what all followers have. One
// that lags behind by more than most holds nothing back.
func (src *source) pin(head TailPos, most uint64, now time.Time) uint64 {
	if src.log != head.Log {
		src.log, src.cut = head.Log, 0
	}
	if len(src.followers) == 0 {
		return head.Seq - min(head.Seq, IdleLog)
	}
	through := head.Seq
	for _, f := range src.followers {
		switch {
		case f.err != nil && now.Sub(f.since) > holdTime:
		case f.state == stateWalk && f.sent.Log == head.Log:
			through = min(through, f.sent.Seq)
		case f.acked.Log == head.Log:
			through = min(through, f.acked.Seq)
		default: // it may have the beginning
			through = min(through, src.cut)
		}
	}
	return max(through, head.Seq-min(head.Seq, most))
}

// state is how far the owner is with a follower, on the present link.
type state uint8

const (
	stateIdle    state = iota // to be opened
	stateOpening              // asked
	stateWaiting              // the replica has said no, or later
	stateWalk                 // a snapshot is being sent
	stateTail                 // all that is new is sent
)

// follower is one replica of one subnet. Guarded by Service.mu; what walk points
// to is the sender's of the link.
type follower struct {
	src  *source
	link *link
	open Open

	state  state
	turn   uint64
	queued bool // in a queue of the link
	urgent bool // somebody waits
	walk   *walk
	sent   TailPos // the last record that was sent
	acked  TailPos // the replica has all up to here on its disk
	whole  bool    // and has said that nothing is missing before
	marks  marks   // when what it has not acknowledged was sent; see pulse.go
	again  int     // times in a row that it had to be opened again
	retry  time.Time

	err     error
	since   time.Time // of synced() being what it is
	changed chan struct{}
}

// synced says that the replica has the whole subnet and is told what is new.
func (f *follower) synced() bool { return f.state == stateTail && f.whole && f.err == nil }

// alter changes f by fn, keeps account of since when it is synced, and wakes who
// waits. The caller holds Service.mu.
func (f *follower) alter(fn func()) {
	was := f.synced()
	fn()
	if f.synced() != was {
		f.since = time.Now()
	}
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// Follower is what the owner knows of a replica.
type Follower struct {
	// Synced: the replica has a copy of the whole subnet and the link is up.
	Synced bool
	// Pos is how far the replica has the log on its disk.
	Pos TailPos
	// Err is why it is not synced, nil while it is on the way; it wraps
	// ErrRefused, ErrStale, ErrLater, ErrLink or ErrNotFollowed, or is a fault here.
	Err error
	// Heard is when the replica last kept up: it has answered since, and owes no
	// answer to what was sent before that. The zero time is never. It tells of a link
	// that hangs long before Err does.
	Heard time.Time
	// Since is since when Synced has been what it is.
	Since time.Time
}

// Follow keeps a copy of a subnet of ours at another peer until Unfollow. It
// may be called again, with another Open if lease or panel have changed. A log of the
// subnet is begun if there is none. An error is one of the store.
func (s *Service) Follow(p netip.Prefix, to peer.ID, o Open) error {
	if _, _, err := s.logOf(p); err != nil {
		return err
	}
	o.Subnet = p
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPanel(o.Panel)
	src := s.sources[p]
	if src == nil {
		src = &source{prefix: p, followers: map[peer.ID]*follower{}}
		s.sources[p] = src
	}
	f := src.followers[to]
	if f != nil && f.open.same(o) {
		return nil
	}
	l := s.linkTo(to)
	if f == nil {
		f = &follower{src: src, link: l, since: time.Now()}
		src.followers[to], l.followers[p] = f, f
		delete(l.closings, p)
	}
	f.open = o
	if f.state == stateWaiting {
		f.alter(func() { f.err = nil })
	}
	l.reopen(f)
	return nil
}

// same says whether nothing has changed that a replica has to know.
func (o Open) same(p Open) bool {
	return o.Epoch == p.Epoch && bytes.Equal(o.Lease, p.Lease)
}

// Unfollow ends it. With drop the replica forgets its copy, else it keeps it for
// a while as it is. It is told when it can be reached within ten minutes.
func (s *Service) Unfollow(p netip.Prefix, to peer.ID, drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.sources[p]
	if src == nil || src.followers[to] == nil {
		return
	}
	f := src.followers[to]
	f.alter(func() { f.state, f.err = stateIdle, ErrNotFollowed })
	delete(src.followers, to)
	delete(f.link.followers, p)
	if f.turn > 0 || drop {
		f.link.closings[p] = parting{drop: drop, until: time.Now().Add(partingTime)}
	}
	poke(f.link.kick)
}

// Leave ends everything for a subnet that is ours no more, as Unfollow of each
// follower without drop, and stops its log.
func (s *Service) Leave(p netip.Prefix) error {
	for _, to := range s.Followers(p) {
		s.Unfollow(p, to, false)
	}
	s.mu.Lock()
	delete(s.sources, p)
	s.mu.Unlock()
	return s.cfg.DB.StopTail(p)
}

// Followers returns who follows a subnet of ours.
func (s *Service) Followers(p netip.Prefix) []peer.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []peer.ID
	if src := s.sources[p]; src != nil {
		for id := range src.followers {
			ids = append(ids, id)
		}
	}
	return ids
}

// State returns what is known of a follower; Err is ErrNotFollowed if it is
// none.
func (s *Service) State(p netip.Prefix, to peer.ID) Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.sources[p]
	if src == nil || src.followers[to] == nil {
		return Follower{Err: ErrNotFollowed}
	}
	f := src.followers[to]
	return Follower{Synced: f.synced(), Pos: f.acked, Err: f.err, Heard: f.heard(), Since: f.since}
}

// Flush returns when these followers, all if none are named, have on their
// disks what was committed before the call, and nothing is missing before it.
// It waits for one that is on the way, and ends at once with the error of one
// that has failed.
func (s *Service) Flush(ctx context.Context, p netip.Prefix, to ...peer.ID) error {
	if len(to) == 0 {
		to = s.Followers(p)
	}
	head, _, ok := s.cfg.DB.TailHead(p)
	if !ok {
		return fmt.Errorf("shadow: %v has no log", p)
	}
	done := func(f *follower) bool { return f.synced() && f.acked.Log == head.Log && f.acked.Seq >= head.Seq }
	for _, id := range to {
		s.hurry(p, id, done)
	}
	for _, id := range to {
		if err := s.await(ctx, p, id, done); err != nil {
			return err
		}
	}
	return nil
}

// Await returns when a follower is synced, or with its error when it has
// failed.
func (s *Service) Await(ctx context.Context, p netip.Prefix, to peer.ID) error {
	return s.await(ctx, p, to, (*follower).synced)
}

// hurry has a follower sent what is new at once, unless it has it.
func (s *Service) hurry(p netip.Prefix, to peer.ID, done func(*follower) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if src := s.sources[p]; src != nil {
		if f := src.followers[to]; f != nil && !done(f) {
			f.link.queue(f, true)
		}
	}
}

func (s *Service) await(ctx context.Context, p netip.Prefix, to peer.ID, done func(*follower) bool) error {
	for {
		s.mu.Lock()
		src := s.sources[p]
		if src == nil || src.followers[to] == nil {
			s.mu.Unlock()
			return ErrNotFollowed
		}
		f := src.followers[to]
		if done(f) {
			s.mu.Unlock()
			return nil
		}
		if f.err != nil {
			err := f.err
			s.mu.Unlock()
			return err
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return fmt.Errorf("shadow: %w", ctx.Err())
		case <-changed:
		}
	}
}

// trim forgets of each log what all followers have.
func (s *Service) trim() {
	type cut struct {
		p       netip.Prefix
		through uint64
	}
	var cuts []cut
	s.mu.Lock()
	for p, src := range s.sources {
		if head, _, ok := s.cfg.DB.TailHead(p); ok {
			if through := src.pin(head, s.cfg.MaxLog, time.Now()); through > src.cut && through <= head.Seq {
				src.cut = through
				cuts = append(cuts, cut{p, through})
			}
		}
	}
	s.mu.Unlock()
	for _, c := range cuts {
		if err := s.cfg.DB.TrimTail(c.p, c.through); err != nil {
			s.log.Error("log not trimmed", "subnet", c.p, "err", err)
		}
	}
}
