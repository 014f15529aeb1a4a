package peers

import (
	"errors"
	"testing"
	"time"
)

// Suspicions of others cause a check of a peer only once in a while, and a beacon of a
// suspected peer only once per suspicion.
func TestSuspicionsAreLimited(t *testing.T) {
	s, _ := newService(t)
	key, id := identity(t, 1)
	b := testBeacon(id, 1, time.Now())
	b.At = s.Coordinate()
	if _, err := s.dir.put(mustSeal(t, key, b), time.Second, hearsay{}); err != nil {
		t.Fatal(err)
	}
	requested := func() bool {
		s.states.mu.Lock()
		defer s.states.mu.Unlock()
		return !s.states.of(id).checkAt.IsZero()
	}
	s.checker.receiveSuspicions([]suspicion{{Peer: id, Age: 30_000}})
	if requested() {
		t.Error("a suspicion from before the peer was heard requested a check")
	}
	s.checker.receiveSuspicions([]suspicion{{Peer: id}})
	if !requested() {
		t.Fatal("a suspicion did not request a check")
	}
	if len(s.checker.dueChecks(time.Now())) != 1 || requested() {
		t.Error("dueChecks did not return the suspected peer")
	}
	s.states.mu.Lock()
	s.states.of(id).checking = false
	s.states.mu.Unlock()
	s.checker.receiveSuspicions([]suspicion{{Peer: id}})
	if requested() {
		t.Error("a second suspicion requested another check immediately")
	}
	now := time.Now()
	s.publisher.beaconAt = now
	s.checker.receiveSuspicions([]suspicion{{Peer: s.cfg.Host.ID()}})
	if s.publisher.mustRefute(now.Add(time.Second)) {
		t.Error("mustRefute after a second = true, want false")
	}
	later := now.Add(s.cfg.Interval)
	if !s.publisher.mustRefute(later) {
		t.Error("mustRefute after an interval = false, want true")
	}
	s.publisher.announce(t.Context(), later)
	if s.publisher.mustRefute(later.Add(s.cfg.Interval)) {
		t.Error("mustRefute after the beacon = true, want false")
	}
}

// However often a connection ends, the peer is probed with increasing pauses.
func TestChecksBackOff(t *testing.T) {
	s, _ := newService(t)
	key, id := identity(t, 1)
	b := testBeacon(id, 1, time.Now())
	b.At = s.Coordinate()
	if _, err := s.dir.Put(mustSeal(t, key, b)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	close(done)
	last := time.Duration(0)
	for range 8 {
		s.states.mu.Lock()
		// A recent reply.
		s.states.of(id).probe = &probe{done: done, ended: time.Now().Add(time.Hour)}
		s.states.mu.Unlock()
		s.checker.check(t.Context(), id)
		s.checker.requestCheck(id, true)
		s.states.mu.Lock()
		wait := s.states.of(id).checkAt.Sub(s.states.of(id).checkedAt)
		s.states.of(id).checkAt = time.Time{}
		s.states.mu.Unlock()
		if wait < min(last*2, answeredPauseMax) || wait > answeredPauseMax {
			t.Errorf("pause = %v after a pause of %v, want it doubled", wait, last)
		}
		last = wait
	}
	if !s.dir.Alive(id) || last != answeredPauseMax {
		t.Errorf("Alive = %v, last pause = %v, want true and the maximum", s.dir.Alive(id), last)
	}
}

// Learn does not add a suspect again by a beacon from before the failure.
func TestLearnRefusesSuspects(t *testing.T) {
	s, _ := newService(t)
	key, id := identity(t, 1)
	b := testBeacon(id, 1, time.Now())
	b.At = s.Coordinate()
	a := RelayedBeacon{Sealed: mustSeal(t, key, b)}
	if _, err := s.Learn(a); err != nil {
		t.Fatal(err)
	}
	s.dir.Suspect(id, time.Now())
	if _, err := s.Learn(a); !errors.Is(err, ErrTime) {
		t.Errorf("Learn of a beacon from before the failure: %v, want ErrTime", err)
	}
	b.Seq++
	if _, err := s.Learn(RelayedBeacon{Sealed: mustSeal(t, key, b)}); err != nil {
		t.Errorf("Learn of a newer beacon: %v", err)
	}
}
