package coords

import (
	"cmp"
	"slices"
	"time"
)

// Trip is a round trip that a peer has measured to another one: the median of the latest ones.
type Trip struct {
	Peer string
	RTT  time.Duration
}

// TripsMax is the number of Trips that a peer publishes.
const TripsMax = 16

// Trips returns the round trips to the peers that were observed last, at most TripsMax, for
// others to check the places of these peers.
func (e *Estimator) Trips() []Trip {
	latest := slices.Clone(e.order)
	slices.SortFunc(latest, func(a, b *neighbour) int { return cmp.Compare(b.seen, a.seen) })
	var trips []Trip
	for _, n := range latest[:min(TripsMax, len(latest))] {
		trips = append(trips, Trip{Peer: n.id, RTT: duration(n.rtt)})
	}
	return trips
}

// Observation is a round trip that another peer says it has measured to the peer in question.
type Observation struct {
	By   string     // the peer that measured, as Trips name it
	From Coordinate // the place that it claims, without load
	RTT  time.Duration
}

// Place checks the place that a peer claims by the round trips that others say they have measured
// to it. It returns the claim, or if that disagrees with them the place that agrees with them
// best, and true. An observation that is off by Config.OutlierFactor deviations or more is wrong,
// and all such ones count alike. A claim is false if at another place PlacedBy observations fewer
// are wrong: as many as agree with some place whatever they say. So a minority of false
// observations rarely changes anything, and a claim that a majority confirms stands.
//
// With fewer observations than determine a place the claim stands.
func Place(claim Coordinate, observed []Observation) (Coordinate, bool) {
	dims := len(claim.Vec)
	if len(observed) < enough(dims) {
		return claim, false
	}
	fit := placementOf(observed, dims)
	told := append(slices.Clone(claim.Vec), claim.Height)
	wrong := studentLoss(DefaultConfig().OutlierFactor)
	least := fit.boundedLoss(told, wrong) - PlacedBy*wrong
	if least <= 0 {
		return claim, false // no place is that much better
	}
	var best []float64
	for _, start := range append(fit.spacedStarts(), told) {
		end, _ := fit.minimize(start)
		if loss := fit.boundedLoss(end, wrong); loss < least {
			best, least = end, loss
		}
	}
	if best == nil {
		return claim, false
	}
	return Coordinate{Vec: best[:dims:dims], Height: clamp(best[dims], heightMin, MaxComponent),
		Error: fit.usualError(best)}, true
}

// contradicted reports whether more than half of the observations are wrong about a claim.
func contradicted(claim Coordinate, observed []Observation) bool {
	dims := len(claim.Vec)
	if len(observed) < enough(dims) {
		return false
	}
	wrong := studentLoss(DefaultConfig().OutlierFactor)
	loss := placementOf(observed, dims).boundedLoss(append(slices.Clone(claim.Vec), claim.Height),
		wrong)
	return loss > float64(len(observed))/2*wrong
}

// spacedStarts returns the middle of the anchors, and the places of some from the nearest to the
// farthest: liars could claim to be all of the nearest ones.
func (p placement) spacedStarts() [][]float64 {
	sorted := slices.SortedStableFunc(slices.Values(p.anchors), byRTT)
	starts := [][]float64{append(slices.Clone(p.centre), heightMin)}
	for i := range PlacedBy + 1 {
		at := sorted[i*(len(sorted)-1)/PlacedBy].at
		starts = append(starts, append(slices.Clone(at.Vec), heightMin))
	}
	return starts
}

// boundedLoss is the loss of the anchors at x, where each of them counts at most.
func (p placement) boundedLoss(x []float64, most float64) (sum float64) {
	for _, a := range p.anchors {
		sum += min(studentLoss(p.residual(a, x, nil)), most)
	}
	return sum
}

// placementOf returns the search for the place of a peer. Its prior is the middle of those that
// report, and as wide as the round trips.
func placementOf(observed []Observation, dims int) placement {
	fit := placement{centre: make([]float64, dims), heightWidth: shortTrip}
	trips := make([]float64, len(observed))
	for i, r := range observed {
		trips[i] = millis(r.RTT)
		fit.anchors = append(fit.anchors, anchorAt(r.From, trips[i]))
	}
	fit.width = lowerMedian(trips) + shortTrip
	for k := range fit.centre {
		along := make([]float64, len(observed))
		for i, r := range observed {
			along[i] = r.From.Vec[k]
		}
		fit.centre[k] = lowerMedian(along)
	}
	return fit
}

// Observations are what a number of peers have published. They must not be used concurrently.
type Observations struct {
	of     map[string][]Observation // by the peer that was measured
	absent map[string]bool          // peers that are not where they claim to be, as far as is known
}

// NewObservations returns none.
func NewObservations() *Observations {
	return &Observations{of: map[string][]Observation{}, absent: map[string]bool{}}
}

// Add adds the round trips that a peer has published, with the place that it claims. It is called
// once for each peer. Of several trips to one peer the first counts, as each peer has one vote on
// another one, and none to itself does.
func (r *Observations) Add(by string, from Coordinate, trips []Trip) {
	clear(r.absent)
	for i, t := range trips {
		again := func(o Trip) bool { return o.Peer == t.Peer }
		if t.Peer != by && !slices.ContainsFunc(trips[:i], again) {
			r.of[t.Peer] = append(r.of[t.Peer], Observation{By: by, From: from, RTT: t.RTT})
		}
	}
}

// Of returns the observations of a peer by those that are where they claim to be, as far as most
// others that have observed them say: a round trip to a place that is false says nothing.
func (r *Observations) Of(peer string) []Observation {
	var credible []Observation
	for _, o := range r.of[peer] {
		absent, ok := r.absent[o.By]
		if !ok {
			absent = contradicted(o.From, r.of[o.By])
			r.absent[o.By] = absent
		}
		if !absent {
			credible = append(credible, o)
		}
	}
	return credible
}
