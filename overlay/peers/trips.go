package peers

import (
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
)

// Trips are the round trips that the maker of a beacon has measured last, by which others check
// the places of the peers that were measured. Each takes seven bytes: the first six of the SHA-256
// digest of the peer's ID, and c for a round trip of 0.1 ms · 2^(c/16), which is off by 2.2 % at
// most.
type Trips []byte

const (
	tripKey  = 6
	tripSize = tripKey + 1
	tripUnit = 100 * time.Microsecond
	// tripSteps is the number of codes until round trips double.
	tripSteps = 16
)

// keyOf returns by what Trips name a peer.
func keyOf(p peer.ID) string {
	sum := sha256.Sum256([]byte(p))
	return string(sum[:tripKey])
}

// tripsOf encodes round trips to peers, which are named by the text of their ID. Those above
// 6.2 s, and those below 0.1 ms, are rounded to that.
func tripsOf(measured []coords.Trip) (t Trips) {
	for _, m := range measured {
		id, err := peer.Decode(m.Peer)
		if err != nil {
			continue
		}
		doubled := math.Log2(max(1, float64(m.RTT)/float64(tripUnit)))
		t = append(append(t, keyOf(id)...), byte(min(math.Round(tripSteps*doubled), math.MaxUint8)))
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

// decode returns the round trips, to peers named by keyOf.
func (t Trips) decode() (all []coords.Trip) {
	for ; len(t) >= tripSize; t = t[tripSize:] {
		rtt := float64(tripUnit) * math.Exp2(float64(t[tripKey])/tripSteps)
		all = append(all, coords.Trip{Peer: string(t[:tripKey]), RTT: time.Duration(rtt)})
	}
	return all
}

// Observations are the round trips that the present peers and this one have published. They are
// what was known when Service.Observations was called.
type Observations struct {
	self *self
	all  *coords.Observations
}

// Observations collects them.
func (s *Service) Observations() Observations { return observationsOf(s.self, s.dir) }

func observationsOf(s *self, d *Directory) Observations {
	all := coords.NewObservations()
	for _, b := range append(d.All(), s.beacon()) {
		all.Add(keyOf(b.Peer), b.At.Unloaded(b.Wait), b.Trips.decode())
	}
	return Observations{s, all}
}

// Judge returns at which place, without load, a peer is that claims to be at one, and what that is
// worth; see coords.Estimator.Judge.
func (r Observations) Judge(
	p peer.ID, claim coords.Coordinate,
) (coords.Coordinate, coords.Standing) {
	return r.self.judge(p, claim, r.all.Of(keyOf(p)))
}

// place is Judge without what this peer itself has measured.
func (r Observations) place(p peer.ID, claim coords.Coordinate) coords.Coordinate {
	at, _ := coords.Place(claim, r.all.Of(keyOf(p)))
	return at
}
