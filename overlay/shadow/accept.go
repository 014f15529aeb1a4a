package shadow

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/store"
)

// take takes in one frame. What is wrong with a subnet ends that subnet on the link;
// an error is of the link itself.
func (s *Service) take(in *inlink, d down) error {
	if len(d.Panel) > 0 {
		if err := s.learnPanel(in, d.Panel); err != nil {
			return err
		}
	}
	switch {
	case d.Open != nil:
		s.say(in, s.open(in, *d.Open))
	case d.Snap != nil:
		s.attempt(in, d.Snap.Subnet.Masked(), func(r *replica) error { return s.takeSnap(r, d.Snap) })
	case d.Tail != nil:
		s.attempt(in, d.Tail.Subnet.Masked(), func(r *replica) error { return s.takeTail(r, d.Tail) })
	case d.Close != nil:
		return s.part(in, *d.Close)
	}
	return nil
}

// learnPanel takes in an owner's panel; it is kept if anything else of the owner
// is. Whoever uses it opens the seal.
func (s *Service) learnPanel(in *inlink, panel []byte) error {
	if len(panel) > maxPanel {
		return fmt.Errorf("%w: a panel of %d bytes", errBad, len(panel))
	}
	s.mu.Lock()
	in.panel = panel
	_, kept := s.panels[in.owner]
	if kept {
		s.panels[in.owner] = panel
	}
	s.mu.Unlock()
	if !kept {
		return nil
	}
	return s.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutData(panelKey(in.owner), panel) })
}

// part ends a subnet on a link.
func (s *Service) part(in *inlink, c closing) error {
	leave := s.enter(c.Subnet)
	s.mu.Lock()
	r := s.held[c.Subnet]
	theirs := r != nil && r.owner == in.owner
	ends := theirs && r.in == in
	if ends {
		r.close()
	}
	s.mu.Unlock()
	if ends && !c.Drop {
		s.outOfStep(r)
	}
	leave()
	if !theirs || !c.Drop {
		return nil
	}
	end := func() error {
		return s.forgetIf(c.Subnet, func(r *replica) bool { return r.owner == in.owner && r.in == nil })
	}
	if s.endLater(c.Subnet, end) {
		return nil
	}
	return end()
}

// open answers an Open.
func (s *Service) open(in *inlink, o Open) have {
	h := have{Subnet: o.Subnet, Turn: o.Turn, Verdict: verdictOK}
	s.mu.Lock()
	if o.Panel = in.panel; o.Panel == nil {
		o.Panel = s.panels[in.owner]
	}
	s.mu.Unlock()
	err := o.check()
	var r *replica
	if err == nil {
		r, err = s.accept(in, o)
	}
	switch {
	case err == nil:
		s.mu.Lock()
		if at := r.place; at.Pos.Log == o.Log && !at.Fresh {
			h.Pos, h.Cursor = at.Pos, at.At
		}
		s.mu.Unlock()
		return h
	case errors.Is(err, ErrLater):
		h.Verdict = verdictLater
	case errors.Is(err, ErrStale):
		h.Verdict = verdictStale
	default:
		h.Verdict = verdictRefused
	}
	h.Why = clip(err.Error())
	return h
}

// errClearing and errLeaving ask an owner to wait.
var (
	errClearing = fmt.Errorf("%w: clearing away what was here before", ErrLater)
	errLeaving  = fmt.Errorf("%w: it is on its way from here", ErrLater)
)

// phase returns how far a subnet's ownership is here.
func (s *Service) phase(p netip.Prefix) (store.Phase, error) {
	phase := store.PhaseNone
	err := s.cfg.DB.View(func(tx *store.Tx) error {
		rec, err := tx.Subnet(p)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		phase = rec.Phase
		return err
	})
	return phase, err
}

// accept makes this peer a replica, or goes on with a copy.
func (s *Service) accept(in *inlink, o Open) (*replica, error) {
	defer s.enter(o.Subnet)()
	s.mu.Lock()
	r := s.held[o.Subnet]
	n, used := len(s.held), s.usage[in.owner]
	s.mu.Unlock()
	switch {
	case r != nil && (o.Epoch < r.epoch || o.Epoch == r.epoch && in.owner != r.owner):
		return nil, fmt.Errorf("%w: %d, of %s", ErrStale, r.epoch, r.owner)
	case r == nil && (n >= s.cfg.MaxReplicas || float64(used.URLs) > s.cfg.OwnerShare*float64(s.cfg.MaxURLs)):
		return nil, errFull
	}
	if s.isPinned(o.Subnet) {
		return nil, errPinned
	}
	// An heir may follow its predecessor before that knows that it is one.
	if phase, err := s.phase(o.Subnet); err != nil {
		return nil, err
	} else if phase == store.PhaseCommitting {
		return nil, errLeaving
	}
	if err := s.cfg.Keeper.Willing(in.owner, o); err != nil {
		return nil, err
	}
	next := replica{subnet: o.Subnet, owner: in.owner, epoch: o.Epoch, lease: o.Lease, since: time.Now()}
	next.place = place{Fresh: true}
	if r != nil {
		next.since, next.place = r.since, r.place
		switch at := r.place; {
		case at.whole() && at.Pos == o.Base:
			next.place.Pos, next.place.Until = TailPos{Log: o.Log}, 0
		case at.Pos.Log == o.Log, in.owner == r.owner:
			// Goes on, or stays what it is until a snapshot begins.
		default:
			next.place.Pos, next.place.At, next.place.Fresh = TailPos{}, nil, true
		}
	}
	next.place.Link = 0 // until something comes
	if err := s.enterOnDisk(&next, o); err != nil {
		return nil, err
	}
	next.in, next.turn = in, o.Turn
	s.mu.Lock()
	defer s.mu.Unlock()
	if r != nil {
		r.close()
		s.charge(r.owner, size{}.minus(r.place.Size))
	} else {
		r = &replica{}
		s.held[o.Subnet] = r
	}
	if len(o.Panel) > 0 {
		s.panels[in.owner] = o.Panel
	}
	next.heard = r.heard
	if r.owner == in.owner {
		next.counted = r.counted
	}
	in.copies++
	*r = next
	s.charge(r.owner, r.place.Size)
	return r, nil
}

// enterOnDisk writes down whose copy is kept, unless the subnet is ours.
func (s *Service) enterOnDisk(r *replica, o Open) error {
	return s.cfg.DB.Update(func(tx *store.Tx) error {
		old, err := tx.Subnet(r.subnet)
		switch {
		case err == nil && old.Phase == store.PhaseStaged:
			return errClearing
		case err == nil && old.Phase != store.PhaseShadow:
			return fmt.Errorf("the subnet is %v here", old.Phase)
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		}
		rec := store.Subnet{
			Prefix: r.subnet, Phase: store.PhaseShadow, Lease: o.Lease, Epoch: o.Epoch, Since: r.since,
			Evidence: o.Evidence, Estimations: o.Estimations, From: r.owner.String(),
			Log: r.place.Pos.Log, Seq: r.place.Pos.Seq, Cursor: r.place.At,
		}
		if !r.place.whole() && rec.Cursor == nil {
			rec.Cursor = []byte{}
		}
		if err := tx.PutSubnet(rec); err != nil {
			return err
		}
		if len(o.Panel) > 0 {
			if err := tx.PutData(panelKey(r.owner), o.Panel); err != nil {
				return err
			}
		}
		return putPlace(tx, r.subnet, r.place)
	})
}
