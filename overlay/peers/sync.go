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

// Bounds of what one exchange relays.
const (
	maxDigest    = 1024 // entries of a digest; no directory is larger
	maxFirstSync = 64   // beacons, in the first exchange after connecting
	maxLaterSync = 24   // beacons, later
)

// RelayedBeacon is a beacon relayed by a third peer.
type RelayedBeacon struct {
	Sealed []byte `cbor:"1,keyasint"`
	// Age is how long ago the sender last heard the maker, in milliseconds.
	Age int64 `cbor:"2,keyasint"`
}

// age returns Age as a duration. An invalid Age is returned as one that every receiver rejects.
func (a RelayedBeacon) age() time.Duration {
	const most = int64(time.Hour / time.Millisecond)
	if a.Age < 0 || a.Age > most {
		return 2 * time.Hour // longer than every lifetime
	}
	return time.Duration(a.Age) * time.Millisecond
}

// A digest lists the beacons that a directory holds:
//
//	salt, 8 bytes | hash of the peer, 4 | age class of its beacon, 2 | hash … | …
//
// The salt is new each time, so that a peer cannot choose an ID with the same hash as another.
// The age class is derived from Seq in steps of 128 ms. It wraps around every 2.3 hours, more
// than twice the longest lifetime.
type digest []byte

const (
	digestSalt  = 8
	digestEntry = 6
	classStep   = 7 // bits of Seq, which is in milliseconds
)

func class(b Beacon) uint16 { return uint16(b.Seq >> classStep) }

func hash(b Beacon, salt []byte) uint32 {
	h := fnv.New64a()
	_, _ = h.Write(salt) // never fails
	_, _ = h.Write([]byte(b.Peer))
	x := h.Sum64()
	return uint32(x>>32) ^ uint32(x)
}

// validate checks a received digest.
func (d digest) validate() error {
	if n := len(d); n > digestSalt+maxDigest*digestEntry || n > 0 &&
		(n < digestSalt || (n-digestSalt)%digestEntry != 0) {
		return fmt.Errorf("%w: digest has %d bytes", ErrBeacon, n)
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

// syncRequest asks the other side of an exchange for beacons.
type syncRequest struct {
	Digest digest `cbor:"1,keyasint"`
	// Radius is the distance in milliseconds up to which a partial directory keeps all peers; 0
	// asks for peers at any distance.
	Radius float64 `cbor:"2,keyasint,omitempty"`
	// MaxBeacons is the maximum number of beacons wanted.
	MaxBeacons int `cbor:"3,keyasint"`
	// Part is the part of all peers that the request covers, out of Parts. Parts of 0 or 1
	// means all peers.
	Part  int `cbor:"4,keyasint,omitempty"`
	Parts int `cbor:"5,keyasint,omitempty"`
}

// partSize is the approximate number of known peers that a request covers. Successive requests
// cover the parts in turn, so the size of a digest does not grow with the directory. A small
// directory asks for all peers.
const partSize = 32

// maxParts bounds the Parts of a received request.
const maxParts = maxDigest / partSize

// covers reports whether the request covers p.
func (w syncRequest) covers(p peer.ID) bool {
	return w.Parts < 2 || int(hash(Beacon{Peer: p}, nil)%uint32(w.Parts)) == w.Part
}

// validate checks a received request.
func (w syncRequest) validate() error {
	if w.MaxBeacons < 0 || w.MaxBeacons > maxFirstSync ||
		!(w.Radius >= 0 && w.Radius <= 4*coords.MaxComponent) {
		return fmt.Errorf("%w: %d beacons requested within %v ms",
			ErrBeacon, w.MaxBeacons, w.Radius)
	}
	if w.Parts < 0 || w.Parts > maxParts || w.Part < 0 || w.Part >= max(w.Parts, 1) {
		return fmt.Errorf("%w: part %d of %d requested", ErrBeacon, w.Part, w.Parts)
	}
	return w.Digest.validate()
}

// syncRequest returns a request for beacons that the directory lacks. at is the coordinate of
// this peer.
func (d *Directory) syncRequest(at coords.Coordinate, most int) syncRequest {
	now := d.cfg.Local.Now()
	have := binary.BigEndian.AppendUint64(nil, rand.Uint64())
	w := syncRequest{MaxBeacons: most}
	if parts := min(d.Len()/partSize, maxParts); parts > 1 {
		w.Parts, w.Part = parts, int(d.syncTurn.Add(1)%uint32(parts))
	}
	var known []zone.Peer
	listed := 0
	list := func(b Beacon) {
		if w.covers(b.Peer) && listed < maxDigest {
			listed++
			have = binary.BigEndian.AppendUint32(have, hash(b, have[:digestSalt]))
			have = binary.BigEndian.AppendUint16(have, class(b))
		}
	}
	if d.cfg.Me != nil {
		list(d.cfg.Me.beacon()) // or every peer would return it
	}
	d.mu.RLock()
	for _, e := range d.entries {
		if d.present(e, now) {
			known = append(known, e.zonePeer())
			list(e.beacon)
		}
	}
	d.mu.RUnlock()
	w.Digest = have
	if d.Partial() {
		// The radius that remains after an eviction: peers beyond it would be evicted.
		kept := min(d.cfg.keptAfterEviction(), len(known))
		w.Radius = min(zone.Reach(at, known, kept, d.cfg.Zones), 4*coords.MaxComponent)
	}
	return w
}

// beaconsFor returns the beacons of present peers to relay in answer to w, which comes from a
// peer at the coordinate at. Suspects and hearsay are left out. Digests contain them, however, or
// every other peer would relay them.
func (d *Directory) beaconsFor(w syncRequest, at coords.Coordinate) []RelayedBeacon {
	salt, known := w.Digest.table()
	now := d.cfg.Local.Now()
	var offers []zone.Offer
	var from []*entry
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.entries {
		if d.state(e.life, now) != Alive || e.hearsay() || !w.covers(e.beacon.Peer) {
			continue
		}
		has, older := known[hash(e.beacon, salt)]
		if older && int16(class(e.beacon)-has) <= 0 {
			continue // the requester has the same or a newer one
		}
		offers = append(offers, zone.Offer{Peer: e.zonePeer(), Older: older})
		from = append(from, e)
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	var out []RelayedBeacon
	for _, i := range zone.SelectOffers(zone.Recipient{At: at, Reach: w.Radius}, offers,
		min(w.MaxBeacons, maxFirstSync), rng) {
		out = append(out, from[i].relayed(now))
	}
	return out
}

func (e *entry) relayed(now time.Time) RelayedBeacon {
	return RelayedBeacon{Sealed: e.sealed, Age: max(0, now.Sub(e.heard).Milliseconds())}
}

func (e *entry) zonePeer() zone.Peer {
	return zone.Peer{ID: string(e.beacon.Peer), At: e.beacon.At.Unloaded(e.beacon.Wait)}
}
