package coords

import (
	"math"
	"slices"
)

// neighbour is what an Estimator remembers of one peer: enough to filter its round trips
// and to apply the last exchange again.
type neighbour struct {
	id         string
	at         Coordinate // the peer's last coordinate
	rtts       []float64  // ring of the latest round trips, ms
	next       int        // index in rtts of the next one
	rtt        float64    // the median of rtts, ms
	seen       uint64     // the Estimator's sample count at the last observation
	path       float64    // Estimator.Moved at the last observation
	weight     float64    // of its spring; 0 for an outlier
	baseWeight float64    // weight without slack and errors, for the mean
}

// add records a round trip and sets rtt to the median of the last window ones: the lower of two
// when it falls between them.
func (n *neighbour) add(rtt float64) {
	if len(n.rtts) < window {
		n.rtts = append(n.rtts, rtt)
	} else {
		n.rtts[n.next] = rtt
		n.next = (n.next + 1) % window
	}
	var buf [window]float64
	s := buf[:copy(buf[:], n.rtts)]
	slices.Sort(s)
	n.rtt = s[(len(s)-1)/2]
}

// neighbour returns the record of a peer. If there is none it adds one and, when there
// are too many, drops the least recently observed.
func (e *Estimator) neighbour(peer string) *neighbour {
	if n := e.neighbours[peer]; n != nil {
		return n
	}
	if len(e.order) >= e.cfg.MaxNeighbours {
		oldest, least := "", uint64(math.MaxUint64)
		for _, n := range e.order {
			if n.seen < least {
				oldest, least = n.id, n.seen
			}
		}
		e.Forget(oldest)
	}
	n := &neighbour{id: peer}
	e.neighbours[peer] = n
	e.order = append(e.order, n)
	return n
}
