package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"peerd/overlay/wire"
)

const (
	// probeMost bounds a probe, connecting included, besides Config.Timeout.
	probeMost = 3 * time.Second
	// askMore is how much longer an answer may take than the probe it is about.
	askMore = 1500 * time.Millisecond
	// goodFor and badFor are how long what a probe has shown is taken for true
	// without another one.
	goodFor = time.Second
	badFor  = 2 * time.Second
	// maxFavours is how many probes are made at a time because others ask.
	maxFavours = 8
	// maxReply bounds a reply. Bytes.
	maxReply = maxSealed + 64
)

// favourRate is how often others may ask for a third peer: some at once when
// several have died.
var favourRate = wire.Rate{PerSecond: 2, AtOnce: 16, Together: 8}

var (
	errSilent = errors.New("peers: no answer")
	errBusy   = errors.New("peers: asked too much")
)

// ask wants to hear whether the one asked is there, or of a third peer: whether
// he reaches it. He tries only peers of his own directory, at the addresses that
// they have signed.
type ask struct {
	Target peer.ID `cbor:"1,keyasint,omitempty"`
}

// said answers.
type said struct {
	// Reached says that the target has answered just now.
	Reached bool `cbor:"1,keyasint,omitempty"`
	// Busy says that it was not tried.
	Busy bool `cbor:"2,keyasint,omitempty"`
	// Latest is the target's beacon, if it was reached.
	Latest *Aged `cbor:"3,keyasint,omitempty"`
}

// probe is one attempt to have an answer of a peer, which all share who want
// one at the same time.
type probe struct {
	done  chan struct{}
	ended time.Time // Service.mu guards it; zero: under way
	err   error     // written before done is closed
}

func (p *probe) fresh(now time.Time) bool {
	switch {
	case p == nil:
		return false
	case p.ended.IsZero():
		return true
	case p.err == nil:
		return now.Sub(p.ended) < goodFor
	}
	return now.Sub(p.ended) < badFor
}

// probe has p answer, or returns why it does not. A success is noted in the
// directory.
func (s *Service) probe(ctx context.Context, p peer.ID) error {
	s.mu.Lock()
	l := s.link(p)
	if last := l.probe; last.fresh(time.Now()) {
		s.mu.Unlock()
		select {
		case <-last.done:
			return last.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	mine := &probe{done: make(chan struct{})}
	l.probe = mine
	s.mu.Unlock()

	begin := time.Now()
	err := s.reach(ctx, p)
	s.mu.Lock()
	mine.err, mine.ended = err, time.Now()
	if err != nil && ctx.Err() == nil {
		l.missed = begin
	}
	s.mu.Unlock()
	close(mine.done)
	return err
}

func (s *Service) probeTimeout() time.Duration { return min(probeMost, s.cfg.Timeout) }

// reach connects to p if need be and has it answer.
func (s *Service) reach(ctx context.Context, p peer.ID) error {
	b, ok := s.dir.Get(p)
	if !ok {
		return fmt.Errorf("%w: %s is not present", ErrTime, p)
	}
	ctx, cancel := context.WithTimeout(ctx, s.probeTimeout())
	defer cancel()
	if s.cfg.Host.Network().Connectedness(p) != network.Connected {
		if err := s.connect(ctx, b.Info()); err != nil {
			return err
		}
	}
	reply, err := s.question(ctx, p, hello{Beacon: s.sealed(), Ask: &ask{}}, s.probeTimeout())
	if err != nil {
		return err
	}
	if reply.Latest == nil {
		return errSilent
	}
	if err := s.take(reply.Latest.Sealed, 0); err != nil && !errors.Is(err, ErrKnown) {
		return err
	}
	s.dir.Touch(p)
	return nil
}

// connect connects to a peer. The pauses between attempts are ours; the
// library's, up to minutes, would outlast a partition.
func (s *Service) connect(ctx context.Context, info peer.AddrInfo) error {
	if sw, ok := s.cfg.Host.Network().(*swarm.Swarm); ok {
		sw.Backoff().Clear(info.ID)
	}
	return s.cfg.Host.Connect(ctx, info)
}

// question sends one message and waits for the reply.
func (s *Service) question(ctx context.Context, p peer.ID, q hello, wait time.Duration) (reply said, err error) {
	c, err := wire.Dial(network.WithNoDial(ctx, "check"), s.cfg.Host, p, wire.Limits{MaxMsg: maxReply, Timeout: wait}, s.cfg.Protocol)
	if err != nil {
		return said{}, err
	}
	defer func() { c.End(err) }()
	if err := c.Send(q); err != nil {
		return said{}, err
	}
	return reply, c.Recv(&reply)
}

// askAll asks several at once whether they reach p: how many have tried, and
// whether any of them does.
func (s *Service) askAll(ctx context.Context, whom []peer.ID, p peer.ID) (answered int, reached bool) {
	wait := s.probeTimeout() + askMore
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	replies := make([]said, len(whom))
	errs := make([]error, len(whom))
	var g sync.WaitGroup
	for i, h := range whom {
		g.Go(func() {
			replies[i], errs[i] = s.question(ctx, h, hello{Ask: &ask{Target: p}}, wait)
			if replies[i].Reached {
				cancel() // nobody else need say so
			}
		})
	}
	g.Wait()
	for _, r := range replies {
		if reached = reached || r.Reached; r.Reached && r.Latest != nil {
			_ = s.take(r.Latest.Sealed, r.Latest.age()) // mostly known; if it is bad, the answer still counts
		}
	}
	for i, err := range errs {
		switch {
		case reached:
		case err != nil:
			s.Doubt(whom[i])
		case !replies[i].Busy:
			s.dir.Touch(whom[i])
			answered++
		}
	}
	return answered, reached
}

// reply answers an ask.
func (s *Service) reply(ctx context.Context, c *wire.Conn, hi hello) error {
	if len(hi.Beacon) > 0 {
		if err := s.take(hi.Beacon, 0); err != nil && !errors.Is(err, ErrKnown) {
			return fmt.Errorf("peers: beacon of %s: %w", c.Peer(), err)
		}
	}
	s.dir.Touch(c.Peer())
	p := hi.Ask.Target
	if p == "" || p == s.cfg.Host.ID() {
		return c.Send(said{Reached: true, Latest: &Aged{Sealed: s.sealed()}})
	}
	err := s.favour(ctx, c.Peer(), p)
	if err != nil {
		return c.Send(said{Busy: errors.Is(err, errBusy)})
	}
	answer := said{Reached: true}
	if latest, ok := s.dir.Passed(p); ok {
		answer.Latest = &latest
	}
	return c.Send(answer)
}

// favour probes p for somebody else. Who has lost p here has reason to doubt it,
// too.
func (s *Service) favour(ctx context.Context, from, p peer.ID) error {
	if _, ok := s.dir.Get(p); !ok {
		return fmt.Errorf("%w: %s is not present", ErrTime, p)
	}
	if !s.asked.Allow(favourRate, from, time.Now()) || !s.favours.take() {
		return errBusy
	}
	defer func() { <-s.favours }()
	err := s.probe(ctx, p)
	if err != nil {
		s.Doubt(p)
	}
	return err
}
