package shadow

import (
	"fmt"
	"net/netip"
)

// errPinned asks an owner to wait.
var errPinned = fmt.Errorf("%w: about to be taken over", ErrLater)

// Pin keeps a complete copy of that epoch what it is while its keeper is about to take
// the subnet over: an owner that comes back in that moment may end it, or send it anew,
// and then there would be a lease with nothing behind it. What the owner says is done when
// unpin is called, if the copy is still one. ok is false, and unpin nil, if there is no
// such copy, or it is pinned.
func (s *Service) Pin(p netip.Prefix, epoch uint64) (unpin func(), ok bool) {
	defer s.enter(p)()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.held[p]
	if _, pinned := s.pinned[p]; pinned || r == nil || r.epoch != epoch || !r.place.whole() {
		return nil, false
	}
	s.pinned[p] = nil
	return func() { s.unpin(p) }, true
}

func (s *Service) unpin(p netip.Prefix) {
	s.mu.Lock()
	end := s.pinned[p]
	delete(s.pinned, p)
	s.mu.Unlock()
	if end == nil {
		return
	}
	if err := end(); err != nil {
		s.log.Error("copy not given up", "subnet", p, "err", err)
	}
}

// endLater has a pinned copy ended when it is pinned no more, and says whether it is
// pinned.
func (s *Service) endLater(p netip.Prefix, end func() error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, pinned := s.pinned[p]
	if pinned {
		s.pinned[p] = end
	}
	return pinned
}

func (s *Service) isPinned(p netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, pinned := s.pinned[p]
	return pinned
}
