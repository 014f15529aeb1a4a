package coords

import (
	"cmp"
	"math"
	"slices"
)

const (
	// DefaultKB is the size of a page, in kB, before one was seen.
	DefaultKB = 16.0
	// bodyPrior is the weight of the common transfer rate, in typical pages, when the rate
	// of one peer is estimated.
	bodyPrior = 0.25
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
	// Rate is the ratio of the peer's body times to the common model: 2 takes twice as long.
	Rate float64
	// OK and Failed are the numbers of its samples.
	OK, Failed int
}

// Digest summarises all samples of one server with reduced noise. The server's own delay
// is estimated once for all peers, so that a page for which the server needed long does
// not count against the peer that fetched it.
//
// The time of a page of kB on a warm connection is modelled as
//
//	Delay + rtt + rate·(BodyTrips·rtt + PerKB·kB)
//
// where rtt and rate belong to the peer.
type Digest struct {
	// Delay is what the server adds to a round trip, in ms (median).
	Delay float64
	// BodyTrips is the number of additional round trips that a body costs because of slow
	// start.
	BodyTrips float64
	// PerKB is the time per kB at the common rate, in ms.
	PerKB float64
	// MeanKB is the mean size of the server's pages.
	MeanKB float64
	// Peers holds the peers with samples, sorted by name.
	Peers []Measurement
	// OK and Failed are the numbers of all samples.
	OK, Failed int
}

// DigestOf returns the Digest of samples, which must be valid (Sample.Validate). Their
// order only determines which coordinate of a peer is its last. Without samples the
// Digest has no peers.
func DigestOf(samples []Sample) Digest {
	d := Digest{MeanKB: DefaultKB}
	groups := make(map[string][]Sample)
	bytes, pages := 0.0, 0
	for _, s := range samples {
		if s.handshakeOnly() { // a round trip to a server without delay
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
		bytes += float64(s.Bytes)
	}
	if bytes > 0 {
		d.MeanKB = bytes / 1000 / float64(pages)
	}
	for _, group := range groups {
		d.Peers = append(d.Peers, measure(group))
	}
	slices.SortFunc(d.Peers, func(a, b Measurement) int { return cmp.Compare(a.Peer, b.Peer) })
	d.fitDelay(groups, pages)
	d.fitTransfer(groups)
	return d
}

// measure summarises the samples of one peer, as far as that is possible without the
// others.
func measure(group []Sample) Measurement {
	m := Measurement{Peer: group[0].Peer, At: group[len(group)-1].At, Rate: 1}
	var connects []float64
	quickest := math.Inf(1)
	for _, s := range group {
		if s.Failed {
			m.Failed++
			continue
		}
		m.OK++
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
			case s.Failed, pages > 0 && s.handshakeOnly():
				// Failures and bare handshakes do not show the delay.
			case m.Direct:
				rests = append(rests, millis(s.FirstByte)-m.RTT)
			default:
				firsts = append(firsts, millis(s.FirstByte))
			}
		}
	}
	switch {
	case len(rests) > 0:
		d.Delay = max(0, lowerMedian(rests))
	case len(firsts) > 0:
		// Delay and round trip cannot be separated; how they share the time does not change the
		// order of peers.
		d.Delay = slices.Min(firsts) / 2
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
		d.Peers[i].RTT = max(first-d.Delay, first/10)
	}
}

// fitTransfer fits the common transfer model, then each peer's rate within it.
func (d *Digest) fitTransfer(groups map[string][]Sample) {
	var rows []bodyRow
	for _, m := range d.Peers {
		for _, s := range groups[m.Peer] {
			if !s.Failed && !s.handshakeOnly() {
				rows = append(rows, bodyRow{rtt: m.RTT, kb: float64(s.Bytes) / 1000,
					took: millis(s.Body)})
			}
		}
	}
	d.BodyTrips, d.PerKB = fitBodies(rows)
	for i, m := range d.Peers {
		if m.OK == 0 {
			continue
		}
		prior := bodyPrior * d.bodyTime(m.RTT, d.MeanKB)
		took, usual := prior, prior
		for _, s := range groups[m.Peer] {
			if !s.Failed && !s.handshakeOnly() {
				took += millis(s.Body)
				usual += d.bodyTime(m.RTT, float64(s.Bytes)/1000)
			}
		}
		if usual > 0 {
			d.Peers[i].Rate = clamp(took/usual, 0.02, 50)
		}
	}
}

// bodyTime returns the time of a body at the common rate.
func (d Digest) bodyTime(rtt, kb float64) float64 { return d.BodyTrips*rtt + d.PerKB*kb }

// Time returns the expected time, in ms, of a page of mean size for a measured peer on a
// warm connection. It is NaN for a peer without a successful download.
func (d Digest) Time(m Measurement) float64 {
	if m.OK == 0 {
		return math.NaN()
	}
	return d.Delay + m.RTT + m.Rate*d.bodyTime(m.RTT, d.MeanKB)
}
