package witness

import (
	"context"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// onAsk answers a candidate: its votes are on the disk before they leave.
func (s *Service) onAsk(ctx context.Context, to peer.ID, a ask) (answer, error) {
	if err := checkSteps(a.Steps); err != nil {
		return answer{}, err
	}
	p, err := lease.OpenPanel(a.Panel)
	if err != nil {
		return answer{}, err
	}
	if a.Drop {
		return s.onDrop(ctx, to, p.Owner, a)
	}
	now := s.now()
	s.mu.Lock()
	v, yes, known := s.guard.vote(now, to, p, a.Panel, a.Steps, a.Try)
	s.mu.Unlock()
	if v != votes {
		return answer{Verdict: v, Panel: known}, nil
	}
	keys := []string{panelKey(p.Owner)}
	for i, st := range a.Steps {
		if yes[i] {
			keys = append(keys, ballotKey(p.Owner, st.Subnet))
		}
	}
	if err := s.disk.save(ctx, keys...); err != nil {
		return answer{}, err
	}
	r := answer{Verdict: votes, Votes: make([][]byte, len(a.Steps))}
	for i, st := range a.Steps {
		if !yes[i] {
			continue
		}
		r.Votes[i], err = lease.SealVote(lease.Vote{
			Voter: s.self, Subnet: st.Subnet, Epoch: st.Epoch, From: p.Owner, To: to, PanelSeq: p.Seq, Issued: now,
		}, s.cfg.Key)
		if err != nil {
			return answer{}, err
		}
	}
	return r, nil
}

// onDrop takes votes back that the candidate does not use.
func (s *Service) onDrop(ctx context.Context, to, owner peer.ID, a ask) (answer, error) {
	s.mu.Lock()
	gone := s.guard.drop(to, owner, a.Steps, a.Try)
	s.mu.Unlock()
	var keys []string
	for _, subnet := range gone {
		keys = append(keys, ballotKey(owner, subnet))
	}
	if len(keys) == 0 {
		return answer{Verdict: dropped}, nil
	}
	return answer{Verdict: dropped}, s.disk.save(ctx, keys...)
}

// Settled tells that this step's outcome is known, so that a vote of this peer for
// it need not be kept: the old owner has learnt of it or is gone for good.
func (s *Service) Settled(subnet netip.Prefix, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guard.settled(subnet, epoch)
}

// sweep forgets what is not needed any more, on the disk too.
func (s *Service) sweep(ctx context.Context, now time.Time) {
	s.mu.Lock()
	gone := s.guard.expire(now)
	s.mu.Unlock()
	var keys []string
	for owner, subnets := range gone {
		for _, subnet := range subnets {
			keys = append(keys, ballotKey(owner, subnet))
		}
	}
	if len(keys) == 0 {
		return
	}
	if err := s.disk.save(ctx, keys...); err != nil && ctx.Err() == nil {
		s.log.Warn("forgetting votes failed", "err", err) // they are read again after a restart
	}
}
