package coords

import (
	"math/rand/v2"
	"testing"
	"time"
)

// hintWorld are peers and servers anywhere in a square of 200 ms.
type hintWorld struct {
	rng   *rand.Rand
	peers []Coordinate
}

func newHintWorld() hintWorld {
	w := hintWorld{rng: rand.New(rand.NewPCG(5, 6))}
	for range 10 {
		w.peers = append(w.peers, w.place())
	}
	return w
}

func (w hintWorld) place() Coordinate {
	return Coordinate{Vec: []float64{w.rng.Float64() * 200, w.rng.Float64() * 200}, Height: 2,
		Error: 0.1}
}

// about returns a place some ms away.
func (w hintWorld) about(c Coordinate) Coordinate {
	c = c.Clone()
	c.Vec[0] += 4 * w.rng.NormFloat64()
	c.Vec[1] += 4 * w.rng.NormFloat64()
	return c
}

// precedents returns n servers, of which a share is near the hint of its place.
func (w hintWorld) precedents(n int, share float64) []Precedent {
	var all []Precedent
	for i := range n {
		k := Precedent{At: w.place(), Hints: []Coordinate{w.place()}}
		if float64(i) < share*float64(n) {
			k.Hints[0] = w.about(k.At)
		}
		all = append(all, k)
	}
	return all
}

// The share of right hints is found whatever it is, and not believed of few precedents. Hints that
// mislead become wide instead: as wide as the world.
func TestLearnHints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n                       int
		right, low, high, width float64
	}{{200, 1, .9, 1, 20}, {200, .6, .5, .75, 20}, {200, 0, 0, .5, 200}, {4, 1, .3, .5, 20},
		{4, 0, 0, .5, 200}, {0, 1, 0, 0, 0}} {
		w := newHintWorld()
		h := LearnHints([]Coordinate{w.place()}, w.precedents(c.n, c.right), w.peers)
		if !(h.share >= c.low && h.share <= c.high) {
			t.Errorf("%d precedents, %v right: share %.2f, want %v to %v", c.n, c.right, h.share,
				c.low, c.high)
		}
		if h.width > c.width || c.width == 200 && h.width < 40 && h.share > 0.1 {
			t.Errorf("%d precedents, %v right: width %.1f, want about %v ms", c.n, c.right, h.width,
				c.width)
		}
	}
}

// Where hints were right, a server is placed by one measurement; where they misled, as well as
// without hints; and if it is not near a hint that was right before, measurements tell.
func TestBelieveHints(t *testing.T) {
	t.Parallel()
	off := func(right float64, measured int, hint func(hintWorld, Coordinate) Coordinate) float64 {
		w := newHintWorld()
		known, sum := w.precedents(100, right), 0.0
		for range 20 {
			server := w.place()
			var samples []Sample
			for i, p := range w.peers[:measured] {
				rtt := time.Duration(p.Distance(server) * float64(time.Millisecond))
				samples = append(samples, Sample{Peer: string(rune('a' + i)), At: p, Connect: rtt,
					FirstByte: rtt + 30*time.Millisecond, Body: time.Millisecond, Bytes: 9000})
			}
			var h Hints
			if hint != nil {
				h = LearnHints([]Coordinate{hint(w, server)}, known, w.peers)
			} else {
				w.place() // the same numbers
			}
			all := DigestOf(samples, Population{}).Believe(w.peers, h,
				func(string) bool { return true })
			for _, p := range all {
				sum += p.spread(server) / float64(20*len(all))
			}
		}
		return sum
	}
	anywhere := func(w hintWorld, _ Coordinate) Coordinate { return w.place() }
	none, one := off(1, 1, nil), off(1, 1, hintWorld.hint)
	if one > none/2 {
		t.Errorf("with right hints places are %.1f ms off, without %.1f", one, none)
	}
	if wrong := off(0, 1, anywhere); wrong > 1.1*none {
		t.Errorf("with hints that mislead places are %.1f ms off, without %.1f", wrong, none)
	}
	if none, wrong := off(1, 4, nil), off(1, 4, anywhere); wrong > 1.5*none {
		t.Errorf("after four measurements places are %.1f ms off by a wrong hint, %.1f without",
			wrong, none)
	}
}

// hint returns a right hint of a server.
func (w hintWorld) hint(server Coordinate) Coordinate { return w.about(server) }
