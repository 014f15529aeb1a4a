package peers

import (
	"cmp"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// State is what a Directory believes of another peer.
type State uint8

// The states of a peer. A peer that is heard is Alive again, whatever it was before.
const (
	Unknown State = iota // never heard, or forgotten
	Alive                // heard within its lifetime, and not Suspect
	Suspect              // no peer that was asked reaches it, and it was not heard since
	Dead                 // silent for its lifetime
)

// Liveness is the state of a peer. Its times are of the local clock. It is a belief, for
// efficiency: a peer that seems dead may run and act. What must not depend on it is decided
// by promises (package witness) and by acknowledgements (package replica).
type Liveness struct {
	State State
	Since time.Time // when the state began; of Alive, when the last absence was over
	Heard time.Time // when the peer was last heard, by this peer or by one that told of it
}

// An Absence is a time in which a peer was not heard, and that was longer than beacons may take or
// in which it was Suspect. If messages are lost in one direction only, the end that receives still
// hears the other one for as long as connections last, so that its silence may be short.
type Absence struct {
	Peer peer.ID
	From time.Time // when it was last heard before; zero: never
	To   time.Time // when it was heard again
}

const (
	// awayFor is how long a peer is silent before that is an absence. 2*Spacing is added for
	// each known peer: the more there are, the less often each is heard.
	awayFor = 30 * time.Second
	// maxLives is how many peers are remembered, and keptFor how long one that is silent is not
	// forgotten for others that were known for a shorter time.
	maxLives = 4096
	keptFor  = 24 * time.Hour
)

// life is what is known about the liveness of a peer. It outlives the peer's beacon.
type life struct {
	first     time.Time     // first sign of life
	heard     time.Time     // last sign of life
	interval  time.Duration // of its newest beacon
	missed    time.Time     // when the last probe began that it did not answer
	suspected time.Time     // when the last check began in which no peer reached it
	left      time.Time     // when it was last heard before its last absence; zero: never
	came      time.Time     // when it was first heard after it
	noted     time.Time     // when this peer learned of that
	direct    bool          // it was once heard over a connection of its own
}

// suspect reports whether the peer was not heard since no peer could reach it.
func (l *life) suspect() bool { return !l.suspected.IsZero() && !l.heard.After(l.suspected) }

// missing reports whether the peer has just failed to answer, and was not heard since.
func (l *life) missing(now time.Time) bool {
	return now.Sub(l.missed) < missedTTL && !l.heard.After(l.missed)
}

// state returns the state of a peer. The caller holds d.mu.
func (d *Directory) state(l *life, now time.Time) State {
	switch {
	case l == nil || l.heard.IsZero():
		return Unknown
	case now.Sub(l.heard) > d.lifetime(l):
		return Dead
	case l.suspect():
		return Suspect
	}
	return Alive
}

// lifetime is how long a peer may be silent before it is dead. The caller holds d.mu.
func (d *Directory) lifetime(l *life) time.Duration {
	interval := l.interval
	if d.cfg.Spacing > 0 {
		interval = min(interval, 2*time.Duration(len(d.entries)+maxUnknownPeers)*d.cfg.Spacing)
	}
	return max(d.cfg.TTL, ttlIntervals*interval)
}

// Liveness returns the state of p.
func (d *Directory) Liveness(p peer.ID) Liveness {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	l := d.lives[p]
	v := Liveness{State: d.state(l, now)}
	if l != nil {
		v.Heard = l.heard
	}
	switch v.State {
	case Alive:
		v.Since = l.came
	case Suspect:
		v.Since = l.suspected
	case Dead:
		v.Since = l.heard.Add(d.lifetime(l))
	case Unknown:
	}
	return v
}

// Alive reports whether p is Alive.
func (d *Directory) Alive(p peer.ID) bool { return d.Liveness(p).State == Alive }

// Suspected reports whether p is Suspect.
func (d *Directory) Suspected(p peer.ID) bool { return d.Liveness(p).State == Suspect }

// Touch records that p was just heard over an authenticated connection.
func (d *Directory) Touch(p peer.ID) {
	now := d.cfg.Local.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hear(p, now, now).direct = true
}

// hear records at now that p was heard at a time. The caller holds d.mu.
func (d *Directory) hear(p peer.ID, at, now time.Time) *life {
	l := d.lives[p]
	switch {
	case p == d.cfg.Self:
		return &life{}
	case l == nil:
		d.forgetOne(now)
		l = &life{first: at, came: at, noted: now}
		d.lives[p] = l
	case !at.After(l.heard):
		return l
	case l.suspect() && at.After(l.suspected),
		at.Sub(l.heard) > awayFor+2*time.Duration(len(d.entries))*d.cfg.Spacing:
		l.left, l.came, l.noted = l.heard, at, now
	}
	l.heard = at
	return l
}

// forgetOne makes room for the life of another peer. It deletes that of a peer without a beacon:
// the one that was silent for the longest time, if for more than keptFor, else the one that was
// known for the shortest time. Keys cost nothing, and members that are away must not be forgotten
// for them. The caller holds d.mu.
func (d *Directory) forgetOne(now time.Time) {
	if len(d.lives) < maxLives {
		return
	}
	var silent, brief *life
	var forget, silentPeer peer.ID
	for p, l := range d.lives {
		if d.entries[p] != nil {
			continue
		}
		if silent == nil || l.heard.Before(silent.heard) {
			silent, silentPeer = l, p
		}
		if brief == nil || l.briefer(brief) {
			brief, forget = l, p
		}
	}
	if silent != nil && now.Sub(silent.heard) > keptFor {
		forget = silentPeer
	}
	delete(d.lives, forget)
}

// briefer reports whether a peer was known for a shorter time than another one, or for as long, but
// earlier.
func (l *life) briefer(than *life) bool {
	return cmp.Or(cmp.Compare(l.heard.Sub(l.first), than.heard.Sub(than.first)),
		l.heard.Compare(than.heard)) < 0
}

// Absences returns the last absence of each peer of which this peer has learned at or after the
// given time that it is over.
func (d *Directory) Absences(since time.Time) (all []Absence) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for p, l := range d.lives {
		if !l.noted.Before(since) {
			all = append(all, Absence{p, l.left, l.came})
		}
	}
	return all
}

// miss records that p has not answered a probe that began at a time.
func (d *Directory) miss(p peer.ID, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lives[p]; l != nil {
		l.missed = at
	}
}

// Suspect records that no peer could reach p in a check that began at a time. Until p is heard
// again or is dead it is Suspect. The method reports whether this is new: p is Alive and was
// not heard since.
func (d *Directory) Suspect(p peer.ID, at time.Time) bool {
	now := d.cfg.Local.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lives[p]
	if d.state(l, now) != Alive {
		return false
	}
	l.suspected = at
	return l.suspect()
}

// mostMissing reports whether so many peers are unreachable that this peer is likely cut off
// itself: more than one, and more than half of all that are not dead.
func (d *Directory) mostMissing() bool {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	all, missing := 0, 0
	for _, e := range d.entries {
		if d.present(e, now) {
			all++
			if e.suspect() || e.missing(now) {
				missing++
			}
		}
	}
	return missing > 1 && 2*missing > all
}

// isMissing reports whether p has just failed to answer.
func (d *Directory) isMissing(p peer.ID) bool {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	l := d.lives[p]
	return l != nil && l.missing(now)
}

// deadMissing reports whether a peer that was unreachable until the end has just died.
func (d *Directory) deadMissing() bool {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, l := range d.lives {
		if l.missing(now) && d.state(l, now) == Dead {
			return true
		}
	}
	return false
}
