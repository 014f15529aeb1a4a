package overlay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"peerd/internal/backoff"
)

const (
	// refusedRetryMin and refusedRetryMax bound the pause before a peer is tried again
	// that is not of this network, or has not the ID that its address names: only its
	// operator, or this peer's, can change that.
	refusedRetryMin = 30 * time.Second
	refusedRetryMax = 10 * time.Minute
	// closeDelay is how long the connection to a peer of another network is kept, so
	// that both ends identify each other and both can report it.
	closeDelay = time.Second
	// maxRefused is how many such peers are remembered.
	maxRefused = 256
	// warnEvery and maxWarnings bound the warnings about such peers: one in warnEvery, and
	// maxWarnings at once. Keys are free, and each peer is a new one.
	warnEvery, maxWarnings = 10 * time.Second, 16
)

// refusals remembers peers that cannot be members, and backs off from them. The zero
// value is ready; its methods are safe for concurrent use.
type refusals struct {
	mu       sync.Mutex
	all      map[peer.ID]*refusal
	warnings *rate.Limiter // nil: there was none
}

type refusal struct {
	tries   int
	next    time.Time // no attempt before
	logged  bool
	closing bool // its connection is about to be closed
}

// add backs off from p, longer each time.
func (r *refusals) add(p peer.ID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.get(p)
	x.tries++
	x.next = now.Add(backoff.Jitter(backoff.Double(refusedRetryMin, refusedRetryMax, x.tries-1)))
}

// get returns the entry of p, made if need be. The caller holds mu.
func (r *refusals) get(p peer.ID) *refusal {
	if x := r.all[p]; x != nil {
		return x
	}
	if r.all == nil {
		r.all = make(map[peer.ID]*refusal)
	}
	if len(r.all) >= maxRefused {
		var first peer.ID
		for q, x := range r.all {
			if first == "" || x.next.Before(r.all[first].next) {
				first = q
			}
		}
		delete(r.all, first)
	}
	x := &refusal{}
	r.all[p] = x
	return x
}

// remove forgets p, which has become a member.
func (r *refusals) remove(p peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, p)
}

// next returns when p may be tried again; the zero time is at once.
func (r *refusals) next(p peer.ID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.all[p]; x != nil {
		return x.next
	}
	return time.Time{}
}

// begin notes that the connection to p is about to be closed. ok is false if it was
// before; first says that p is to be logged: it was not yet, and there were not too many others.
func (r *refusals) begin(p peer.ID) (ok, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.get(p)
	if x.closing {
		return false, false
	}
	if r.warnings == nil {
		r.warnings = rate.NewLimiter(rate.Every(warnEvery), maxWarnings)
	}
	first = !x.logged && r.warnings.Allow()
	x.closing, x.logged = true, true
	return true, first
}

func (r *refusals) end(p peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.all[p]; x != nil {
		x.closing = false
	}
}

// runRefuse disconnects peers that connect to this one and are of other networks, or not
// admitted to this one, until ctx ends.
func (n *Net) runRefuse(ctx context.Context) error {
	sub, err := n.Host.EventBus().Subscribe(&event.EvtPeerIdentificationCompleted{})
	if err != nil {
		return err
	}
	defer sub.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	check := func(p peer.ID) {
		if other := n.otherNetwork(p); other != "" {
			wg.Go(func() { _ = n.refuseOther(ctx, p, other) })
		} else if n.members != nil && n.ofNetwork(p) {
			wg.Go(func() { _ = n.admit(ctx, p) }) // it tries again when there is a stream to open
		}
	}
	for _, p := range n.Host.Network().Peers() { // identified before
		check(p)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-sub.Out():
			if !ok {
				return nil
			}
			check(e.(event.EvtPeerIdentificationCompleted).Peer)
		}
	}
}

// refuseOther refuses p, which belongs to another network, and returns why.
func (n *Net) refuseOther(ctx context.Context, p peer.ID, other string) error {
	err := otherNetworkError(other)
	n.refuse(ctx, p, err, "peer belongs to another network; check --profile at both peers",
		"network", other, "want", n.Names.Network())
	return err
}

// refuse backs off from p for the reason err, logs msg once, and closes the connection after
// closeDelay.
func (n *Net) refuse(ctx context.Context, p peer.ID, err error, msg string, attrs ...any) {
	ok, first := n.refused.begin(p)
	if !ok {
		return
	}
	defer n.refused.end(p)
	now := time.Now()
	n.refused.add(p, now)
	for _, b := range n.cfg.Bootstrap {
		if b.ID == p { // the attempt itself may only see the connection end
			n.attempts.record(n.log, b, err, now, n.refused.next(p))
		}
	}
	if first {
		n.log.Warn(msg, append([]any{"peer", p}, attrs...)...)
	}
	_ = backoff.Sleep(ctx, closeDelay)
	_ = n.Host.Network().ClosePeer(p)
}

func otherNetworkError(name string) error {
	return fmt.Errorf("%w: it belongs to %s; check --profile", ErrOtherNetwork, name)
}

// otherNetwork returns the network of p, if it has identified itself as a member of
// another one than this; otherwise "". What cannot name a network is not repeated in logs.
func (n *Net) otherNetwork(p peer.ID) string {
	protocols, err := n.Host.Peerstore().GetProtocols(p)
	if err != nil || n.member(p) {
		return ""
	}
	for _, proto := range protocols {
		name, ok := strings.CutPrefix(string(proto), "/peerd/")
		if !ok {
			continue
		}
		name, ok = strings.CutSuffix(name, dhtSuffix)
		if _, err := NewNames(name); ok && err == nil && name != n.Names.Network() {
			return name
		}
	}
	return ""
}
