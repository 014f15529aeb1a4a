package shadow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// Bounds of a link, on the owner's side.
const (
	// window is how much may be on the way and not taken in, in bytes before
	// compression; with pieces of snapshots only a quarter, so that they hold nobody
	// up.
	window = 4 << 20
	// maxWalks is how many snapshots of a link are sent in turn; the others wait.
	maxWalks = 8
	// partingTime is for how long a replica is told that it is one no more.
	partingTime = 10 * time.Minute
	dialTimeout = 15 * time.Second
	// maxAgain is how often in a row a follower is opened again at once.
	maxAgain = 3
)

// link is the owner's end of the stream to one replica, for all its subnets.
// Guarded by Service.mu.
type link struct {
	s         *Service
	peer      peer.ID
	followers map[netip.Prefix]*follower
	closings  map[netip.Prefix]parting
	running   bool

	up      bool
	turn    uint64
	hot     fifo   // followers with something to be sent that somebody waits for
	work    fifo   // and those with which there is time
	walks   fifo   // followers whose snapshot goes on
	walkTo  bool   // it is the turn of a snapshot
	repanel bool   // our panel has changed
	panel   string // the last one told
	flight  []int  // sizes of the frames not taken in yet
	size    int    // sum of it
	took    uint64
	answers uint64    // that have come
	echo    uint64    // of these, when nothing was owed
	heard   time.Time // when the last one came, on whatever stream
	moved   time.Time // when something was last taken in, or begun to be on the way

	kick chan struct{}
}

type parting struct {
	drop  bool
	until time.Time
}

// fifo is a queue of followers.
type fifo struct{ q []*follower }

func (q *fifo) push(f *follower) { q.q = append(q.q, f) }

// back puts f behind the first few.
func (q *fifo) back(f *follower) { q.q = slices.Insert(q.q, min(len(q.q), maxWalks-1), f) }

func (q *fifo) pop() *follower {
	if len(q.q) == 0 {
		return nil
	}
	f := q.q[0]
	q.q[0] = nil
	q.q = q.q[1:]
	return f
}

// linkTo returns the link to a peer, made if need be. The caller holds mu.
func (s *Service) linkTo(to peer.ID) *link {
	l := s.links[to]
	if l == nil {
		l = &link{
			s: s, peer: to, followers: map[netip.Prefix]*follower{}, closings: map[netip.Prefix]parting{},
			kick: make(chan struct{}, 1),
		}
		s.links[to] = l
		s.wake()
	}
	return l
}

// queue has a follower looked at by the sender. The caller holds mu.
func (l *link) queue(f *follower, urgent bool) {
	if !l.up {
		return
	}
	if urgent && !f.urgent {
		f.urgent = true
		l.hot.push(f)
	} else if !f.queued {
		l.work.push(f)
	}
	f.queued = true // in one of them, or both
	poke(l.kick)
}

// reopen has a follower opened anew. The caller holds mu.
func (l *link) reopen(f *follower) {
	f.alter(func() { f.walk, f.state = nil, stateIdle })
	l.queue(f, false)
}

// run keeps the link up while anything is to be said on it.
func (l *link) run(ctx context.Context) {
	wait := l.s.cfg.Redial
	for l.wanted() {
		begun := time.Now()
		err := l.session(ctx)
		l.down(err)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > 2*silence {
			wait = l.s.cfg.Redial
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait + rand.N(wait/2+1)):
		}
		wait = min(2*wait, 10*l.s.cfg.Redial)
	}
}

// wanted says whether the link has any use, and forgets it if not.
func (l *link) wanted() bool {
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
func (l *link) session(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(dialTimeout, func() { cancel(errors.New("dialled for too long")) })
	c, err := wire.Dial(ctx, l.s.cfg.Host, l.peer, upLimits, l.s.cfg.Protocol)
	if !limit.Stop() || err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer c.Reset()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.Reset()
	l.fresh()
	wg.Go(func() {
		for {
			var u up
			if err := c.RecvZ(&u); err != nil {
				cancel(err)
				return
			}
			if err := l.answered(u); err != nil {
				cancel(err)
				return
			}
		}
	})
	if err = l.send(ctx, c); err == nil && ctx.Err() == nil {
		_ = c.CloseWrite()
		<-ctx.Done() // the replica ends it when it has read all
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

// fresh has everything opened on a new stream.
func (l *link) fresh() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.up, l.turn, l.panel = true, 0, ""
	l.hot, l.work, l.walks, l.flight, l.size, l.took = fifo{}, fifo{}, fifo{}, nil, 0, 0
	l.answers, l.echo = 0, 0
	for _, f := range l.followers {
		f.alter(func() {
			f.walk, f.state, f.queued, f.urgent, f.turn, f.err = nil, stateIdle, false, false, 0, nil
		})
		l.queue(f, false)
	}
	poke(l.kick)
}

// down marks the followers of a link that has broken.
func (l *link) down(err error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.up = false
	for _, f := range l.followers {
		f.alter(func() {
			f.walk, f.state, f.queued, f.urgent = nil, stateIdle, false, false
			if f.err == nil || errors.Is(f.err, ErrLink) {
				f.err = fmt.Errorf("%w: %w", ErrLink, err)
			}
		})
	}
}

// send sends what there is until the stream ends, or the link has no use.
func (l *link) send(ctx context.Context, c *wire.Conn) error {
	beat := time.NewTicker(l.s.cfg.Beat)
	defer beat.Stop()
	for ctx.Err() == nil {
		j, due := l.next(), false
		if j.what != jobNone {
			if err := l.do(c, j); err != nil {
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
			case <-l.kick:
				continue
			case <-beat.C:
			}
		}
		if !l.wanted() {
			return nil
		}
		l.retries()
		if err := l.tell(c, down{}); err != nil {
			return err
		}
	}
	return nil
}

// retries opens what is due to be asked for again.
func (l *link) retries() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	now := time.Now()
	for _, f := range l.followers {
		if f.state == stateWaiting && now.After(f.retry) {
			f.again = 0
			l.reopen(f)
		}
	}
}
