package coords

import (
	"cmp"
	"math"
	"slices"
)

const (
	// DefaultKB is the size of a page, in kB, before one was seen: the median of HTML of home pages
	// in 2024 (HTTP Archive, Web Almanac, chapter on page weight).
	DefaultKB = 18.0
	// noisePrior is the variance of one download, relative to the square of what it measures:
	// of the server's delay, and of the time of a kB, as of a distance. priorCount is its weight in
	// downloads.
	noisePrior = placePrior * placePrior
)

// Measurement summarises the samples of one peer that downloaded from a server.
type Measurement struct {
	// Peer is the peer's name, At its coordinate in its last sample.
	Peer string
	At   Coordinate
	// RTT is the round trip from the peer to the server in ms, from handshakes if there were
	// any. Valid only if OK > 0.
	RTT float64
	// Direct reports whether RTT comes from a handshake. Otherwise it is the time to the
	// first byte without the server's delay.
	Direct bool
	// Traits are those that the peer has published, updated by its downloads here.
	Traits Traits
	// OK and Failed are the numbers of its samples, and Pages that of the ones in OK that are more
	// than a handshake.
	OK, Failed, Pages int
}

// Digest summarises all samples of one server with reduced noise. The server's own delay
// is estimated once for all peers, so that a page for which the server needed long does
// not count against the peer that fetched it.
//
// The time of a page of kB on a warm connection is modelled as
//
//	Delay + rtt + BodyTrips·rtt + PerKB·kB + Lag + ownPerKB·kB
//
// where rtt, Lag and ownPerKB belong to the peer.
type Digest struct {
	// Delay is what the server adds to a round trip, in ms (median).
	Delay float64
	// BodyTrips is the number of additional round trips that a body costs because of slow
	// start.
	BodyTrips float64
	// PerKB is the time per kB of a typical peer, in ms.
	PerKB float64
	// Shared is the variance, in ms², that the times of all peers have in common, because they
	// share Delay and PerKB. It makes no peer nearer than another.
	Shared float64
	// MeanKB is the mean size of the server's pages.
	MeanKB float64
	// Peers holds the peers with samples, sorted by name.
	Peers []Measurement
	// OK and Failed are the numbers of all samples.
	OK, Failed int

	// tripsVariance is that of BodyTrips, and near the mean round trip of the downloads, at which
	// it makes no difference: peers near a server say little of what slow start costs farther away.
	tripsVariance, near float64
}

// DigestOf returns the Digest of samples, which must be valid (Sample.Validate), by peers of the
// given population. The order of samples only determines which coordinate of a peer is its last.
// Without samples the Digest has no peers.
func DigestOf(samples []Sample, peers Population) Digest {
	d := Digest{MeanKB: DefaultKB}
	groups := make(map[string][]Sample)
	kb, pages := 0.0, 0
	for _, s := range samples {
		if s.HandshakeOnly() { // a round trip to a server without delay
			s.FirstByte = s.Connect
		} else if !s.Failed {
			pages++
		}
		groups[s.Peer] = append(groups[s.Peer], s)
		if s.Failed {
			d.Failed++
			continue
		}
		d.OK++
		kb += s.kb()
	}
	if kb > 0 {
		d.MeanKB = kb / float64(pages)
	}
	for _, group := range groups {
		m := measure(group)
		m.Traits = peers.Of(m.Peer)
		d.Peers = append(d.Peers, m)
	}
	slices.SortFunc(d.Peers, func(a, b Measurement) int { return cmp.Compare(a.Peer, b.Peer) })
	d.fitDelay(groups, pages)
	d.fitTransfer(groups)
	d.fitSize(samples, pages)
	return d
}

// measure summarises the samples of one peer, as far as that is possible without the
// others.
func measure(group []Sample) Measurement {
	m := Measurement{Peer: group[0].Peer, At: group[len(group)-1].At}
	var connects []float64
	quickest := math.Inf(1)
	for _, s := range group {
		if s.Failed {
			m.Failed++
			continue
		}
		m.OK++
		if !s.HandshakeOnly() {
			m.Pages++
		}
		quickest = min(quickest, millis(s.FirstByte))
		if !s.Reused && s.Connect > 0 {
			connects = append(connects, millis(s.Connect))
		}
	}
	if len(connects) > 0 {
		// No answer arrives in less than a round trip: this corrects handshakes with a
		// retransmission.
		m.RTT, m.Direct = min(lowerMedian(connects), quickest), true
	}
	return m
}

// fitDelay estimates the server's delay from the peers with a known round trip, then the
// round trip of the other peers from the delay.
func (d *Digest) fitDelay(groups map[string][]Sample, pages int) {
	var rests, firsts []float64
	for _, m := range d.Peers {
		for _, s := range groups[m.Peer] {
			switch {
			case s.Failed, pages > 0 && s.HandshakeOnly():
				// Failures and bare handshakes do not show the delay.
			case m.Direct:
				rests = append(rests, millis(s.FirstByte)-m.RTT-m.Traits.Lag.Mean)
			default:
				firsts = append(firsts, millis(s.FirstByte)-m.Traits.Lag.Mean)
			}
		}
	}
	switch {
	case len(rests) > 0:
		d.Delay = max(0, lowerMedian(rests))
	case len(firsts) > 0:
		// Delay and round trip cannot be separated; how they share the time does not change the
		// order of peers.
		d.Delay = max(0, slices.Min(firsts)) / 2
	}
	for i, m := range d.Peers {
		if m.Direct || m.OK == 0 {
			continue
		}
		var own []float64
		for _, s := range groups[m.Peer] {
			if !s.Failed {
				own = append(own, millis(s.FirstByte))
			}
		}
		first := lowerMedian(own)
		d.Peers[i].RTT = max(first-d.Delay-m.Traits.Lag.Mean, first/10)
	}
	d.fitLags(groups, rests, pages)
}

