package coords

import "math"

// Standing says whether a peer's own measurements agree with the place that another peer claims.
type Standing int

const (
	// Claimed places were not compared with any measurement.
	Claimed Standing = iota
	// Measured places agree with the round trip to the peer and with its earlier claim.
	Measured
	// Refuted places do not, or cannot be true. They say nothing about distances.
	Refuted
)

func (s Standing) String() string {
	switch s {
	case Claimed:
		return "claimed"
	case Measured:
		return "measured"
	case Refuted:
		return "refuted"
	}
	return "invalid"
}

// Judge compares the place that a peer claims now, without load, with the last exchange with that
// peer. It is refuted if the distance is off by so many deviations that its spring is cut, or if it
// has moved by more than that and the path of this peer since: whoever computes a place from
// measurements in the same space moves about as much as others, and a lie that agrees with each
// single round trip jumps. An earlier place with a large error was not certain, and may have moved
// by that share of the round trip more. Among fewer neighbours than liars could be the majority of,
// no place is judged.
//
// If the observations of others disagree with the claim, Judge returns the place that agrees with
// them (see Place), which is Claimed: the peer itself did not say it.
func (e *Estimator) Judge(
	peer string, claim Coordinate, observed []Observation,
) (Coordinate, Standing) {
	if at, moved := Place(claim, observed); moved {
		return at, Claimed
	}
	return claim, e.compare(peer, claim)
}

// compare is Judge by the own measurements.
func (e *Estimator) compare(peer string, at Coordinate) Standing {
	n := e.neighbours[peer]
	if n == nil || len(e.order) < enough(e.cfg.Dimensions) {
		return Claimed
	}
	distance := e.at.Distance(at)
	moved := math.Hypot(at.spread(n.at), at.Height-n.at.Height)
	off := e.usualMS.above(e.cfg.OutlierFactor)
	if math.Abs(n.rtt-distance) > off || moved > off+(e.moved-n.path)+n.at.Error*n.rtt ||
		logResidual(distance, n.rtt) > e.usualLog.above(e.cfg.OutlierFactor) {
		return Refuted
	}
	return Measured
}
