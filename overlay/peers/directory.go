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
	"peerd/internal/clock"
)

var (
	// ErrKnown means that the same or a newer beacon of the peer is already known.
	ErrKnown = errors.New("peers: beacon already known")
	// ErrTime means that a beacon is too old, or dated further in the future than clock skew
	// allows.
	ErrTime = errors.New("peers: beacon out of time")
)

// directoryConfig configures a Directory.
type directoryConfig struct {
	// Self is this peer. The directory does not contain it.
	Self peer.ID
	// Topic is what beacons must be signed for.
	Topic string
	// Dimensions is the dimension of the network's coordinate space.
	Dimensions int
	// TTL is how long a peer stays present after it was last heard, or six times its beacon's
	// Interval if that is longer.
	TTL time.Duration
	// Spacing is that of Config. It bounds the Interval that a beacon may claim to twice the
	// interval in a network of 32 peers more than are known, so that a peer cannot stay present
	// for an hour by claiming a long interval. 0 means no bound.
	Spacing time.Duration
	// Skew is the maximum error of clocks, in both directions.
	Skew time.Duration
	// Max is the maximum number of entries. If there are more peers, the directory is partial
	// and keeps those that package zone selects.
	Max int
	// Zones configures the selection of a partial directory. Me has the coordinate of this peer;
	// nil means the origin.
	Zones zone.Config
	Me    *self
	// Local is the clock for when peers were heard. Dates is the one against which the dates of
	// beacons are checked.
	Local, Dates clock.Clock
}

// A Directory holds the beacons of other peers. It is safe for concurrent use.
type Directory struct {
	cfg directoryConfig

	salt     uint64        // selects the random peers that a partial directory keeps
	syncTurn atomic.Uint32 // which part of the peers was last synced

	mu           sync.RWMutex
	entries      map[peer.ID]*entry
	lives        map[peer.ID]*life
	lastEviction time.Time // when a present peer was last evicted
	pins         []peer.ID // peers that are not evicted, oldest first
}

// partialFor is how long a directory stays partial after an eviction: as long as a beacon may
// live.
const partialFor = 15 * time.Minute

// entry is the newest beacon of a peer. The entry of a dead peer is kept as long as its last
// beacon would be accepted as new, so that relaying the beacon does not make the peer present
// again.
type entry struct {
	beacon Beacon
	sealed []byte
	told   hearsay
	*life
}

// newDirectory returns an empty Directory.
func newDirectory(cfg directoryConfig) *Directory {
	return &Directory{cfg: cfg, salt: rand.Uint64(), entries: make(map[peer.ID]*entry),
		lives: make(map[peer.ID]*life)}
}

// Put adds a beacon that was just received from its maker and returns it. Errors wrap ErrKnown
// or ErrTime, which are common, or ErrBeacon, which means that the sender misbehaves.
func (d *Directory) Put(raw []byte) (Beacon, error) {
	b, err := d.put(raw, 0, hearsay{})
	if err == nil {
		d.Touch(b.Peer)
	}
	return b, err
}

// at returns the coordinate of this peer.
func (c directoryConfig) at() coords.Coordinate {
	if c.Me == nil {
		return coords.Coordinate{Vec: make([]float64, c.Dimensions)}
	}
	return c.Me.coordinate()
}

// put adds a beacon of which the maker was last heard age ago by the sender.
// Without the age, peers would keep a failed peer alive among themselves.
func (d *Directory) put(raw []byte, age time.Duration, told hearsay) (Beacon, error) {
	if err := d.checkNew(raw); err != nil {
		return Beacon{}, err
	}
	b, err := Open(raw, d.cfg.Topic, d.cfg.Dimensions)
	if err != nil {
		return Beacon{}, err
	}
	date := d.cfg.Dates.Now()
	if b.Time.After(date.Add(d.cfg.Skew)) || d.cfg.outdated(b, date) {
		return Beacon{}, fmt.Errorf("%w: made %v ago", ErrTime, date.Sub(b.Time))
	}
	if age < 0 || age > d.cfg.ttl(b) {
		return Beacon{}, fmt.Errorf("%w: heard %v ago", ErrTime, age)
	}
	at, now := d.cfg.at(), d.cfg.Local.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.entries[b.Peer]
	if old != nil && b.Seq <= old.beacon.Seq {
		return Beacon{}, fmt.Errorf("%w: sequence number %d of %s, want more than %d",
			ErrKnown, b.Seq, b.Peer, old.beacon.Seq)
	}
	if old != nil {
		told = old.told.and(told)
	}
	if err := d.checkRoom(b, told, now); err != nil {
		return Beacon{}, err
	}
	if old == nil {
		d.evict(at, now)
	}
	l := d.hear(b.Peer, now.Add(-age), now) // made before a failure, it does not refute it
	l.interval = b.Interval
	d.entries[b.Peer] = &entry{beacon: b, sealed: slices.Clone(raw), told: told, life: l}
	return b, nil
}