// fitLags updates the lag of each peer by what its downloads took beyond a round trip and the
// server's delay. rests are all such times without the lags known before.
func (d *Digest) fitLags(groups map[string][]Sample, rests []float64, pages int) {
	noise, known := noisePrior*d.Delay*d.Delay, 0.0
	for _, m := range d.Peers {
		known += m.Traits.Lag.Variance / float64(len(d.Peers))
	}
	share, sum := noise/(noise+known+1e-9), priorCount*noise
	limit := 9 * (noise + known)
	for _, x := range rests {
		e := min((x-d.Delay)*(x-d.Delay), limit) // a page may be late for many reasons
		sum += share*known + share*share*e
	}
	noise = sum/(priorCount+float64(len(rests))) + 1
	if n := float64(len(rests)); n > 0 {
		d.Shared = math.Pi / 2 * (noise + known) / n // the variance of a median
	}
	for i, m := range d.Peers {
		var own []float64
		for _, s := range groups[m.Peer] {
			if m.Direct && !s.Failed && (pages == 0 || !s.HandshakeOnly()) {
				own = append(own, millis(s.FirstByte)-m.RTT-d.Delay)
			}
		}
		if n := float64(len(own)); n > 0 {
			shown := Normal{Mean: lowerMedian(own), Variance: noise / n}
			// A page may be late for many reasons: Student's t.
			shown.Variance /= min(1, studentWeight(shown.off(m.Traits.Lag)))
			d.Peers[i].Traits.Lag = m.Traits.Lag.update(shown)
		}
	}
}

// fitTransfer fits the common transfer model, then what each peer's time per kB exceeds it by.
func (d *Digest) fitTransfer(groups map[string][]Sample) {
	var rows []bodyRow
	known := 0.0
	for _, m := range d.Peers {
		known += m.Traits.PerKB.Variance / float64(len(d.Peers))
		for _, s := range groups[m.Peer] {
			if !s.Failed && !s.HandshakeOnly() {
				kb := s.kb()
				rows = append(rows, bodyRow{rtt: m.RTT, kb: kb,
					took: max(0, millis(s.Body)-m.Traits.PerKB.Mean*kb)})
			}
		}
	}
	d.BodyTrips, d.PerKB = fitBodies(rows)
	d.tripsVariance, d.near = tripsVariance(rows)
	if len(rows) > 0 {
		all := known + noisePrior*d.PerKB*d.PerKB
		d.Shared += all / float64(len(rows)) * d.MeanKB * d.MeanKB
	}
	for i, m := range d.Peers {
		took, usual, kb, n := 0.0, 0.0, 0.0, 0.0
		for _, s := range groups[m.Peer] {
			if !s.Failed && !s.HandshakeOnly() {
				took += millis(s.Body)
				usual += d.bodyTime(m.RTT, s.kb())
				kb += s.kb()
				n++
			}
		}
		if kb > 0 {
			usual /= kb
			shown := Normal{Mean: took/kb - usual,
				Variance: noisePrior * usual * usual / n}
			d.Peers[i].Traits.PerKB = m.Traits.PerKB.update(shown)
		}
	}
}

// fitSize adds to Shared what is uncertain of the mean size of pages.
func (d *Digest) fitSize(samples []Sample, pages int) {
	squares := priorCount * noisePrior * d.MeanKB * d.MeanKB
	for _, s := range samples {
		if off := s.kb() - d.MeanKB; !s.Failed && !s.HandshakeOnly() {
			squares += off * off
		}
	}
	n := float64(pages)
	d.Shared += d.PerKB * d.PerKB * squares / ((n + priorCount) * max(n, 1))
}

// bodyTime returns the time of a body at the common rate.
func (d Digest) bodyTime(rtt, kb float64) float64 { return d.BodyTrips*rtt + d.PerKB*kb }

// Time returns the time, in ms, of a page of mean size for a measured peer on a warm connection.
// The variance is that of a comparison with other peers, without Shared. The mean is NaN for a
// peer without a successful download.
func (d Digest) Time(m Measurement) Normal {
	if m.OK == 0 {
		return Normal{Mean: math.NaN()}
	}
	own := m.Traits.time(d.MeanKB)
	own.Mean = m.RTT + max(0, d.Delay+d.bodyTime(m.RTT, d.MeanKB)+own.Mean)
	return own
}

// Predict is Time for a peer that did not download from the server, which is at one of the places.
// peer holds equally likely places of the peer, traits equally likely Traits; neither may be empty.
func (d Digest) Predict(places Places, peer []Coordinate, traits []Traits) Mixture {
	m := make(Mixture, len(places))
	for i, p := range places {
		at := peer[i%len(peer)]
		off := placeErrorOf(at)
		own := traits[i*len(traits)/len(places)].time(d.MeanKB)
		far := p.Distance(at)
		trips := (1 + d.BodyTrips) * far
		misplaced := math.Hypot(off, p.Error) * trips
		m[i] = Normal{Mean: max(far, d.Delay+trips+d.PerKB*d.MeanKB+own.Mean),
			Variance: own.Variance + misplaced*misplaced +
				d.tripsVariance*(far-d.near)*(far-d.near)}
	}
	return m
}
