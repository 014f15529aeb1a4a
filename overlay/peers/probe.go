package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

const (
	// maxProbeTimeout bounds a probe, including connecting, together with Config.Timeout.
	maxProbeTimeout = 3 * time.Second
	// indirectSlack is how much longer the reply to an indirect probe may take than the probe.
	indirectSlack = 1500 * time.Millisecond
	// successTTL and failureTTL are how long the result of a probe is reused.
	successTTL = time.Second
	failureTTL = 2 * time.Second
	// maxIndirect is how many indirect probes run concurrently.
	maxIndirect = 8
	// maxReply is the maximum size of a probeReply in bytes.
	maxReply = maxSealed + 64
)

var (
	// probeRate limits the probes of a peer. An honest peer sends one a second for itself, and a
	// burst of indirect ones if several peers fail at the same time.
	probeRate = wire.Rate{PerSecond: 8, Burst: 64, TotalFactor: 64}
	// indirectRate limits those of them that this peer passes on.
	indirectRate = wire.Rate{PerSecond: 2, Burst: 16, TotalFactor: 8}
)

var (
	errNoBeacon      = errors.New("peers: reply without beacon")
	errTooManyProbes = errors.New("peers: too many probe requests")
)

// probeRequest asks the receiver whether it is there (no Target), or whether it reaches Target.
// The receiver probes only peers in its own directory, at the addresses they have signed.
type probeRequest struct {
	Target peer.ID `cbor:"1,keyasint,omitempty"`
}

// probeReply is the reply to a probeRequest.
type probeReply struct {
	// Reached means that the target has just answered.
	Reached bool `cbor:"1,keyasint,omitempty"`
	// Busy means that the target was not probed.
	Busy bool `cbor:"2,keyasint,omitempty"`
	// Latest is the beacon of the target if it was reached.
	Latest *RelayedBeacon `cbor:"3,keyasint,omitempty"`
}

// probe is one attempt to get an answer from a peer. Concurrent callers share it.
type probe struct {
	done  chan struct{}
	ended time.Time // guarded by peerStates.mu; zero while in progress
	err   error     // written before done is closed
}

func (p *probe) fresh(now time.Time) bool {
	switch {
	case p == nil:
		return false
	case p.ended.IsZero():
		return true
	case p.err == nil:
		return now.Sub(p.ended) < successTTL
	}
	return now.Sub(p.ended) < failureTTL
}

// probe asks p for a reply, or uses the result of a recent probe. It returns nil if p replied.
// A reply is recorded in the directory.
func (k *checker) probe(ctx context.Context, p peer.ID) error {
	k.states.mu.Lock()
	st := k.states.of(p)
	if last := st.probe; last.fresh(time.Now()) {
		k.states.mu.Unlock()
		select {
		case <-last.done:
			return last.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	current := &probe{done: make(chan struct{})}
	st.probe = current
	k.states.mu.Unlock()

	begin := time.Now()
	err := k.reach(ctx, p)
	if err != nil && ctx.Err() == nil {
		k.dir.miss(p, begin)
	}
	k.states.mu.Lock()
	current.err, current.ended = err, time.Now()
	k.states.mu.Unlock()
	close(current.done)
	return err
}

func (k *checker) probeTimeout() time.Duration { return min(maxProbeTimeout, k.cfg.Timeout) }

// reach connects to p if necessary and waits for its reply.
func (k *checker) reach(ctx context.Context, p peer.ID) error {
	b, ok := k.dir.Get(p)
	if !ok {
		return fmt.Errorf("%w: %s is not present", ErrTime, p)
	}
	ctx, cancel := context.WithTimeout(ctx, k.probeTimeout())
	defer cancel()
	if !wire.Connected(k.cfg.Host, p) {
		if err := k.connect(ctx, b.Info()); err != nil {
			return err
		}
	}
	reply, err := k.sendProbe(ctx, p, hello{Beacon: k.self.sealed(), Probe: &probeRequest{}},
		k.probeTimeout())
	if err != nil {
		return err
	}
	if reply.Latest == nil {
		return errNoBeacon
	}
	if err := k.intake.addOwnBeacon(p, reply.Latest.Sealed); err != nil {
		return err
	}
	k.dir.Touch(p)
	return nil
}

// sendProbe sends one message and waits for the reply.
func (k *checker) sendProbe(
	ctx context.Context, p peer.ID, q hello, wait time.Duration,
) (reply probeReply, err error) {
	err = wire.Ask(network.WithNoDial(ctx, "check"), k.cfg.Host, p,
		wire.Limits{MaxMsg: maxReply, Timeout: wait}, k.cfg.Protocol, q, &reply)
	return reply, err
}

// probeThrough asks several peers concurrently whether they reach p. It returns how many have
// tried and whether any has reached p.
func (k *checker) probeThrough(
	ctx context.Context, helpers []peer.ID, p peer.ID,
) (answered int, reached bool) {
	wait := k.probeTimeout() + indirectSlack
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	replies := make([]probeReply, len(helpers))
	errs := make([]error, len(helpers))
	var g sync.WaitGroup
	for i, h := range helpers {
		g.Go(func() {
			replies[i], errs[i] = k.sendProbe(ctx, h, hello{Probe: &probeRequest{Target: p}}, wait)
			if replies[i].Reached {
				cancel() // one positive reply is enough
			}
		})
	}
	g.Wait()
	for i, r := range replies {
		if reached = reached || r.Reached; r.Reached && r.Latest != nil {
			// usually known; if it is invalid, the reply still counts
			_ = k.intake.addBeacon(helpers[i], *r.Latest)
		}
	}
	for i, err := range errs {
		switch {
		case reached:
		case err != nil:
			k.requestCheck(helpers[i], false)
		case !replies[i].Busy:
			k.dir.Touch(helpers[i])
			answered++
		}
	}
	return answered, reached
}

// answerProbe replies to a probeRequest.
func (k *checker) answerProbe(ctx context.Context, c *wire.Conn, first hello) error {
	if !k.probeLimiter.Allow(probeRate, c.Peer(), time.Now()) {
		return fmt.Errorf("%w: of %s", errTooManyProbes, c.Peer())
	}
	if len(first.Beacon) > 0 {
		if err := k.intake.addOwnBeacon(c.Peer(), first.Beacon); err != nil {
			return err
		}
	}
	k.dir.Touch(c.Peer())
	p := first.Probe.Target
	if p == "" || p == k.cfg.Host.ID() {
		return c.Send(probeReply{Reached: true, Latest: &RelayedBeacon{Sealed: k.self.sealed()}})
	}
	err := k.probeForPeer(ctx, c.Peer(), p)
	if err != nil {
		return c.Send(probeReply{Busy: errors.Is(err, errTooManyProbes)})
	}
	answer := probeReply{Reached: true}
	if latest, ok := k.dir.Relayed(p); ok {
		answer.Latest = &latest
	}
	return c.Send(answer)
}

// probeForPeer probes p at the request of the peer from. If p does not reply, this peer checks
// p as well.
func (k *checker) probeForPeer(ctx context.Context, from, p peer.ID) error {
	if _, ok := k.dir.Get(p); !ok || k.dir.Hearsay(p) {
		return fmt.Errorf("%w: %s is not present", ErrTime, p)
	}
	if !k.indirectLimiter.Allow(indirectRate, from, time.Now()) || !k.indirect.TryAcquire(1) {
		return errTooManyProbes
	}
	defer k.indirect.Release(1)
	err := k.probe(ctx, p)
	if err != nil {
		k.requestCheck(p, false)
	}
	return err
}
