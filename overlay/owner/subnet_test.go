package owner

import (
	"testing"
	"time"

	"peerd/overlay/lease"
	"peerd/store"
)

// TestSubnetStates lists what each step makes of a subnet.
func TestSubnetStates(t *testing.T) {
	now := time.Now()
	copying := func(s *subnet) { s.keep(now); s.leaveFor("b", moveNearer) }
	committing := func(s *subnet) {
		s.leaveAtOnce("b")
		s.phase, s.grant = store.PhaseCommitting,
			[]byte{1}
	}
	for name, c := range map[string]struct {
		do                           func(*subnet)
		stays, leaving, usable, free bool
	}{
		"claimed":    {func(*subnet) {}, true, false, true, false},
		"kept":       {func(s *subnet) { s.keep(now) }, true, false, true, true},
		"another":    {func(s *subnet) { s.leaveAtOnce("b") }, false, true, false, false},
		"copying":    {copying, false, false, false, false},
		"failed":     {func(s *subnet) { copying(s); s.stay() }, true, false, true, true},
		"committing": {committing, false, true, false, false},
		"reclaimed": {func(s *subnet) {
			committing(s)
			s.reclaim(lease.Lease{Epoch: 2}, nil)
			s.stay()
		}, true, false, true, true},
		"beaten": {func(s *subnet) { s.state = departBeaten }, false, true, false, false},
		"beaten, handover ended": {func(s *subnet) {
			copying(s)
			s.state = departBeaten
			s.stay()
		}, false, true, false, false},
		"stale":      {func(s *subnet) { s.keep(now); s.stale = true }, true, false, false, false},
		"voted away": {func(s *subnet) { s.keep(now); s.revoked = now }, true, false, false, false},
		"fetching":   {func(s *subnet) { s.keep(now); s.again = true }, true, false, true, false},
	} {
		s := &subnet{phase: store.PhaseDeciding}
		c.do(s)
		if s.stays() != c.stays || s.leaving() != c.leaving || s.usable() != c.usable ||
			s.free() != c.free {
			t.Errorf("%s: stays %v, leaving %v, usable %v, free %v, want %v", name, s.stays(),
				s.leaving(), s.usable(), s.free(), c)
		}
	}
}
