package shadow

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/store"
)

// janitor wipes what was forgotten, and forgets what nobody has a use for.
func (s *Service) janitor(ctx context.Context) {
	every := time.NewTicker(max(s.cfg.Sweep/100, 10*time.Millisecond))
	defer every.Stop()
	for {
		for p, ok := s.nextWipe(); ok && ctx.Err() == nil; p, ok = s.nextWipe() {
			if err := s.wipe(ctx, p); err != nil {
				s.log.Error("copy not swept away", "subnet", p, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.rubbish:
		case <-every.C:
			s.sweep(time.Now())
		}
	}
}

func (s *Service) nextWipe() (netip.Prefix, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wipes) == 0 {
		return netip.Prefix{}, false
	}
	p := s.wipes[0]
	s.wipes = s.wipes[1:]
	return p, true
}

// wipe deletes all of a subnet that was forgotten. If it is cut short the next
// start does it again.
func (s *Service) wipe(ctx context.Context, p netip.Prefix) error {
	var hosts []store.Host
	staged := false
	err := s.cfg.DB.View(func(tx *store.Tx) (err error) {
		if staged, err = isStaged(tx, p); err != nil || !staged {
			return err
		}
		hosts, err = tx.HostsOf(p)
		return err
	})
	if err != nil || !staged {
		return err
	}
	for _, h := range hosts {
		if ctx.Err() != nil {
			return nil
		}
		if err := s.cfg.DB.DropHost(h.Name); err != nil {
			return err
		}
	}
	if err := s.cfg.DB.DropOutlinks(p); err != nil {
		return err
	}
	return s.cfg.DB.Update(func(tx *store.Tx) error {
		if ok, err := isStaged(tx, p); err != nil || !ok {
			return err
		}
		return errors.Join(tx.DeleteData(placeKey(p)), tx.DeleteSubnet(p))
	})
}

func isStaged(tx *store.Tx, p netip.Prefix) (bool, error) {
	rec, err := tx.Subnet(p)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Phase == store.PhaseStaged, err
}

// sweep forgets copies that came to nothing: not complete and not heard of for
// long, or of an owner who is it no more.
func (s *Service) sweep(now time.Time) {
	var old []*replica
	s.mu.Lock()
	for _, r := range s.held {
		if r.in == nil {
			old = append(old, r)
		}
	}
	s.mu.Unlock()
	for _, r := range old {
		s.mu.Lock()
		last := r.since
		if r.heard.After(last) {
			last = r.heard
		}
		idle, whole, owner, epoch, p := now.Sub(last), r.place.whole(), r.owner, r.epoch, r.subnet
		s.mu.Unlock()
		by, best, known := s.cfg.Keeper.Current(p)
		beaten := known && best > epoch && by != owner
		if s.isPinned(p) || !(beaten && idle > s.cfg.Sweep/24) && !(!whole && idle > s.cfg.Sweep) {
			continue
		}
		s.log.Info("copy given up", "subnet", p, "owner", owner, "complete", whole)
		if err := s.forgetIf(p, func(r *replica) bool { return r.in == nil && r.epoch == epoch }); err != nil {
			s.log.Error("copy not given up", "subnet", p, "err", err)
		}
	}
}
