package peers

import (
	"testing"
	"time"
)

// Beacons that another process has made with the key of a peer make its next beacon newer than
// they are. Three of them show that the process runs.
func TestTwin(t *testing.T) {
	s, _ := newService(t)
	key, id := identity(t, 100)
	now := time.Now()
	relay := func(seq uint64) {
		t.Helper()
		b := testBeacon(id, seq, now)
		b.At = s.Coordinate()
		if err := s.addBeacon("x", RelayedBeacon{Sealed: mustSeal(t, key, b)}); err != nil {
			t.Error(err)
		}
	}
	own := s.Self().Seq
	relay(own + 1) // of the process before, perhaps
	s.self.twin.since = time.Time{}
	if !s.self.outdone() || s.self.twin.beacons != 0 {
		t.Errorf("%d beacons count at the start, want none, but a newer one made",
			s.self.twin.beacons)
	}
	s.self.twin.seq = 0
	relay(own - 1)
	relay(own)
	if s.self.outdone() {
		t.Error("outdone by older beacons")
	}
	for i := range uint64(twinBeacons) {
		if s.Twin() {
			t.Errorf("a twin after %d beacons, want %d", i, twinBeacons)
		}
		seq := own + 1e6 + i
		relay(seq)
		relay(seq) // by another peer
		relay(seq - 1)
		if !s.self.outdone() {
			t.Error("not outdone by a newer beacon")
		}
	}
	if !s.Twin() {
		t.Errorf("no twin after %d beacons", twinBeacons)
	}
	if err := s.self.makeBeacon(now, 0, 1, s.cfg.Interval); err != nil {
		t.Fatal(err)
	}
	if last := own + 1e6 + twinBeacons - 1; s.Self().Seq <= last || s.self.outdone() {
		t.Errorf("the next beacon has number %d, want more than %d", s.Self().Seq, last)
	}
	if later := now.Add(twinFor + time.Minute); s.self.twin.runs(later) {
		t.Error("a twin long after its last beacon")
	}
	forged := mustSeal(t, key, testBeacon(id, own+2e6, now))
	forged[len(forged)-1] ^= 1
	if err := s.addBeacon("x", RelayedBeacon{Sealed: forged}); err == nil || s.self.outdone() {
		t.Errorf("addBeacon of a forged beacon = %v, want an error and no effect", err)
	}
}
