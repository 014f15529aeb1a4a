package peers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
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
	// TTL is how long a peer counts as present after it was heard.
	TTL time.Duration
	// Skew is how wrong clocks may be, either way.
	Skew time.Duration
	// Max is how many peers are remembered; past it, the one that was silent
	// longest makes room.
	Max int
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
}

// A Directory is what a peer knows of the others. It is safe for concurrent use.
type Directory struct {
	cfg DirectoryConfig

	mu      sync.RWMutex
	entries map[peer.ID]*entry
}

// entry is one peer. A peer that was silent for long is kept as long as its
// last beacon would pass for new, so that nobody can bring it back to life.
type entry struct {
	beacon Beacon
	sealed []byte
	heard  time.Time // by the own clock
}

// NewDirectory returns an empty Directory.
func NewDirectory(cfg DirectoryConfig) *Directory {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Directory{cfg: cfg, entries: make(map[peer.ID]*entry)}
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
	now := d.cfg.Now()
	if b.Time.After(now.Add(d.cfg.Skew)) || d.outdated(b, now) {
		return Beacon{}, fmt.Errorf("%w: made %v ago", ErrTime, now.Sub(b.Time))
	}
	if age < 0 || age > d.cfg.TTL {
		return Beacon{}, fmt.Errorf("%w: heard %v ago", ErrTime, age)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.entries[b.Peer]
	if old != nil && b.Seq <= old.beacon.Seq {
		return Beacon{}, fmt.Errorf("%w: %d after %d of %s", ErrKnown, b.Seq, old.beacon.Seq, b.Peer)
	}
	if old == nil {
		d.makeRoom(now)
	}
	d.entries[b.Peer] = &entry{beacon: b, sealed: slices.Clone(raw), heard: now.Add(-age)}
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

// All lists the beacons of the peers that are present, sorted by peer ID.
func (d *Directory) All() []Beacon {
	now := d.cfg.Now()
	d.mu.RLock()
	all := make([]Beacon, 0, len(d.entries))
	for _, e := range d.entries {
		if d.present(e, now) {
			all = append(all, e.beacon)
		}
	}
	d.mu.RUnlock()
	slices.SortFunc(all, func(a, b Beacon) int { return cmp.Compare(a.Peer, b.Peer) })
	return all
}

// Get returns the beacon of p if it is present.
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

// Alive reports whether p was heard within the TTL.
func (d *Directory) Alive(p peer.ID) bool {
	_, ok := d.Get(p)
	return ok
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

// Len is how many peers are present.
func (d *Directory) Len() int {
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for _, e := range d.entries {
		if d.present(e, now) {
			n++
		}
	}
	return n
}

// Expire forgets those that are gone for good. Call it now and then.
func (d *Directory) Expire() {
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, e := range d.entries {
		if !d.present(e, now) && d.outdated(e.beacon, now) {
			delete(d.entries, p)
		}
	}
}

func (d *Directory) present(e *entry, now time.Time) bool {
	return now.Sub(e.heard) <= d.cfg.TTL
}

// outdated reports whether b could no longer be put.
func (d *Directory) outdated(b Beacon, now time.Time) bool {
	return b.Time.Before(now.Add(-d.cfg.TTL - d.cfg.Skew))
}

// makeRoom removes the peer that was silent longest if the directory is full.
func (d *Directory) makeRoom(now time.Time) {
	if len(d.entries) < d.cfg.Max {
		return
	}
	var longest peer.ID
	oldest := now.Add(time.Nanosecond)
	for p, e := range d.entries {
		if e.heard.Before(oldest) {
			longest, oldest = p, e.heard
		}
	}
	delete(d.entries, longest)
}
