package choose

import (
	"math"
	"math/rand/v2"
)

// maletPoint is a Vivaldi coordinate with a height. It has three dimensions, as in the thesis,
// unless the coordinates of the peers have more.
type maletPoint struct {
	at     [8]float64
	height float64
	err    float64
}

func newMaletPoint() *maletPoint { return &maletPoint{height: 1, err: 1} }

func (p *maletPoint) distance(o *maletPoint) float64 {
	sum := 0.0
	for i := range p.at {
		sum += (p.at[i] - o.at[i]) * (p.at[i] - o.at[i])
	}
	return math.Sqrt(sum) + p.height + o.height
}

// pull moves p by one measured time, ms (Dabek et al. 2004, cc = ce = 0.25).
func (p *maletPoint) pull(o *maletPoint, ms float64, rng *rand.Rand) {
	const gain = 0.25
	d := p.distance(o)
	weight := p.err / (p.err + o.err)
	p.err = min(1, math.Abs(d-ms)/max(ms, 1)*gain*weight+p.err*(1-gain*weight))
	force := gain * weight * (ms - d)
	flat := d - p.height - o.height
	for i := range p.at {
		if flat > 1e-6 {
			p.at[i] += force * (p.at[i] - o.at[i]) / d
		} else if i < 3 {
			p.at[i] += force * rng.NormFloat64() / 2
		}
	}
	p.height = max(0.1, p.height+force*(p.height+o.height)/d)
}

// malet updates a Vivaldi coordinate with the times of k random estimations, one by one, and
// chooses the candidate nearest to it. Peers with coordinates keep them; the others update
// theirs with the same times.
func (w *chooseWorld) malet(k int) []int {
	peers := make([]*maletPoint, len(w.names))
	fixed := len(w.places[0].Vec) > 0
	for u := range peers {
		peers[u] = newMaletPoint()
		if fixed {
			copy(peers[u].at[:], w.places[u].Vec)
			peers[u].height, peers[u].err = w.places[u].Height, max(0.05, w.places[u].Error)
		}
	}
	servers := make([]*maletPoint, w.servers())
	orders := make([][]int, w.servers())
	for s := range servers {
		servers[s] = newMaletPoint()
		orders[s] = w.candidates(s)
		c := orders[s]
		w.rng.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
	}
	for i := range k {
		for s, order := range orders {
			if i >= len(order) {
				continue
			}
			u := order[i]
			ms := took(w.measure(u, s))
			before := *peers[u]
			if !fixed {
				peers[u].pull(servers[s], ms, w.rng)
			}
			servers[s].pull(&before, ms, w.rng)
		}
	}
	out := make([]int, len(servers))
	for s, order := range orders {
		least := math.Inf(1)
		for _, u := range order {
			if d := peers[u].distance(servers[s]); d < least {
				out[s], least = u, d
			}
		}
	}
	return out
}