// errOwn is the error for a beacon with the key of this peer.
var errOwn = fmt.Errorf("%w: made by this peer", ErrKnown)

// checkNew returns an error if raw claims to be a beacon of this peer or one that is not newer
// than the known one. It does not check the signature: most beacons that arrive are known, and
// checking signatures costs more than everything else.
func (d *Directory) checkNew(raw []byte) error {
	claim, err := peek(raw)
	if err != nil {
		return err
	}
	if claim.Peer == d.cfg.Self {
		return errOwn
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if old := d.entries[claim.Peer]; old != nil && claim.Seq <= old.beacon.Seq {
		return fmt.Errorf("%w: sequence number %d of %s, want more than %d",
			ErrKnown, claim.Seq, claim.Peer, old.beacon.Seq)
	}
	return nil
}

// All returns the beacons of the peers that are present and not suspect, sorted by peer ID.
// Peers known by hearsay only are left out: only a stranger may have said that they exist.
func (d *Directory) All() []Beacon {
	return d.list(func(e *entry, _ time.Time) bool { return !e.suspect() && !e.hearsay() })
}

// Infos returns the addresses of the peers that All returns.
func (d *Directory) Infos() (all []peer.AddrInfo) {
	for _, b := range d.All() {
		all = append(all, b.Info())
	}
	return all
}

// Get returns the beacon of p if p is present, whether suspect or not. See Alive and Suspected.
func (d *Directory) Get(p peer.ID) (Beacon, bool) {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	if e == nil || !d.present(e, now) {
		return Beacon{}, false
	}
	return e.beacon, true
}

// Len returns the number of beacons that All returns.
func (d *Directory) Len() int {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for _, e := range d.entries {
		if d.present(e, now) && !e.suspect() && !e.hearsay() {
			n++
		}
	}
	return n
}

// Expire deletes the entries of peers that expired so long ago that their last beacon is out of
// date. It should be called periodically.
func (d *Directory) Expire() {
	now, date := d.cfg.Local.Now(), d.cfg.Dates.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, e := range d.entries {
		if !d.present(e, now) && d.cfg.outdated(e.beacon, date) {
			delete(d.entries, p)
		}
	}
}

// present reports whether the peer is not dead. The caller holds d.mu.
func (d *Directory) present(e *entry, now time.Time) bool { return d.state(e.life, now) != Dead }

// maxUnknownPeers is how many peers more than this one another peer may know.
const maxUnknownPeers = 32

// ttl is how long the maker of b may be silent, if it may claim the Interval.
func (c directoryConfig) ttl(b Beacon) time.Duration { return max(c.TTL, ttlIntervals*b.Interval) }

// outdated reports whether b is too old for put.
func (c directoryConfig) outdated(b Beacon, date time.Time) bool {
	return b.Time.Before(date.Add(-c.ttl(b) - c.Skew))
}

// Partial reports whether there are more peers than the directory holds.
func (d *Directory) Partial() bool {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return !d.lastEviction.IsZero() && now.Sub(d.lastEviction) < partialFor
}

// Pin keeps p in a partial directory regardless of its coordinate, until it expires or too many
// other peers are pinned after it. It reports whether p is in the directory.
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

// Drop deletes the entry of p. A new beacon adds it again.
func (d *Directory) Drop(p peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.entries, p)
}

// Relayed returns the signed beacon of p for relaying, if p is present, not suspect, and not
// known by hearsay only.
func (d *Directory) Relayed(p peer.ID) (RelayedBeacon, bool) {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	if e == nil || d.state(e.life, now) != Alive || e.hearsay() {
		return RelayedBeacon{}, false
	}
	return e.relayed(now), true
}

// keptAfterEviction is the number of entries that remain after an eviction.
func (c directoryConfig) keptAfterEviction() int { return c.Max - max(1, c.Max/8) }

// evict makes room for one entry if the directory is full. It deletes expired peers first. If
// there are none, it deletes an eighth of the entries, because choosing is more expensive than
// storing. at is the coordinate of this peer.
func (d *Directory) evict(at coords.Coordinate, now time.Time) {
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
	d.lastEviction = now
	d.pins = slices.DeleteFunc(d.pins, func(p peer.ID) bool { return d.entries[p] == nil })
	known := make([]zone.Peer, 0, len(d.entries))
	for p, e := range d.entries {
		if !slices.Contains(d.pins, p) {
			known = append(known, e.zonePeer())
		}
	}
	room := d.cfg.keptAfterEviction() - len(d.pins)
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
