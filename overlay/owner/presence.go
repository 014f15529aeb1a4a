package owner

import (
	"errors"
	"sync"
	"time"

	"peerd/internal/clock"
	"peerd/overlay/lease"
	"peerd/store"
)

// A replica that was away for longer than its owner waits may have been replaced, and
// must not take over with an old copy. Each peer therefore regularly saves the time at
// which it runs.
const (
	awakeName  = "owner/awake"
	awakeEvery = 5 * time.Second
)

// wasAwake reads when this peer last ran, before now.
func (w *presence) wasAwake() error {
	err := w.cfg.DB.View(func(tx *store.Tx) error { return tx.Meta(awakeName, &w.awake) })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// presence is the part of a Manager that knows when this peer ran, and notices that other peers are
// back.
type presence struct {
	*table
	hosts    *hosts
	leases   *leases
	awake    time.Time // when this peer was last known to run before started
	stamped  time.Time // of Run alone
	absences absences  // of Run alone
	idle     idle      // guarded by mu
	sleeps   sleeps
}

// sleeps knows when this process was last stopped, or its machine slept. It has a mutex of its own:
// a Judge asks while the mutex of the table may be held.
type sleeps struct {
	mu     sync.Mutex
	looked time.Time // when other peers were last looked at
	woke   time.Time // when that was last found to be too long ago
}

// idle is the last time in which this peer had no quorum lease, or was stopped; to is zero as long
// as it lasts.
type idle struct{ from, to time.Time }

func (w *presence) setIdle(from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = idle{from, to}
}

// Inactive reports whether this peer is known not to have acted as an owner in a time: it did not
// run, or had no quorum lease. Its subnets may have been taken over then without its consent.
func (w *presence) Inactive(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	began, ended := w.idle.from, w.idle.to
	if !w.awake.IsZero() && !w.awake.After(from) && !w.started.Before(to) {
		return true
	}
	if !w.awake.IsZero() && began.Sub(w.started) < time.Minute { // from the start on
		began = w.awake
	}
	return !w.idle.from.IsZero() && !began.After(from) && (ended.IsZero() || !ended.Before(to))
}

// stamp saves the current time while this peer keeps replicas of other peers' subnets.
// It starts only after owners have had time to reopen their copies here, so that two
// restarts in quick succession do not look like one.
func (w *presence) stamp(now time.Time) error {
	if now.Sub(w.stamped) < awakeEvery || now.Sub(w.started) < w.cfg.Times.Lost {
		return nil
	}
	w.stamped = now
	return w.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutMeta(awakeName, now) })
}

// armSince arms what came to this peer since then: others may own it, or be nearer to it.
func (w *presence) armSince(since, now time.Time, why string) {
	w.hosts.hostMoves.Reread(since, now)
	n := 0
	w.mu.Lock()
	for _, s := range w.subnets {
		if s.since.Before(since) {
			continue
		}
		s.watch.Reconsider(now)
		if s.rereads.Rearm(now) {
			s.back = true
			n++
		}
	}
	w.mu.Unlock()
	if n > 0 {
		w.log.Info("scheduled lease reads", "why", why, "subnets", n)
	}
}

// observePresence detects peers that are back, and that this one may act as an owner again.
func (w *presence) observePresence(now time.Time) {
	if w.cfg.Contacts == nil {
		return
	}
	p := &w.absences
	since, slept := w.sleeps.look(now)
	right := w.HasQuorumLease()
	switch {
	case !p.lostAt.IsZero():
	case slept:
		w.lost(since.Round(0))
	case !right:
		w.lost(now)
	}
	if right && !p.lostAt.IsZero() {
		w.regained(now)
	}
	for _, a := range w.cfg.Contacts.Absences(since) {
		if a.From.IsZero() {
			w.newcomer(now)
		} else {
			w.returned(a, now)
		}
	}
}

// look records that other peers are looked at now. It returns when they were before, and whether
// this peer slept in between.
func (s *sleeps) look(now time.Time) (since time.Time, slept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, slept = s.looked, s.slept(now)
	if s.looked = now; slept {
		s.woke = now
	}
	return since, slept
}

// slept reports whether this peer slept since it last looked at others. The caller holds mu.
func (s *sleeps) slept(now time.Time) bool {
	return !s.looked.IsZero() && clock.Elapsed(now, s.looked) > asleep
}

// AwakeSince returns the time since which this peer has run without a sleep of its machine. In a
// sleep it hears no peer, so it knows of no silence from before.
func (w *presence) AwakeSince(now time.Time) time.Time {
	s := &w.sleeps
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slept(now) {
		return now
	}
	return clock.Later(w.started, s.woke)
}

// wakingFor is how long after a sleep Woke is true. By then everything that was interrupted has
// gone on.
const wakingFor = time.Second

// Woke reports whether this process was stopped, or its machine slept, until just now.
func (w *presence) Woke(now time.Time) bool {
	s := &w.sleeps
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slept(now) || now.Sub(s.woke) < wakingFor
}

// lost takes in that this peer does not act as an owner since then.
func (w *presence) lost(since time.Time) {
	w.absences.lostAt = since
	w.setIdle(since, time.Time{})
}

// regained takes in that this peer acts as an owner again. After so long that subnets may have
// been taken over without votes, it reads all leases before it does.
func (w *presence) regained(now time.Time) {
	p := &w.absences
	since := p.lostAt.Add(-beforehand)
	w.setIdle(p.lostAt, now)
	if clock.Elapsed(now, p.lostAt) > lease.LongSilence {
		since = time.Time{}
		w.leases.SuspectTakeover()
	}
	w.armSince(since, now, "the right is back")
	p.lostAt = time.Time{}
}

// returned takes in that the absence of a peer is over.
func (w *presence) returned(a Absence, now time.Time) {
	since := a.From.Add(-beforehand)
	if a.To.Sub(a.From) > lease.LongSilence && now.Sub(w.absences.all) > longAway {
		w.absences.all, since = now, time.Time{}
	}
	w.armSince(since, now, "a peer is back")
}

// newcomer takes in that a peer is there that was not heard before.
func (w *presence) newcomer(now time.Time) {
	every := newcomerLate
	if now.Sub(w.started) < apart {
		every = newcomerSoon
	}
	if now.Sub(w.started) < allNew || now.Sub(w.absences.newcomer) < every {
		return
	}
	w.absences.newcomer = now
	w.armSince(now.Add(-apart), now, "a new peer")
}
