package replica

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// source is a subnet of this peer that is or was followed. Guarded by sources.mu.
type source struct {
	prefix    netip.Prefix
	followers map[peer.ID]*follower
	log       uint64 // to which trimmed applies
	trimmed   uint64 // the log is known to be trimmed up to here
	synced    LogPos // the log is on this peer's disk up to here
}

// trimHold is how long a failed follower prevents trimming.
const trimHold = time.Minute

// trimPoint returns the position up to which the log may be trimmed: what all followers
// have. A follower that lags by more than most records does not prevent trimming.
func (src *source) trimPoint(head LogPos, most uint64, now time.Time) uint64 {
	if src.log != head.Log {
		src.log, src.trimmed = head.Log, 0
	}
	if len(src.followers) == 0 {
		return head.Seq - min(head.Seq, IdleLog)
	}
	through := head.Seq
	for _, f := range src.followers {
		switch {
		case f.err != nil && now.Sub(f.since) > trimHold:
		case f.state == stateSnapshot && f.sent.Log == head.Log:
			through = min(through, f.sent.Seq)
		case f.acked.Log == head.Log:
			through = min(through, f.acked.Seq)
		default: // it may have the records from the beginning on
			through = min(through, src.trimmed)
		}
	}
	return max(through, head.Seq-min(head.Seq, most))
}

// followState is the state of a follower on the current link.
type followState uint8

const (
	stateIdle     followState = iota // to be opened
	stateOpening                     // the open request was sent
	stateWaiting                     // the replica refused, or asked to wait
	stateSnapshot                    // a snapshot is being sent
	stateLog                         // log records are sent as they come
)

// follower is one replica of one subnet. Guarded by sources.mu, except what snapshot
// points to, which belongs to the sender of the link.
type follower struct {
	src   *source
	link  *ownerLink
	epoch uint64 // of this peer's lease

	state    followState
	openID   uint64
	queued   bool // in a queue of the link
	urgent   bool // a caller waits
	snapshot *snapshotCursor
	sent     LogPos    // last record sent
	acked    LogPos    // the replica has everything up to here on its disk
	complete bool      // and has acknowledged that its copy has no gap
	unacked  sendTimes // of records that are not acknowledged; see heartbeat.go
	evidence known     // what the replica has of the subnet's evidence
	reopens  int       // consecutive times that it had to be opened again
	retryAt  time.Time

	err     error
	since   time.Time // of the last change of synced()
	changed chan struct{}
}

// synced reports whether the replica has the whole subnet and receives its changes.
func (f *follower) synced() bool { return f.state == stateLog && f.complete && f.err == nil }

// update changes f by fn, records when synced changed, and wakes waiting callers. The
// caller holds sources.mu.
func (f *follower) update(fn func()) {
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

// Follower is the state of a replica as its owner knows it.
type Follower struct {
	// Synced reports whether the replica has a copy of the whole subnet and the link is
	// up.
	Synced bool
	// Pos is the position in the log up to which the replica has it on its disk.
	Pos LogPos
	// Err is why it is not synced; nil while it is being brought up to date. It wraps
	// ErrRefused, ErrStale, ErrLater, ErrLink or ErrNotFollowed, or is a local error.
	Err error
	// Heard is when the replica last kept up: it has replied since then, and owes no
	// reply to anything sent before. The zero time means never. It reveals a hanging
	// link long before Err does.
	Heard time.Time
	// Since is when Synced last changed.
	Since time.Time
	// Owes is since when it has changes that it has not acknowledged; zero: it has none.
	Owes time.Time
}

// Follow keeps a copy of one of this peer's subnets, which it owns by a lease of that epoch, at
// another peer until Unfollow. It starts a log of the subnet if there is none. An error comes from
// the store.
func (s *sources) Follow(p netip.Prefix, to peer.ID, epoch uint64) error {
	if _, _, err := s.logOf(p); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.subnets[p]
	if src == nil {
		src = &source{prefix: p, followers: map[peer.ID]*follower{}}
		s.subnets[p] = src
	}
	f := src.followers[to]
	if f != nil && f.epoch == epoch {
		return nil
	}
	l := s.linkTo(to)
	if f == nil {
		f = &follower{src: src, link: l, since: time.Now()}
		src.followers[to], l.followers[p] = f, f
		delete(l.closings, p)
	}
	f.epoch = epoch
	if f.state == stateWaiting {
		f.update(func() { f.err = nil })
	}
	l.reopen(f)
	return nil
}

// Unfollow ends a Follow. With drop the replica drops its copy, otherwise it keeps the
// copy for a time as it is. A replica that cannot be reached is told within ten minutes.
func (s *sources) Unfollow(p netip.Prefix, to peer.ID, drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.follower(p, to)
	if f == nil {
		return
	}
	f.update(func() { f.state, f.err = stateIdle, ErrNotFollowed })
	delete(f.src.followers, to)
	delete(f.link.followers, p)
	if f.openID > 0 || drop {
		f.link.closings[p] = pendingClose{drop: drop, until: time.Now().Add(closeRetryTime)}
	}
	f.link.wakeup.Signal()
}

// Release ends everything for a subnet that this peer no longer owns: it unfollows each
// follower without drop and stops the log.
func (s *sources) Release(p netip.Prefix) error {
	for _, to := range s.followers(p) {
		s.Unfollow(p, to, false)
	}
	s.mu.Lock()
	delete(s.subnets, p)
	s.mu.Unlock()
	return s.cfg.DB.StopLog(p)
}

// follower returns a follower of a subnet; nil if it is none. The caller holds mu.
func (s *sources) follower(p netip.Prefix, to peer.ID) *follower {
	if src := s.subnets[p]; src != nil {
		return src.followers[to]
	}
	return nil
}

func (s *sources) followers(p netip.Prefix) []peer.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []peer.ID
	if src := s.subnets[p]; src != nil {
		for id := range src.followers {
			ids = append(ids, id)
		}
	}
	return ids
}

