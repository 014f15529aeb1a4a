package peers

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/zone"
)

// Bounds of what one exchange tells of third peers.
const (
	maxHave   = 1024 // entries of a digest: no directory is larger
	maxOthers = 64   // beacons, the first time two peers talk
	others    = 24   // beacons, later
)

// Aged is a beacon on its way through a third peer.
type Aged struct {
	Sealed []byte `cbor:"1,keyasint"`
	// Age is how long ago it was heard from its maker. Milliseconds.
	Age int64 `cbor:"2,keyasint"`
}

// age is what was said, made safe.
func (a Aged) age() time.Duration {
	const most = int64(time.Hour / time.Millisecond)
	if a.Age < 0 || a.Age > most {
		return 2 * time.Hour // beyond every TTL: refused
	}
	return time.Duration(a.Age) * time.Millisecond
}

// A digest says which beacons a directory has, in 6 bytes each for some 300:
//
//	salt, 8 bytes | hash of the peer, 4 | age class of its beacon, 2 | hash … | …
//
// The salt is fresh each time, so that nobody can make an ID that hides behind
// another one's hash. The class is time in steps of 128 ms, taken from Seq,
// which turns over every 2.3 hours: longer than twice the longest TTL.
type digest []byte

const (
	digestSalt  = 8
	digestEntry = 6
	classStep   = 7 // bits of Seq, milliseconds
)

func class(b Beacon) uint16 { return uint16(b.Seq >> classStep) }

func hash(b Beacon, salt []byte) uint32 {
	h := fnv.New64a()
	_, _ = h.Write(salt) // never fails
	_, _ = h.Write([]byte(b.Peer))
	x := h.Sum64()
	return uint32(x>>32) ^ uint32(x)
}

// validate bounds a digest of foreign origin.
func (d digest) validate() error {
	if n := len(d); n > digestSalt+maxHave*digestEntry || n > 0 && (n < digestSalt || (n-digestSalt)%digestEntry != 0) {
		return fmt.Errorf("%w: a digest of %d bytes", ErrBeacon, n)
	}
	return nil
}

// table decodes a valid digest.
func (d digest) table() (salt []byte, known map[uint32]uint16) {
	if len(d) == 0 {
		return nil, nil
	}
	salt, rest := d[:digestSalt], d[digestSalt:]
	known = make(map[uint32]uint16, len(rest)/digestEntry)
	for ; len(rest) > 0; rest = rest[digestEntry:] {
		known[binary.BigEndian.Uint32(rest)] = binary.BigEndian.Uint16(rest[4:])
	}
	return salt, known
}

// wish is what one side of an exchange wants of the other.
type wish struct {
	Have digest `cbor:"1,keyasint"`
	// Reach is how far the nearest peers of a full directory go, ms; 0 wants
	// all.
	Reach float64 `cbor:"2,keyasint,omitempty"`
	// Most is how many beacons it takes.
	Most int `cbor:"3,keyasint"`
	// Part is which of Parts equal parts of all peers the wish is about; Parts
	// of 0 or 1 is everybody.
	Part  int `cbor:"4,keyasint,omitempty"`
	Parts int `cbor:"5,keyasint,omitempty"`
}

// partSize is about how many peers a wish is about: those of one part of all, and
// of the next part the next time. So what a digest costs does not grow with the
// directory. Whoever knows few asks for everybody.
const partSize = 32

// maxParts bounds a foreign wish.
const maxParts = maxHave / partSize

// has reports whether the wish is about p.
func (w wish) has(p peer.ID) bool {
	return w.Parts < 2 || int(hash(Beacon{Peer: p}, nil)%uint32(w.Parts)) == w.Part
}

// validate bounds a wish of foreign origin.
func (w wish) validate() error {
	if w.Most < 0 || w.Most > maxOthers || !(w.Reach >= 0 && w.Reach <= 4*coords.MaxComponent) {
		return fmt.Errorf("%w: %d others wanted within %v ms", ErrBeacon, w.Most, w.Reach)
	}
	if w.Parts < 0 || w.Parts > maxParts || w.Part < 0 || w.Part >= max(w.Parts, 1) {
		return fmt.Errorf("%w: part %d of %d wanted", ErrBeacon, w.Part, w.Parts)
	}
	return w.Have.validate()
}

// wish is what this directory wants of the peers that another one knows; at is
// the own place.
func (d *Directory) wish(at coords.Coordinate, most int) wish {
	now := d.cfg.Now()
	have := binary.BigEndian.AppendUint64(nil, rand.Uint64())
	w := wish{Most: most}
	if parts := min(d.Len()/partSize, maxParts); parts > 1 {
		w.Parts, w.Part = parts, int(d.turn.Add(1)%uint32(parts))
	}
	var known []zone.Peer
	listed := 0
	d.mu.RLock()
	for _, e := range d.entries {
		if d.present(e, now) {
			known = append(known, e.zonePeer())
			if w.has(e.beacon.Peer) && listed < maxHave {
				listed++
				have = binary.BigEndian.AppendUint32(have, hash(e.beacon, have[:digestSalt]))
				have = binary.BigEndian.AppendUint16(have, class(e.beacon))
			}
		}
	}
	d.mu.RUnlock()
	w.Have = have
	if d.Partial() {
		// As far as it will go when room has been made: what is beyond would leave
		// again.
		w.Reach = min(zone.Reach(at, known, min(d.kept(), len(known)), d.cfg.Zones), 4*coords.MaxComponent)
	}
	return w
}

// tell lists beacons of present peers that are news to a peer at a place that
// has wished so. Suspects are left out; those that the other one knows are to be
// found in its digest all the same, or everybody would tell it of them.
func (d *Directory) tell(w wish, at coords.Coordinate) []Aged {
	salt, known := w.Have.table()
	now := d.cfg.Now()
	var offers []zone.Offer
	var from []*entry
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.entries {
		if !d.present(e, now) || e.suspect() || !w.has(e.beacon.Peer) {
			continue
		}
		has, older := known[hash(e.beacon, salt)]
		if older && int16(class(e.beacon)-has) <= 0 {
			continue // the same, or a newer one
		}
		offers = append(offers, zone.Offer{Peer: e.zonePeer(), Older: older})
		from = append(from, e)
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	var out []Aged
	for _, i := range zone.Tell(zone.Asker{At: at, Reach: w.Reach}, offers, min(w.Most, maxOthers), rng) {
		out = append(out, from[i].aged(now))
	}
	return out
}

func (e *entry) aged(now time.Time) Aged {
	return Aged{Sealed: e.sealed, Age: max(0, now.Sub(e.heard).Milliseconds())}
}

func (e *entry) zonePeer() zone.Peer {
	return zone.Peer{ID: string(e.beacon.Peer), At: e.beacon.At.Unloaded(e.beacon.Wait)}
}
