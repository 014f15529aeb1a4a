package replica

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/overlay/wire"
)

// Bounds of a link, on the owner's side.
const (
	// window bounds the frames that are in flight and not taken yet, in bytes before
	// compression. Pieces of snapshots use only a quarter, so that they do not delay
	// other frames.
	window = 4 << 20
	// maxSnapshots is how many snapshots of a link are sent in turn; others wait.
	maxSnapshots = 8
	// closeRetryTime is how long the owner tries to tell a replica that it is no longer
	// one.
	closeRetryTime = 10 * time.Minute
	dialTimeout    = 15 * time.Second
	// maxReopens is how many consecutive times a follower is opened again at once.
	maxReopens = 3
)

// ownerLink is the owner's end of the stream to one replica, for all its subnets.
// Guarded by sources.mu.
type ownerLink struct {
	s         *sources
	peer      peer.ID
	followers map[netip.Prefix]*follower
	closings  map[netip.Prefix]pendingClose
	running   bool

	up             bool
	lastOpenID     uint64
	urgent         followerQueue // followers with something to send that a caller waits for
	work           followerQueue // other followers with something to send
	snapshots      followerQueue // followers with a snapshot that is being sent
	snapshotNext   bool          // a piece of a snapshot is sent next
	newWitnessSet  bool          // this peer's witness set has changed
	sentWitnessSet string        // the last one sent
	flight         flight

	wakeup backoff.Wake
}

// pendingClose is a close request that the replica has not received yet.
type pendingClose struct {
	drop  bool
	until time.Time
	frame uint64 // number of the frame on the present stream in which it was sent; 0: it was not
}

// followerQueue is a queue of followers.
type followerQueue struct{ q []*follower }

func (q *followerQueue) push(f *follower) { q.q = append(q.q, f) }

// requeue inserts f behind the first maxSnapshots-1 followers.
func (q *followerQueue) requeue(f *follower) {
	q.q = slices.Insert(q.q, min(len(q.q), maxSnapshots-1), f)
}

func (q *followerQueue) pop() *follower {
	if len(q.q) == 0 {
		return nil
	}
	f := q.q[0]
	q.q[0] = nil
	q.q = q.q[1:]
	return f
}

// linkTo returns the link to a peer, created if need be. The caller holds mu.
func (s *sources) linkTo(to peer.ID) *ownerLink {
	l := s.links[to]
	if l == nil {
		l = &ownerLink{
			s: s, peer: to, followers: map[netip.Prefix]*follower{},
			closings: map[netip.Prefix]pendingClose{},
			wakeup:   backoff.NewWake(),
		}
		s.links[to] = l
		s.linkAdded.Signal()
	}
	return l
}

// queue queues a follower for the sender. The caller holds mu.
func (l *ownerLink) queue(f *follower, urgent bool) {
	if !l.up {
		return
	}
	if urgent && !f.urgent {
		f.urgent = true
		l.urgent.push(f)
	} else if !f.queued {
		l.work.push(f)
	}
	f.queued = true // in one of the queues, or both
	l.wakeup.Signal()
}

// reopen opens a follower again. The caller holds mu.
func (l *ownerLink) reopen(f *follower) {
	f.update(func() { f.snapshot, f.state = nil, stateIdle })
	l.queue(f, false)
}

// run keeps the link connected as long as it is in use.
func (l *ownerLink) run(ctx context.Context) {
	wait := l.s.cfg.Redial
	for l.inUse() {
		began := time.Now()
		err := l.session(ctx)
		l.onDown(err)
		if time.Since(began) > 2*silence {
			wait = l.s.cfg.Redial
		}
		if backoff.Sleep(ctx, backoff.Later(wait)) != nil {
			return
		}
		wait = backoff.Double(wait, 10*l.s.cfg.Redial, 1)
	}
}

// inUse reports whether the link is in use, and removes it if not.
func (l *ownerLink) inUse() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	now := time.Now()
	for p, x := range l.closings {
		if now.After(x.until) {
			delete(l.closings, p)
		}
	}
	if len(l.followers)+len(l.closings) > 0 {
		return true
	}
	if l.s.links[l.peer] == l {
		delete(l.s.links, l.peer)
	}
	return false
}

// session is one stream, from the dial to its end.
func (l *ownerLink) session(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(dialTimeout, func() { cancel(errors.New("dial timed out")) })
	c, err := wire.Dial(ctx, l.s.cfg.Host, l.peer, replicaLimits, l.s.cfg.Protocol)
	if !limit.Stop() || err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer c.Reset()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.Reset()
	l.reset()
	wg.Go(func() {
		for {
			var u replicaFrame
			if err := c.RecvZ(&u); err != nil {
				cancel(err)
				return
			}
			if err := l.onReply(u); err != nil {
				cancel(err)
				return
			}
		}
	})
	if err = l.send(ctx, c); err == nil && ctx.Err() == nil {
		_ = c.CloseWrite()
		<-ctx.Done() // the replica ends the stream when it has read everything
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

// reset starts a new stream: all followers are opened again.
func (l *ownerLink) reset() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.up, l.lastOpenID, l.sentWitnessSet = true, 0, ""
	l.urgent, l.work, l.snapshots = followerQueue{}, followerQueue{}, followerQueue{}
	l.flight = flight{heard: l.flight.heard, lastProgress: l.flight.lastProgress}
	for p, x := range l.closings { // it may not have come over the last stream
		x.frame = 0
		l.closings[p] = x
	}
	for _, f := range l.followers {
		f.update(func() {
			f.snapshot, f.state, f.openID, f.err = nil, stateIdle, 0, nil
			f.queued, f.urgent = false, false
		})
		l.queue(f, false)
	}
	l.wakeup.Signal()
}

// onDown marks the followers of a link that has broken.
func (l *ownerLink) onDown(err error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.up = false
	for _, f := range l.followers {
		f.update(func() {
			f.snapshot, f.state, f.queued, f.urgent = nil, stateIdle, false, false
			if f.err == nil || errors.Is(f.err, ErrLink) {
				f.err = fmt.Errorf("%w: %w", ErrLink, err)
			}
		})
	}
}

// send sends frames until the stream ends, or the link is no longer in use.
func (l *ownerLink) send(ctx context.Context, c *wire.Conn) error {
	beat := time.NewTicker(l.s.cfg.Heartbeat)
	defer beat.Stop()
	for ctx.Err() == nil {
		j, due := l.next(), false
		if j.kind != jobNone {
			if err := l.sendJob(c, j); err != nil {
				return err
			}
			select {
			case <-beat.C:
				due = true
			default:
				continue
			}
		}
		if !due {
			select {
			case <-ctx.Done():
				return nil
			case <-l.wakeup:
				continue
			case <-beat.C:
			}
		}
		if !l.inUse() {
			return nil
		}
		l.retryWaiting()
		if err := l.sendFrame(c, ownerFrame{}); err != nil {
			return err
		}
	}
	return nil
}

// retryWaiting opens the followers for which the delay is over.
func (l *ownerLink) retryWaiting() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	now := time.Now()
	for _, f := range l.followers {
		if f.state == stateWaiting && now.After(f.retryAt) {
			f.reopens = 0
			l.reopen(f)
		}
	}
}
