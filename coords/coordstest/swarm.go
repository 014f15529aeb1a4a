package coordstest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"peerd/coords"
)

// Swarm is a set of estimators; number i is at place i of a World.
type Swarm struct {
	World *World
	Peers []*coords.Estimator
	rng   *rand.Rand
}

// NewSwarm places n estimators into w.
func NewSwarm(w *World, n int, rng *rand.Rand) *Swarm {
	s := &Swarm{World: w, rng: rng}
	cfg := coords.DefaultConfig()
	for range n {
		cfg.Rand = rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		s.Peers = append(s.Peers, coords.NewEstimator(cfg))
	}
	return s
}

// Name returns the name of peer i.
func Name(i int) string { return "peer" + strconv.Itoa(1000 + i)[1:] }

// Round lets every peer make an exchange with the given number of random others. Both
// ends observe it.
func (s *Swarm) Round(partners int) {
	for a := range s.Peers {
		done := 0
		for _, b := range s.rng.Perm(len(s.Peers)) {
			if b == a || done == partners {
				continue
			}
			done++
			rtt := Millis(s.World.Trip(a, b, s.rng))
			at, bt := s.Peers[a].Coordinate(), s.Peers[b].Coordinate()
			// Rejected samples are part of the algorithm.
			_ = s.Peers[a].Observe(Name(b), bt, rtt)
			_ = s.Peers[b].Observe(Name(a), at, rtt)
		}
	}
}

// Errors returns the median and the 90th percentile of |predicted-real|/real
// over all pairs among the first n peers.
func (s *Swarm) Errors(n int) (re50, re90 float64) {
	var errs []float64
	for a := range n {
		for b := range a {
			real := s.World.RTT[a][b]
			d := s.Peers[a].Coordinate().Distance(s.Peers[b].Coordinate())
			errs = append(errs, math.Abs(d-real)/real)
		}
	}
	slices.Sort(errs)
	return errs[len(errs)/2], errs[len(errs)*9/10]
}
