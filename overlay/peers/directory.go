package peers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/zone"
)

var (
	// ErrKnown says that a beacon is no news: the same or a later one is known.
	ErrKnown = errors.New("peers: beacon already known")
	// ErrTime says that a beacon is too old, or too far in the future for a
	// clock that is merely wrong.
	ErrTime = errors.New("peers: beacon out of time")
)

// DirectoryConfig bounds a Directory.
type DirectoryConfig struct {
	// Self is left out of the directory.
	Self peer.ID
	// Topic is what beacons must be sealed for.
	Topic string
	// Dimensions is that of the network's coordinates.
	Dimensions int
	// TTL is how long a peer counts as present after it was heard, at the least:
	// six times its beacon's Every, if that is longer.
	TTL time.Duration
	// Spacing is that of Config: what Every can be in a network of some size.
	// Every counts up to twice as much, in one of 32 peers more than are known:
	// nobody stays present for an hour by saying that it seldom speaks. 0 is no
	// bound.
	Spacing time.Duration
	// Skew is how wrong clocks may be, either way.
	Skew time.Duration
	// Max is how many peers are remembered. Past it the directory is partial:
	// it keeps what package zone would keep of them.
	Max int
	// Zones says what a partial directory is made of, At where this peer is.
	// Nil is the origin.
	Zones zone.Config
	At    func() coords.Coordinate
	// Now is the own clock, by which it is told who was heard when. Nil is time.Now.
	Now func() time.Time
	// Dates is the clock that beacons are dated by and held against. Nil is Now.
	Dates func() time.Time
}

// A Directory is what a peer knows of the others. It is safe for concurrent use.
type Directory struct {
	cfg DirectoryConfig

	salt uint64        // picks the random ones that a partial directory keeps
	turn atomic.Uint32 // which part of the peers was last asked for

	mu      sync.RWMutex
	entries map[peer.ID]*entry
	dropped time.Time // when somebody present last had to leave
	pins    []peer.ID // who stays for now, oldest first
}

// partialFor is how long a directory counts as partial after it dropped
// somebody: as long as a beacon may live.
const partialFor = 15 * time.Minute

// entry is one peer. A peer that was silent for long is kept as long as its
// last beacon would pass for new, so that nobody can bring it back to life.
type entry struct {
	beacon Beacon
	sealed []byte
	heard  time.Time // by the own clock
	missed time.Time // when nobody could reach it; see suspect
}

// NewDirectory returns an empty Directory.
func NewDirectory(cfg DirectoryConfig) *Directory {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Dates == nil {
		cfg.Dates = cfg.Now
	}
	if cfg.At == nil {
		origin := coords.Coordinate{Vec: make([]float64, cfg.Dimensions)}
		cfg.At = func() coords.Coordinate { return origin }
	}
	return &Directory{cfg: cfg, salt: rand.Uint64(), entries: make(map[peer.ID]*entry)}
}

// Put takes in a sealed beacon that was just heard. It returns the beacon when
// it is news; else the error wraps ErrKnown, ErrTime (both are everyday) or
// ErrBeacon (somebody misbehaves).
func (d *Directory) Put(raw []byte) (Beacon, error) { return d.PutAged(raw, 0) }

// PutAged is Put for a beacon that was last heard age ago by whoever passed it
// on. Without the age, peers would keep a dead one alive among themselves.
func (d *Directory) PutAged(raw []byte, age time.Duration) (Beacon, error) {
	if err := d.isNews(raw); err != nil {
		return Beacon{}, err
	}
	b, err := Open(raw, d.cfg.Topic, d.cfg.Dimensions)
	if err != nil {
		return Beacon{}, err
	}
	date := d.cfg.Dates()
	if b.Time.After(date.Add(d.cfg.Skew)) || d.outdated(b, date) {
		return Beacon{}, fmt.Errorf("%w: made %v ago", ErrTime, date.Sub(b.Time))
	}
	if age < 0 || age > d.ttl(b) {
		return Beacon{}, fmt.Errorf("%w: heard %v ago", ErrTime, age)
	}
	at, now := d.cfg.At(), d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.entries[b.Peer]
	if old != nil && b.Seq <= old.beacon.Seq {
		return Beacon{}, fmt.Errorf("%w: %d after %d of %s", ErrKnown, b.Seq, old.beacon.Seq, b.Peer)
	}
	if old == nil {
		d.makeRoom(at, now)
	}
	e := &entry{beacon: b, sealed: slices.Clone(raw), heard: now.Add(-age)}
	if old != nil {
		e.missed = old.missed // a beacon made before it fell silent refutes nothing
		if old.heard.After(e.heard) {
			e.heard = old.heard
		}
	}
	d.entries[b.Peer] = e
	return b, nil
}