// State returns the state of a follower. Err is ErrNotFollowed if to is not a follower.
func (s *sources) State(p netip.Prefix, to peer.ID) Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.follower(p, to)
	if f == nil {
		return Follower{Err: ErrNotFollowed}
	}
	st := Follower{
		Synced: f.synced(), Pos: f.acked, Err: f.err, Heard: f.lastHeard(), Since: f.since,
	}
	if len(f.unacked) > 0 {
		st.Owes = f.unacked[0].at
	}
	return st
}

// Flush returns when the named followers, or all if none are named, have complete copies
// on their disks with everything that was committed before the call.
// It waits for followers that are being brought up to date, and returns the error of one
// that has failed at once.
func (s *sources) Flush(ctx context.Context, p netip.Prefix, to ...peer.ID) error {
	if len(to) == 0 {
		to = s.followers(p)
	}
	head, _, ok := s.cfg.DB.LogHead(p)
	if !ok {
		return fmt.Errorf("replica: %v has no log", p)
	}
	done := func(f *follower) bool {
		return f.synced() && f.acked.Log == head.Log && f.acked.Seq >= head.Seq
	}
	for _, id := range to {
		s.flushNow(p, id, done)
	}
	for _, id := range to {
		if err := s.await(ctx, p, id, 0, done); err != nil {
			return err
		}
	}
	return nil
}

// flushNow has new records sent to a follower at once, unless done.
func (s *sources) flushNow(p netip.Prefix, to peer.ID, done func(*follower) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.follower(p, to); f != nil && !done(f) {
		f.link.queue(f, true)
	}
}

// await waits until a follower is done, or has failed. One that asks to be asked later has failed
// if it still does so after the time of later.
func (s *sources) await(
	ctx context.Context, p netip.Prefix, to peer.ID, later time.Duration,
	done func(*follower) bool,
) error {
	limit := time.NewTimer(later)
	defer limit.Stop()
	expired := later == 0
	for {
		s.mu.Lock()
		f := s.follower(p, to)
		if f == nil {
			s.mu.Unlock()
			return ErrNotFollowed
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		over, err, changed := done(f), f.err, f.changed
		s.mu.Unlock()
		if over {
			return nil
		} else if err != nil && (expired || !errors.Is(err, ErrLater)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("replica: %w", ctx.Err())
		case <-changed:
		case <-limit.C:
			expired = true
		}
	}
}

// trim removes from each log what all followers have.
func (s *sources) trim() {
	type cut struct {
		p       netip.Prefix
		through uint64
	}
	var cuts []cut
	s.mu.Lock()
	for p, src := range s.subnets {
		if head, _, ok := s.cfg.DB.LogHead(p); ok {
			if through := src.trimPoint(head, maxLog, time.Now()); through > src.trimmed &&
				through <= head.Seq {
				src.trimmed = through
				cuts = append(cuts, cut{p, through})
			}
		}
	}
	s.mu.Unlock()
	for _, c := range cuts {
		err := s.cfg.DB.TrimLog(c.p, c.through)
		if err != nil && !errors.Is(err, store.ErrNotInLog) { // the log may have ended meanwhile
			s.cfg.Logger.Error("failed to trim log", "subnet", c.p, "err", err)
		}
	}
}
