package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"peerd/node/admin"
)

// drainer is what a clean stop asks of owner.Manager: Drain hands every subnet
// that this peer owns to another peer, takes none any more from then on, and
// returns nil when it owns none. An error says why some are still ours: nobody
// takes them, or ctx has ended. What is left is as after any other stop.
type drainer interface {
	Drain(ctx context.Context) error
}

// The paces of a drain.
const (
	drainLook = 100 * time.Millisecond
	// drainStill is how long the URLs that wait for other peers may not become
	// fewer before a peer that owns nothing any more stops waiting for them.
	drainStill = 10 * time.Second
)

// leaving is a clean stop that hands everything over first. It is begun once, by
// StopDrained, and carried through by Run.
type leaving struct {
	once    sync.Once
	begun   chan struct{} // closed by the first StopDrained
	over    chan struct{} // closed when nothing more is handed over
	end     sync.Once     // of over
	limit   time.Duration // set before begun is closed
	by      drainer       // nil: the Manager
	owned   atomic.Int64  // subnets at the begin, and later ones
	errands atomic.Int64  // under way for other peers

	mu    sync.Mutex
	fault string
}

func newLeaving() *leaving { return &leaving{begun: make(chan struct{}), over: make(chan struct{})} }

// on says whether the stop was begun: no more work is taken then.
func (l *leaving) on() bool {
	select {
	case <-l.begun:
		return true
	default:
		return false
	}
}

// finish says that nothing more is handed over.
func (l *leaving) finish() { l.end.Do(func() { close(l.over) }) }

// errand counts one that another peer asked for, until done is called; false if
// none is taken any more. One that was counted is waited for.
func (l *leaving) errand() (done func(), ok bool) {
	l.errands.Add(1)
	done = func() { l.errands.Add(-1) }
	if l.on() {
		done()
		return nil, false
	}
	return done, true
}

// StopDrained asks for a clean stop that hands everything over first, for at most
// limit, and returns at once. Only the first call counts; Stop cuts it short.
func (n *Node) StopDrained(limit time.Duration) {
	n.leave.once.Do(func() {
		n.leave.limit = limit
		close(n.leave.begun)
	})
}

// Leave is StopDrained, and tells how far it is, now and then, until nothing more
// is handed over or ctx ends: the stop goes on then.
func (n *Node) Leave(ctx context.Context, limit time.Duration, tell func(admin.Drain) error) error {
	n.StopDrained(limit)
	t := time.NewTicker(drainLook)
	defer t.Stop()
	var said admin.Drain
	for first := true; ; first = false {
		over := false
		select {
		case <-n.leave.over:
			over = true
		default:
		}
		d := n.drained(over)
		if d != said || first {
			if err := tell(d); err != nil {
				return err
			}
			said = d
		}
		if over {
			return nil
		}
		select {
		case <-n.leave.over:
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drained says how far it is.
func (n *Node) drained(over bool) admin.Drain {
	fwd := n.forwarder.Stats()
	owned := int64(len(n.manager.List()))
	d := admin.Drain{Left: owned, URLs: fwd.Outbox + fwd.Nursery, Over: over}
	d.Subnets = max(n.leave.owned.Load(), owned)
	n.leave.mu.Lock()
	defer n.leave.mu.Unlock()
	d.Fault = n.leave.fault
	return d
}

// drain hands everything over, as long as it may take. It returns early after
// Stop, and when ctx ends.
func (n *Node) drain(ctx context.Context, d drainer) {
	ctx, cancel := context.WithTimeout(ctx, n.leave.limit)
	defer cancel()
	watched := make(chan struct{})
	defer func() { cancel(); <-watched }()
	go func() {
		defer close(watched)
		select {
		case <-n.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	n.leave.owned.Store(int64(len(n.manager.List())))
	n.log.Info("everything is handed over before the stop", "subnets", n.leave.owned.Load(), "limit", n.leave.limit)
	err := n.emptied(ctx, d)
	at := n.drained(true)
	if err != nil {
		n.leave.mu.Lock()
		n.leave.fault = err.Error()
		n.leave.mu.Unlock()
		n.log.Warn("stopping although not everything is handed over", "subnets", at.Left, "urls", at.URLs, "err", err)
		return
	}
	n.log.Info("everything is handed over", "subnets", at.Subnets)
}

// emptied returns nil when this peer owns nothing, no URL waits here for another
// peer, and nothing is being fetched at another's request.
func (n *Node) emptied(ctx context.Context, d drainer) error {
	if n.peers.Directory().Len() == 0 {
		return errors.New("no other peer is known")
	}
	t := time.NewTicker(drainLook)
	defer t.Stop()
	least, since := int64(-1), time.Now()
	for {
		if err := d.Drain(ctx); err != nil {
			return err
		}
		at := n.drained(false)
		waiting := at.URLs + n.leave.errands.Load()
		if at.Left == 0 && waiting == 0 {
			return nil
		}
		if least < 0 || waiting < least {
			least, since = waiting, time.Now()
		}
		if at.Left == 0 && time.Since(since) > drainStill {
			return fmt.Errorf("%d URLs of subnets that nobody takes wait here", at.URLs)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// drainAll is what Run does after StopDrained.
func (n *Node) drainAll(ctx context.Context) {
	var d drainer = n.manager
	if n.leave.by != nil {
		d = n.leave.by
	}
	n.drain(ctx, d)
}
