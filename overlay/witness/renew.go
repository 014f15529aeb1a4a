package witness

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// renewSet makes a new witness set of chosen if it is time. The set is written to disk before it is
// used.
func (s *Service) renewSet(ctx context.Context, now time.Time, chosen []peer.ID) {
	s.mu.Lock()
	ready := s.owner.ready(now, chosen)
	// The number must exceed those that a lost disk had.
	seq := max(s.owner.newest().Seq+1, uint64(max(now.UnixMilli(), 1)))
	s.mu.Unlock()
	if !ready {
		return
	}
	p := lease.WitnessSet{Network: s.cfg.Network, Owner: s.self, Seq: seq, Members: chosen,
		Issued: now}
	sealed, err := lease.SealWitnessSet(p, s.cfg.Key)
	if err != nil {
		s.log.Error("failed to seal witness set", "err", err)
		return
	}
	s.mu.Lock()
	s.pending = &sealedSet{p, sealed}
	s.mu.Unlock()
	err = s.writer.save(ctx, keyOwn)
	now = s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = nil
	if err != nil { // the number is not used
		if ctx.Err() == nil {
			s.log.Error("failed to write witness set", "err", err)
		}
		return
	}
	s.owner.install(now, sealedSet{p, sealed})
	for _, b := range s.heartbeats {
		b.at = time.Time{}
	}
	s.update(now)
	s.log.Debug("changed witness set", "seq", seq, "members", len(chosen))
}

// saveRetired writes down that sets have ceased to be in force: after a restart they would be, and
// their members may be gone by then. Those that were given up after lease.LongSilence stay in the
// Store until something else is written, because the leases have to be read again after a restart.
func (s *Service) saveRetired(ctx context.Context) {
	s.mu.Lock()
	due := s.retiredStored
	s.retiredStored = false
	s.mu.Unlock()
	if !due || s.writer.save(ctx, keyOwn) == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retiredStored = true // repeated by the next call
}

// rereadLeases calls Node.RereadLeases if that is due; until it has returned there is
// no quorum lease.
func (s *Service) rereadLeases() {
	s.mu.Lock()
	due := s.rereadDue
	if due {
		s.owner.reread()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	s.log.Warn("witnesses have forgotten what they voted; reading leases again")
	s.cfg.Node.RereadLeases()
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rereadDue = false
	s.update(now)
}

// markInitialized records that the Store is in use, from when this peer votes on.
func (s *Service) markInitialized(ctx context.Context, now time.Time) {
	s.mu.Lock()
	due := s.uninitialized && !now.Before(s.witness.votesFrom)
	s.mu.Unlock()
	if !due {
		return
	}
	if err := s.writer.save(ctx, keyInitialized); err != nil {
		return // repeated by the next call
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uninitialized = false
}
