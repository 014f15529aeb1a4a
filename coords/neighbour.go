package coords

import "math"

// neighbour is what an Estimator remembers of one peer: enough to filter its
// round trips and to replay the last exchange.
type neighbour struct {
	at   Coordinate // the peer's last coordinate
	rtts []float64  // ring of the last round trips, ms
	next int        // where in the ring the next one goes
	rtt  float64    // the median of the ring, ms
	seen uint64     // the Estimator's sample count at the last observation
}

// add records a round trip and returns the median of the last window ones.
func (n *neighbour) add(rtt float64, window int) float64 {
	if len(n.rtts) < window {
		n.rtts = append(n.rtts, rtt)
	} else {
		n.rtts[n.next] = rtt
		n.next = (n.next + 1) % window
	}
	n.rtt = lowerMedian(n.rtts)
	return n.rtt
}

// neighbour returns the record of a peer, a fresh one if there is none, and
// makes room by dropping the one that was not observed for the longest time.
func (e *Estimator) neighbour(peer string) *neighbour {
	if n := e.neighbours[peer]; n != nil {
		return n
	}
	if len(e.order) >= e.cfg.MaxNeighbours {
		oldest, least := "", uint64(math.MaxUint64)
		for _, id := range e.order {
			if seen := e.neighbours[id].seen; seen < least {
				oldest, least = id, seen
			}
		}
		e.Forget(oldest)
	}
	n := &neighbour{}
	e.neighbours[peer] = n
	e.order = append(e.order, peer)
	return n
}
