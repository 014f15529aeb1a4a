package witness

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/peer"
)

// talk sends one heartbeat, and more at once as long as there are notices left.
func (s *Service) talk(ctx context.Context, p peer.ID) {
	var err error
	for again := true; again && err == nil; {
		again, err = s.exchange(ctx, p)
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.busy[p]; b != nil {
		b.running = false
		if err != nil { // soon again: three in a row must not fail
			b.next = now.Add(s.cfg.Interval / 5)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug("no answer from a witness", "peer", p, "err", err)
	}
}

// exchange sends one heartbeat and takes its answer. again says that the next
// should follow at once.
func (s *Service) exchange(ctx context.Context, p peer.ID) (again bool, err error) {
	s.mu.Lock()
	b := s.holder.beat(p)
	s.mu.Unlock()
	sent := s.now()
	r, err := s.link.call(ctx, p, request{Beat: &b})
	if err != nil {
		return false, err
	}
	if r.Ack == nil {
		return false, ErrMessage
	}
	if err := r.Ack.check(); err != nil {
		return false, err
	}
	if err := s.revoked(ctx, p, r.Ack.Notices); err != nil {
		return false, err
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder.acked(now, p, sent, *r.Ack)
	s.settle(now)
	return r.Ack.More, nil
}

// revoked tells of votes before the answer that brought them counts.
func (s *Service) revoked(ctx context.Context, by peer.ID, notices []notice) error {
	if len(notices) == 0 || s.cfg.Revoked == nil {
		return nil
	}
	list := make([]Revocation, len(notices))
	for i, n := range notices {
		list[i] = Revocation{by, n.Subnet, n.Epoch, n.To}
	}
	s.log.Info("subnets were voted away", "by", by, "subnets", len(list))
	return s.cfg.Revoked(ctx, list)
}

// handle answers a request of from.
func (s *Service) handle(ctx context.Context, from peer.ID, r request) (reply, error) {
	switch {
	case r.Beat != nil && r.Ask == nil && r.Show == nil:
		return s.onBeat(ctx, from, *r.Beat)
	case r.Beat != nil || (r.Ask == nil) == (r.Show == nil):
		return reply{}, ErrMessage
	case !s.asks.Allow(askRate, from, s.now()):
		return reply{}, errors.New("witness: asks too often")
	case r.Show != nil:
		a := s.onShow(*r.Show)
		return reply{Shown: &a}, nil
	}
	a, err := s.onAsk(ctx, from, *r.Ask)
	return reply{Answer: &a}, err
}

func (s *Service) onBeat(ctx context.Context, owner peer.ID, b beat) (reply, error) {
	now := s.now()
	s.mu.Lock()
	a, err := s.guard.beat(now, owner, b)
	durable := err != nil || s.guard.wards[owner].durable || a.Known == 0
	s.mu.Unlock()
	if err == nil && !durable {
		err = s.disk.save(ctx, panelKey(owner))
	}
	return reply{Ack: &a}, err
}
