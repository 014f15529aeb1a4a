package peers

import (
	"errors"
	"testing"
	"time"
)

// A word is reason for a check once in a while, and for a beacon not all the
// time.
func TestWordsCostLittle(t *testing.T) {
	s, _ := unrun(t)
	key, id := identity(t, 1)
	b := testBeacon(id, 1, time.Now())
	b.At = s.Coordinate()
	if _, err := s.dir.PutAged(mustSeal(t, key, b), time.Second); err != nil {
		t.Fatal(err)
	}
	doubted := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.link(id).doubtAt.IsZero()
	}
	s.hear([]doubt{{Peer: id, Age: 2000}})
	if doubted() {
		t.Error("a doubt from before it was heard counts")
	}
	s.hear([]doubt{{Peer: id}})
	if !doubted() {
		t.Fatal("a doubt does not count")
	}
	if len(s.toCheck(time.Now())) != 1 || doubted() {
		t.Error("it is not checked")
	}
	s.mu.Lock()
	s.link(id).checking = false
	s.mu.Unlock()
	s.hear([]doubt{{Peer: id}})
	if doubted() {
		t.Error("it counts again at once")
	}
	now := time.Now()
	s.sent = now
	s.hear([]doubt{{Peer: s.cfg.Host.ID()}})
	if s.rumoured(now.Add(time.Second)) {
		t.Error("a beacon after a second")
	}
	if later := now.Add(s.cfg.Interval); !s.rumoured(later) || s.rumoured(later) {
		t.Error("one word is not reason for one beacon")
	}
}

// However often a connection ends, the peer is not dialled all the time.
func TestChecksGetSeldomer(t *testing.T) {
	s, _ := unrun(t)
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
		s.mu.Lock()
		s.link(id).probe = &probe{done: done, ended: time.Now()} // it has just answered
		s.mu.Unlock()
		s.check(t.Context(), id)
		s.doubt(id, true)
		s.mu.Lock()
		wait := time.Until(s.link(id).doubtAt)
		s.link(id).doubtAt = time.Time{}
		s.mu.Unlock()
		if wait < min(last*3/2, soundLast-time.Second) || wait > soundLast {
			t.Errorf("checked after %v, the last time after %v", wait, last)
		}
		last = wait
	}
	if !s.dir.Alive(id) || last < soundLast-time.Second {
		t.Errorf("alive %v, at last checked after %v", s.dir.Alive(id), last)
	}
}

// Whoever is suspect is not found by others' word either.
func TestLearnRefusesSuspects(t *testing.T) {
	s, _ := unrun(t)
	key, id := identity(t, 1)
	b := testBeacon(id, 1, time.Now())
	b.At = s.Coordinate()
	a := Aged{Sealed: mustSeal(t, key, b)}
	if _, err := s.Learn(a); err != nil {
		t.Fatal(err)
	}
	s.dir.Suspect(id, time.Now())
	if _, err := s.Learn(a); !errors.Is(err, ErrTime) {
		t.Errorf("an old beacon: %v", err)
	}
	b.Seq++
	if _, err := s.Learn(Aged{Sealed: mustSeal(t, key, b)}); err != nil {
		t.Errorf("a new one: %v", err)
	}
}
