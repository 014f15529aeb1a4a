package coords

// Anycast reports whether a server answers at several places, as at an anycast address (RFC 4786).
// For most pairs of the peers for which use returns true, of which at least PlacedBy have measured
// a round trip, these are then shorter than one place allows: together less than the distance
// between the two peers without their heights, by more than two standard deviations of a distance.
// Most are two thirds: among peers of which three in ten lie about their place, half are wrong.
func (d Digest) Anycast(use func(peer string) bool) bool {
	anchors, _ := d.anchors(use)
	impossible, possible := 0, 0
	for i, a := range anchors {
		for _, b := range anchors[:i] {
			sigma := max(placePrior, a.sigma, b.sigma)
			if a.rtt+b.rtt < (1-2*sigma)*a.at.spread(b.at) {
				impossible++
			} else {
				possible++
			}
		}
	}
	return len(anchors) >= PlacedBy && impossible > 2*possible
}

// PredictAnycast is Predict for an anycast server: it is as far from a peer as from any that has
// measured it. One must have.
func (d Digest) PredictAnycast(traits []Traits) Mixture {
	var far []float64
	for _, m := range d.Peers {
		if m.OK > 0 {
			far = append(far, m.RTT)
		}
	}
	all := make(Mixture, len(far)*len(traits))
	for i := range all {
		rtt, own := far[i%len(far)], traits[i/len(far)].time(d.MeanKB)
		off := placePrior * (1 + d.BodyTrips) * rtt
		all[i] = Normal{Mean: rtt + max(0, d.Delay+d.bodyTime(rtt, d.MeanKB)+own.Mean),
			Variance: own.Variance + off*off}
	}
	return all
}
