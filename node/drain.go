package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"peerd/internal/backoff"
	"peerd/node/admin"
	"peerd/overlay/owner"
	"peerd/store"
)

const (
	drainPoll = 100 * time.Millisecond
	// drainReport is the longest time between two progress reports.
	drainReport = time.Second
	// drainStall is how long the number of pending URLs may stay the same before a peer
	// that owns no subnet any more stops waiting for them.
	drainStall = 10 * time.Second
	// peerCheckInterval is the time between two checks of whether the other peers are
	// alive, and maxPeerChecks the largest directory that is checked: of more peers at
	// least one is alive.
	peerCheckInterval = 5 * time.Second
	maxPeerChecks     = 16
	// noPeersTimeout is how long the directory must be empty before the drain gives up.
	noPeersTimeout = time.Second
)

// errNoPeers ends a drain that no other peer can take part in.
var errNoPeers = errors.New("no other peer can be reached")

// leaveState is the state of a clean stop that hands everything over first.
// StopDrained starts it and Run carries it out.
type leaveState struct {
	once          sync.Once
	starting      context.Context // ends with the first StopDrained, which calls start
	start         context.CancelFunc
	ended         context.Context // ends when nothing more is handed over, by finish
	finish        context.CancelFunc
	limit         time.Duration               // set before start is called
	drain         func(context.Context) error // owner.Manager.Drain
	total         atomic.Int64                // subnets owned at the start
	remoteFetches atomic.Int64                // under way for other peers

	mu     sync.Mutex
	reason string // why something is left; "": nothing is
}

func newLeaveState() *leaveState {
	l := &leaveState{}
	l.starting, l.start = context.WithCancel(context.Background())
	l.ended, l.finish = context.WithCancel(context.Background())
	return l
}

// started reports whether the stop has started: this peer takes no more work then.
func (l *leaveState) started() bool { return l.starting.Err() != nil }

// startRemoteFetch counts a remote fetch until done is called, so that the stop waits
// for it. It returns false after the start of the stop: the fetch must be refused.
func (l *leaveState) startRemoteFetch() (done func(), ok bool) {
	l.remoteFetches.Add(1)
	done = func() { l.remoteFetches.Add(-1) }
	if l.started() {
		done()
		return nil, false
	}
	return done, true
}

func (l *leaveState) setReason(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason = err.Error()
}

// StopDrained requests a clean stop that first hands everything over, for at most limit,
// and returns at once. Only the first call counts. Stop ends the handover early.
func (n *Node) StopDrained(limit time.Duration) {
	n.leaving.once.Do(func() {
		n.leaving.limit = limit
		n.leaving.start()
	})
}

// Leave calls StopDrained and reports the progress, at least once a second, until
// nothing more is handed over. The stop continues when ctx ends or report fails.
func (n *Node) Leave(
	ctx context.Context, limit time.Duration, report func(admin.Drain) error,
) error {
	n.StopDrained(limit)
	t := time.NewTicker(drainPoll)
	defer t.Stop()
	var last admin.Drain
	var lastAt time.Time
	for {
		cut := ctx.Err() // read first: the end of the peer ends ctx, after done
		done := n.leaving.ended.Err() != nil
		if cut != nil && !done {
			return cut
		}
		d := n.drainProgress(done)
		if d != last || time.Since(lastAt) >= drainReport {
			if err := report(d); err != nil {
				return err
			}
			last, lastAt = d, time.Now()
		}
		if done {
			return nil
		}
		select {
		case <-n.leaving.ended.Done():
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

func (n *Node) drainProgress(done bool) admin.Drain {
	pending := n.outbox.Stats()
	subnets := n.manager.List()
	owned := int64(len(subnets))
	d := admin.Drain{
		Subnets: max(n.leaving.total.Load(), owned), Remaining: owned,
		URLs: pending.Outbox + pending.Unclaimed, Done: done,
	}
	if !done {
		d.HandingOver = firstLeaving(subnets)
	}
	n.leaving.mu.Lock()
	defer n.leaving.mu.Unlock()
	d.Reason = n.leaving.reason
	return d
}

// firstLeaving returns the lowest of the subnets that are being handed over; "" if none is.
func firstLeaving(subnets []owner.Info) string {
	first := netip.Prefix{}
	for _, s := range subnets {
		if s.Phase == store.PhaseCommitting && (!first.IsValid() || s.Prefix.Compare(first) < 0) {
			first = s.Prefix
		}
	}
	if !first.IsValid() {
		return ""
	}
	return first.String()
}

// runDrain hands everything over within the limit of StopDrained. It returns early after
// Stop, when ctx ends, and when no other peer can be reached.
func (n *Node) runDrain(ctx context.Context) {
	ctx, cancelTimeout := context.WithTimeout(ctx, n.leaving.limit)
	defer cancelTimeout()
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { cancel(n.watchDrain(ctx)) })
	defer func() {
		cancel(nil)
		watcher.Wait()
	}()

	n.leaving.total.Store(int64(len(n.manager.List())))
	n.log.Info("started handing everything over before the stop",
		"subnets", n.leaving.total.Load(), "limit", n.leaving.limit)
	err := n.drainUntilEmpty(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errNoPeers) {
		err = errNoPeers
	}
	p := n.drainProgress(true)
	if err != nil {
		n.leaving.setReason(err)
		n.log.Warn("stopped before everything was handed over",
			"subnets", p.Remaining, "urls", p.URLs, "err", err)
		return
	}
	n.log.Info("handed everything over", "subnets", p.Subnets)
}

// watchDrain returns when the drain must end early: after Stop, when ctx ends, or, with
// errNoPeers, when no other peer is alive. It checks the peers itself, because a peer that
// vanished stays in the directory for up to half a minute otherwise.
func (n *Node) watchDrain(ctx context.Context) error {
	t := time.NewTicker(drainPoll)
	defer t.Stop()
	var checked, empty time.Time
	for {
		directory := n.peers.Directory()
		now := time.Now()
		switch known := directory.All(); {
		case len(known) > 0:
			empty = time.Time{}
			if len(known) <= maxPeerChecks && now.Sub(checked) >= peerCheckInterval {
				checked = now
				for _, b := range known {
					n.peers.ReportUnreachable(b.Peer)
				}
			}
		case empty.IsZero():
			empty = now
		case now.Sub(empty) >= noPeersTimeout:
			return errNoPeers
		}
		select {
		case <-n.stop:
			return context.Canceled
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// drainUntilEmpty returns nil when this peer owns no subnet, no URL is pending here, and
// no remote fetch is under way.
func (n *Node) drainUntilEmpty(ctx context.Context) error {
	if n.peers.Directory().Len() == 0 {
		return errNoPeers
	}
	least, since := int64(-1), time.Now()
	for {
		if err := n.leaving.drain(ctx); err != nil {
			return err
		}
		p := n.drainProgress(false)
		pending := p.URLs + n.leaving.remoteFetches.Load()
		if p.Remaining == 0 && pending == 0 {
			return nil
		}
		if least < 0 || pending < least {
			least, since = pending, time.Now()
		}
		if p.Remaining == 0 && time.Since(since) > drainStall {
			return fmt.Errorf("no peer accepts the subnets of %d pending URLs", p.URLs)
		}
		if err := backoff.Sleep(ctx, drainPoll); err != nil {
			return err
		}
	}
}
