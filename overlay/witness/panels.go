package witness

import (
	"context"
	"time"

	"peerd/overlay/lease"
)

// renew makes a new panel when it is time. It is on the disk before it is shown.
func (s *Service) renew(ctx context.Context, now time.Time) {
	present := s.cfg.Peers()
	s.mu.Lock()
	chosen := s.holder.choose(now, present)
	ready := s.holder.ready(now, chosen)
	seq := max(s.holder.newest().Seq+1, uint64(max(now.UnixMilli(), 1))) // past what a lost disk had
	s.mu.Unlock()
	if !ready {
		return
	}
	p := lease.Panel{Owner: s.self, Seq: seq, Members: chosen, Issued: now}
	sealed, err := lease.SealPanel(p, s.cfg.Key)
	if err != nil {
		s.log.Error("sealing a panel failed", "err", err)
		return
	}
	s.mu.Lock()
	s.pending = &held{p, sealed}
	s.mu.Unlock()
	err = s.disk.save(ctx, keyOwn)
	now = s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = nil
	if err != nil { // a number that is not shown
		if ctx.Err() == nil {
			s.log.Error("writing a panel failed", "err", err)
		}
		return
	}
	s.holder.install(now, held{p, sealed})
	for _, b := range s.busy {
		b.next = now
	}
	s.settle(now)
	s.tell()
	s.log.Debug("new panel", "seq", seq, "members", len(chosen))
}

// doubt tells that leases have to be read again; until then there is no right.
func (s *Service) doubt() {
	s.mu.Lock()
	doubted := s.doubted
	s.mu.Unlock()
	if !doubted {
		return
	}
	s.log.Warn("gave up witnesses after long silence: leases have to be read again")
	if s.cfg.Doubt != nil {
		s.cfg.Doubt()
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubted = false
	s.settle(now)
}

// birth writes that the Store is not new, once this peer votes.
func (s *Service) birth(ctx context.Context, now time.Time) {
	s.mu.Lock()
	due := s.fresh && !now.Before(s.guard.wait)
	s.mu.Unlock()
	if !due {
		return
	}
	if err := s.disk.save(ctx, keyBorn); err != nil {
		return // tried again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = false
}