// isNews looks at who and which beacon raw claims to be, before its signature
// is checked: most of what arrives is known, and a check costs more than all
// the rest.
func (d *Directory) isNews(raw []byte) error {
	claim, err := peek(raw)
	if err != nil {
		return err
	}
	if claim.Peer == d.cfg.Self {
		return fmt.Errorf("%w: the own one", ErrKnown)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if old := d.entries[claim.Peer]; old != nil && claim.Seq <= old.beacon.Seq {
		return fmt.Errorf("%w: %d after %d of %s", ErrKnown, claim.Seq, old.beacon.Seq, claim.Peer)
	}
	return nil
}

// Touch notes that p was just heard directly, over a connection that proves who
// it is.
func (d *Directory) Touch(p peer.ID) {
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[p]; e != nil {
		e.heard = now
	}
}

// All lists the beacons of the peers that are present and not suspect, sorted by
// peer ID.
func (d *Directory) All() []Beacon {
	return d.list(func(e *entry, _ time.Time) bool { return !e.suspect() })
}

// Get returns the beacon of p if it is present, be it suspect or not: what it
// said of itself is as true as before. See Alive and Suspected.
func (d *Directory) Get(p peer.ID) (Beacon, bool) {
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	if e == nil || !d.present(e, now) {
		return Beacon{}, false
	}
	return e.beacon, true
}

// Alive reports whether p was heard within the TTL and is not suspect.
func (d *Directory) Alive(p peer.ID) bool {
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	return e != nil && d.present(e, now) && !e.suspect()
}

// Heard is when p was last heard, by the own clock, also of a peer that has
// expired since; false if it is not remembered.
func (d *Directory) Heard(p peer.ID) (time.Time, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	if e == nil {
		return time.Time{}, false
	}
	return e.heard, true
}

// Len is how many peers All lists.
func (d *Directory) Len() int {
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for _, e := range d.entries {
		if d.present(e, now) && !e.suspect() {
			n++
		}
	}
	return n
}

// Expire forgets those that are gone for good. Call it now and then.
func (d *Directory) Expire() {
	now, date := d.cfg.Now(), d.cfg.Dates()
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, e := range d.entries {
		if !d.present(e, now) && d.outdated(e.beacon, date) {
			delete(d.entries, p)
		}
	}
}

func (d *Directory) present(e *entry, now time.Time) bool { return now.Sub(e.heard) <= d.lasts(e) }

// lasts is how long after it was heard a peer counts as present.
func (d *Directory) lasts(e *entry) time.Duration {
	b := e.beacon
	if d.cfg.Spacing > 0 {
		b.Every = min(b.Every, 2*time.Duration(len(d.entries)+unheardOf)*d.cfg.Spacing)
	}
	return d.ttl(b)
}

// unheardOf is how many peers more others may know than this one does, that has
// just come.
const unheardOf = 32

// ttl is how long the maker of b may be silent, if Every is what it should be.
func (d *Directory) ttl(b Beacon) time.Duration { return max(d.cfg.TTL, lives*b.Every) }

// outdated reports whether b could no longer be put at a date.
func (d *Directory) outdated(b Beacon, date time.Time) bool {
	return b.Time.Before(date.Add(-d.ttl(b) - d.cfg.Skew))
}

// Partial reports whether there are more peers than the directory holds.
func (d *Directory) Partial() bool {
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return !d.dropped.IsZero() && now.Sub(d.dropped) < partialFor
}

// Pin keeps p in a partial directory whatever its place, as long as it is heard
// of and not too many others are pinned after it. It reports whether p is there.
func (d *Directory) Pin(p peer.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[p] == nil {
		return false
	}
	d.pins = append(slices.DeleteFunc(d.pins, func(q peer.ID) bool { return p == q }), p)
	d.pins = d.pins[max(0, len(d.pins)-d.cfg.Max/4):]
	return true
}

// Drop forgets p as nobody could reach it. It may come back.
func (d *Directory) Drop(p peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.entries, p)
}

// Passed returns the sealed beacon of p, to be passed on, if it is present and
// not suspect.
func (d *Directory) Passed(p peer.ID) (Aged, bool) {
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	if e == nil || !d.present(e, now) || e.suspect() {
		return Aged{}, false
	}
	return e.aged(now), true
}

// kept is how many remain after room has been made.
func (d *Directory) kept() int { return d.cfg.Max - max(1, d.cfg.Max/8) }

// makeRoom makes room for one more: those that are gone leave first, then an
// eighth of the directory at once, as choosing costs more than storing. at is
// the own place.
func (d *Directory) makeRoom(at coords.Coordinate, now time.Time) {
	if len(d.entries) < d.cfg.Max {
		return
	}
	for p, e := range d.entries {
		if !d.present(e, now) {
			delete(d.entries, p)
		}
	}
	if len(d.entries) < d.cfg.Max {
		return
	}
	d.dropped = now
	d.pins = slices.DeleteFunc(d.pins, func(p peer.ID) bool { return d.entries[p] == nil })
	known := make([]zone.Peer, 0, len(d.entries))
	for p, e := range d.entries {
		if !slices.Contains(d.pins, p) {
			known = append(known, e.zonePeer())
		}
	}
	room := d.kept() - len(d.pins)
	kept := make(map[peer.ID]*entry, d.cfg.Max)
	for _, i := range zone.Keep(at, known, room, d.cfg.Zones, d.salt) {
		p := peer.ID(known[i].ID)
		kept[p] = d.entries[p]
	}
	for _, p := range d.pins {
		kept[p] = d.entries[p]
	}
	d.entries = kept
}
