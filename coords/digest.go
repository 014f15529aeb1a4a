package coords

import (
	"cmp"
	"math"
	"slices"
)

const (
	// defaultKB is the page size assumed while no page was seen.
	defaultKB = 16.0
	// bodyPrior is how many typical pages the common transfer rate counts for
	// when a peer's own rate is estimated.
	bodyPrior = 0.25
)

// Measured is what is known of one peer that downloaded from a server.
type Measured struct {
	// Peer and At are those of its last sample.
	Peer string
	At   Coordinate
	// RTT is its round trip to the server, in ms: from the handshakes, where
	// there was one. Meaningless unless OK > 0.
	RTT float64
	// Direct says that RTT comes from a handshake; otherwise it is what the
	// server's delay leaves of the first byte.
	Direct bool
	// Rate is how its bodies compare to the common model: 2 takes twice as long.
	Rate float64
	// OK and Failed count its samples.
	OK, Failed int
}

// Digest is what the samples of one server say together, noise reduced: the
// server's own delay is estimated once for all peers, so that a page that took
// the server long does not speak against the peer that happened to fetch it.
//
// The time of a page of kB on a warm connection is modelled as
//
//	Delay + rtt + rate·(Turns·rtt + PerKB·kB)
//
// where rtt and rate belong to the peer.
type Digest struct {
	// Delay is what the server adds to a round trip, in ms (median).
	Delay float64
	// Turns is the number of round trips that a body costs on top: slow start.
	Turns float64
	// PerKB is the time of a kB at the common rate, in ms.
	PerKB float64
	// MeanKB is the mean size of the server's pages.
	MeanKB float64
	// Peers holds those with samples, sorted by name.
	Peers []Measured
	// OK and Failed count all samples.
	OK, Failed int
}

// DigestOf digests samples, which must be valid (Sample.Validate); their order
// matters only for which coordinate of a peer is its last. None give a Digest
// without peers.
func DigestOf(samples []Sample) Digest {
	d := Digest{MeanKB: defaultKB}
	groups := make(map[string][]Sample)
	bytes, pages := 0.0, 0
	for _, s := range samples {
		if s.bare() { // a round trip, of a server that needs no time
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
	slices.SortFunc(d.Peers, func(a, b Measured) int { return cmp.Compare(a.Peer, b.Peer) })
	d.settleDelay(groups, pages)
	d.settleBodies(groups)
	return d
}

// measure digests the samples of one peer as far as they stand alone.
func measure(group []Sample) Measured {
	m := Measured{Peer: group[0].Peer, At: group[len(group)-1].At, Rate: 1}
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
		// No answer comes in less than a round trip: this undoes handshakes that
		// were sent twice.
		m.RTT, m.Direct = min(lowerMedian(connects), quickest), true
	}
	return m
}

// settleDelay estimates the server's delay from the peers whose round trip is
// known, then the round trip of the others from the delay.
func (d *Digest) settleDelay(groups map[string][]Sample, pages int) {
	var rests, firsts []float64
	for _, m := range d.Peers {
		for _, s := range groups[m.Peer] {
			switch {
			case s.Failed, pages > 0 && s.bare():
				// Nothing, or a handshake alone: it does not tell the delay.
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
		// Nothing tells the two apart; the shares do not change the order.
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

// settleBodies fits the common transfer model, then each peer's rate within it.
func (d *Digest) settleBodies(groups map[string][]Sample) {
	var rows []bodyRow
	for _, m := range d.Peers {
		for _, s := range groups[m.Peer] {
			if !s.Failed && !s.bare() {
				rows = append(rows, bodyRow{rtt: m.RTT, kb: float64(s.Bytes) / 1000, took: millis(s.Body)})
			}
		}
	}
	d.Turns, d.PerKB = fitBodies(rows)
	for i, m := range d.Peers {
		if m.OK == 0 {
			continue
		}
		prior := bodyPrior * d.body(m.RTT, d.MeanKB)
		took, usual := prior, prior
		for _, s := range groups[m.Peer] {
			if !s.Failed && !s.bare() {
				took += millis(s.Body)
				usual += d.body(m.RTT, float64(s.Bytes)/1000)
			}
		}
		if usual > 0 {
			d.Peers[i].Rate = clamp(took/usual, 0.02, 50)
		}
	}
}

// body is the time of a body at the common rate.
func (d Digest) body(rtt, kb float64) float64 { return d.Turns*rtt + d.PerKB*kb }

// Time returns the expected time, in ms, of a page of mean size for a measured
// peer on a warm connection. NaN for a peer without a successful download.
func (d Digest) Time(m Measured) float64 {
	if m.OK == 0 {
		return math.NaN()
	}
	return d.Delay + m.RTT + m.Rate*d.body(m.RTT, d.MeanKB)
}
