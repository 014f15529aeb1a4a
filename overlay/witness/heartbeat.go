package witness

import (
	"context"
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"
)

// maxInARow is how many heartbeats are sent at once: a witness gives no more votes against one
// owner than so many acknowledgements have room for.
const maxInARow = maxVotesOfOwner/maxNotices + 1

// sendHeartbeats sends a heartbeat, and more at once as long as there are more notices. A witness
// that has more than it may give is replaced.
func (s *Service) sendHeartbeats(ctx context.Context, p peer.ID) {
	var err error
	n := 0
	for again := true; again && err == nil; n++ {
		if n == maxInARow {
			err = fmt.Errorf("%w: more than %d votes", ErrMessage, maxVotesOfOwner)
			s.Strike(p)
			s.log.Warn("replacing witness that tells of votes without end", "witness", p)
			break
		}
		again, err = s.sendHeartbeat(ctx, p)
	}
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.heartbeats[p]; b != nil {
		b.running = false
		if err != nil {
			b.failed, b.at = true, now
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug("no reply from witness", "peer", p, "err", err)
	}
}

// sendHeartbeat sends one heartbeat and handles the acknowledgement. again means that
// the next one should follow at once.
func (s *Service) sendHeartbeat(ctx context.Context, p peer.ID) (again bool, err error) {
	s.mu.Lock()
	b := s.owner.heartbeat(p)
	s.mu.Unlock()
	sent := s.clock.Now()
	r, err := s.transport.call(ctx, p, request{Heartbeat: &b})
	if err != nil {
		return false, err
	}
	if r.Ack == nil {
		return false, ErrMessage
	}
	if err := r.Ack.check(); err != nil {
		return false, err
	}
	if err := s.reportRevoked(ctx, p, r.Ack.Notices); err != nil {
		return false, err
	}
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner.onAck(now, p, sent, *r.Ack)
	s.update(now)
	return r.Ack.More, nil
}

// reportRevoked passes on votes before the acknowledgement that brought them counts.
func (s *Service) reportRevoked(ctx context.Context, by peer.ID, notices []notice) error {
	if len(notices) == 0 {
		return nil
	}
	list := make([]Revocation, len(notices))
	for i, n := range notices {
		list[i] = Revocation{by, n.Subnet, n.Epoch, n.To}
	}
	s.log.Info("lost subnets by votes of a witness", "by", by, "subnets", len(list))
	return s.cfg.Node.Revoked(ctx, list)
}

// handle answers a request.
func (s *Service) handle(ctx context.Context, from peer.ID, r request) (reply, error) {
	switch {
	case r.Heartbeat != nil && r.Vote == nil && r.SetQuery == nil:
		return s.onHeartbeat(ctx, from, *r.Heartbeat)
	case r.Heartbeat != nil || (r.Vote == nil) == (r.SetQuery == nil):
		return reply{}, ErrMessage
	case !s.limiter.Allow(voteRate, from, s.clock.Now()):
		return reply{}, errors.New("witness: too many requests")
	case r.SetQuery != nil:
		a := s.onSetQuery(*r.SetQuery)
		return reply{Set: &a}, nil
	}
	a, err := s.onVoteRequest(ctx, from, *r.Vote)
	return reply{Vote: &a}, err
}

func (s *Service) onHeartbeat(ctx context.Context, owner peer.ID, b heartbeat) (reply, error) {
	now, prefix := s.clock.Now(), s.transport.prefixOf(owner)
	s.mu.Lock()
	a, err := s.witness.onHeartbeat(now, owner, prefix, b)
	durable := err != nil || s.witness.watched[owner].durable || a.Known == 0
	s.mu.Unlock()
	if err == nil && !durable {
		err = s.writer.save(ctx, setKey(owner))
	}
	return reply{Ack: &a}, err
}
