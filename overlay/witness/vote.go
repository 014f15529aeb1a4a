package witness

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// onVoteRequest answers a candidate. Votes are on disk before they are sent.
func (s *Service) onVoteRequest(ctx context.Context, to peer.ID, a voteRequest) (voteReply, error) {
	if err := checkProposals(a.Proposals); err != nil {
		return voteReply{}, err
	}
	p, err := openSet(s.cfg.Network, a.Set)
	if err != nil {
		return voteReply{}, err
	}
	if a.Release {
		return s.onRelease(ctx, to, p.Owner, a)
	}
	now := s.clock.Now()
	s.mu.Lock()
	status, granted, newer := s.witness.vote(now, to, p, a.Set, a.Proposals, a.Attempt)
	s.mu.Unlock()
	if status != statusVoted {
		return voteReply{Status: status, Set: newer}, nil
	}
	keys := []string{setKey(p.Owner)}
	for i, st := range a.Proposals {
		if granted[i] {
			keys = append(keys, voteKey(p.Owner, st.Subnet))
		}
	}
	if err := s.writer.save(ctx, keys...); err != nil {
		return voteReply{}, err
	}
	r := voteReply{Status: statusVoted, Votes: make([][]byte, len(a.Proposals))}
	for i, st := range a.Proposals {
		if !granted[i] {
			continue
		}
		r.Votes[i], err = lease.SealVote(lease.Vote{
			Voter: s.self, Subnet: st.Subnet, Epoch: st.Epoch, From: p.Owner, To: to, SetSeq: p.Seq,
			Ended: st.Ended, Issued: now,
		}, s.cfg.Key)
		if err != nil {
			return voteReply{}, err
		}
	}
	return r, nil
}

// onRelease deletes votes that the candidate does not use.
func (s *Service) onRelease(
	ctx context.Context, to, owner peer.ID, a voteRequest,
) (voteReply, error) {
	s.mu.Lock()
	gone := s.witness.release(to, owner, a.Proposals, a.Attempt)
	s.mu.Unlock()
	var keys []string
	for _, subnet := range gone {
		keys = append(keys, voteKey(owner, subnet))
	}
	if len(keys) == 0 {
		return voteReply{Status: statusReleased}, nil
	}
	return voteReply{Status: statusReleased}, s.writer.save(ctx, keys...)
}

// sweep deletes votes that are not needed any more, on disk too.
func (s *Service) sweep(ctx context.Context, now time.Time) {
	s.mu.Lock()
	gone, forgotten := s.witness.expire(now)
	s.mu.Unlock()
	var keys []string
	for _, owner := range forgotten {
		keys = append(keys, setKey(owner))
	}
	for owner, subnets := range gone {
		for _, subnet := range subnets {
			keys = append(keys, voteKey(owner, subnet))
		}
	}
	if len(keys) == 0 {
		return
	}
	if err := s.writer.save(ctx, keys...); err != nil && ctx.Err() == nil {
		// They are read again after a restart.
		s.log.Warn("failed to delete votes", "err", err)
	}
}

// VotesFrom returns the time from which on this peer votes, by its own clock: the
// promises of its last incarnation, which it does not know, have ended by then.
func (s *Service) VotesFrom() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.witness.votesFrom
}
