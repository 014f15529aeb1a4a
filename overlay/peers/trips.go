package peers

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
)

// Trips are the round trips that the maker of a beacon has measured last, by which others check
// the places of the peers that were measured. Each takes ten bytes: the first eight of the SHA-256
// digest of the peer's ID, and the round trip in tenths of a millisecond, big-endian.
type Trips []byte

const (
	tripKey  = 8
	tripSize = tripKey + 2
	tripUnit = 100 * time.Microsecond
)

// keyOf returns by what Trips name a peer.
func keyOf(p peer.ID) string {
	sum := sha256.Sum256([]byte(p))
	return string(sum[:tripKey])
}

// tripsOf encodes round trips to peers, which are named by the text of their ID. Those above
// 6.5 s, and those below 0.1 ms, are rounded to that.
func tripsOf(measured []coords.Trip) (t Trips) {
	for _, m := range measured {
		id, err := peer.Decode(m.Peer)
		if err != nil {
			continue
		}
		units := min(max(m.RTT/tripUnit, 1), math.MaxUint16)
		t = binary.BigEndian.AppendUint16(append(t, keyOf(id)...), uint16(units))
	}
	return t
}

func (t Trips) validate() error {
	if len(t)%tripSize != 0 || len(t) > coords.TripsMax*tripSize {
		return fmt.Errorf("trips have %d bytes, want a multiple of %d up to %d", len(t), tripSize,
			coords.TripsMax*tripSize)
	}
	return nil
}

// addTo adds the round trips that a peer at the given place observed.
func (t Trips) addTo(all coords.Observations, from coords.Coordinate) {
	for ; len(t) >= tripSize; t = t[tripSize:] {
		rtt := time.Duration(binary.BigEndian.Uint16(t[tripKey:])) * tripUnit
		key := string(t[:tripKey])
		all[key] = append(all[key], coords.Observation{From: from, RTT: max(rtt, tripUnit)})
	}
}

// Observations are the round trips that the present peers and this one have published. They are
// what was known when Service.Observations was called.
type Observations struct {
	self *self
	all  coords.Observations
}

// Observations collects them.
func (s *Service) Observations() Observations { return observationsOf(s.self, s.dir) }

func observationsOf(s *self, d *Directory) Observations {
	all := coords.Observations{}
	for _, b := range append(d.All(), s.beacon()) {
		b.Trips.addTo(all, b.At.Unloaded(b.Wait))
	}
	return Observations{s, all}
}

// Judge returns at which place, without load, a peer is that claims to be at one, and what that is
// worth; see coords.Estimator.Judge.
func (r Observations) Judge(
	p peer.ID, claim coords.Coordinate,
) (coords.Coordinate, coords.Standing) {
	return r.self.judge(p, claim, r.all[keyOf(p)])
}

// place is Judge without what this peer itself has measured.
func (r Observations) place(p peer.ID, claim coords.Coordinate) coords.Coordinate {
	at, _ := coords.Place(claim, r.all[keyOf(p)])
	return at
}
