package wan

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrMatrix is wrapped by all errors about a latency matrix.
var ErrMatrix = errors.New("wan: invalid latency matrix")

// The ranges of a world's random numbers.
const (
	// The ratio of the length of a path to the great circle: cables make detours, and
	// routes follow contracts.
	minInflation, maxInflation = 1.2, 2.2
	// The last mile of one place, in milliseconds of round trip.
	minLastMile, maxLastMile = 1.0, 12.0
	// Jitter as a share of the round trip.
	minJitter, maxJitter = 0.03, 0.05
	// Bandwidth of a place in bytes per second.
	minBandwidth, maxBandwidth = 2e6, 20e6
	// sameSite is the round trip within one row of a matrix with zeros on the diagonal.
	sameSite = 500 * time.Microsecond
)

// Link describes the path between two places.
type Link struct {
	// RTT is the minimum round-trip time.
	RTT time.Duration
	// Jitter is the maximum that a round trip takes beyond RTT, half of it in each
	// direction, uniformly distributed.
	Jitter time.Duration
	// Bps is the bandwidth of one connection in bytes per second, in each direction.
	Bps float64
	// Cut holds back everything that is sent, dials included, until the link is whole again.
	Cut bool
}

// MeanRTT returns the expected round-trip time: RTT plus half of the jitter.
func (l Link) MeanRTT() time.Duration { return l.RTT + l.Jitter/2 }

// Transfer returns the transmission time of n bytes.
func (l Link) Transfer(n int64) time.Duration {
	return time.Duration(float64(n) / l.Bps * float64(time.Second))
}

// World is a set of places, numbered from 0, and the links between them. It is
// immutable and safe for concurrent use.
type World struct {
	seed  uint64
	base  base
	nodes []node
	// lo and hi limit bandwidths; zero means minBandwidth and maxBandwidth.
	lo, hi float64
}

// base is the source of round-trip times without last miles.
type base struct {
	names []string
	rtt   func(a, b int) time.Duration // symmetric
	globe func() []Place               // positions of the rows on the earth
}

// node is one numbered place: a row of the base and its own properties.
type node struct {
	row      int
	lastMile time.Duration
	bps      float64
	load     time.Duration // added to every round trip
	part     int
}

// NewWorld returns a world of the given places. A round-trip time is that of light in
// glass along the great circle, times an inflation of 1.2–2.2, one half of which depends
// on the two cities and the other on the pair, plus the last miles of both ends (1–12 ms
// each). Places of the same name share their inflation. Equal arguments give equal
// worlds.
func NewWorld(places []Place, seed uint64) *World {
	w := &World{seed: seed}
	rows := distinct(places)
	index := make(map[string]int, len(rows))
	for i, p := range rows {
		w.base.names = append(w.base.names, p.Name)
		index[p.Name] = i
	}
	w.base.rtt = func(a, b int) time.Duration {
		return time.Duration(float64(fibreRTT(rows[a].Distance(rows[b]))) * inflation(seed, a, b))
	}
	w.base.globe = func() []Place { return rows }
	for i, p := range places {
		w.nodes = append(w.nodes, w.newNode(index[p.Name], i, true))
	}
	return w
}

// distinct returns the first place of each name.
func distinct(places []Place) []Place {
	var rows []Place
	seen := make(map[string]bool)
	for _, p := range places {
		if !seen[p.Name] {
			seen[p.Name] = true
			rows = append(rows, p)
		}
	}
	return rows
}

// inflation returns the ratio of the path's length to the great circle for a pair.
func inflation(seed uint64, a, b int) float64 {
	reach := (unit(seed, saltReach, uint64(a)) + unit(seed, saltReach, uint64(b))) / 2
	return between((reach+pairUnit(seed, saltInflation, a, b))/2, minInflation, maxInflation)
}

// FromMatrix returns a world of measured round-trip times with one place for each row.
// Both halves of the matrix are averaged. A negative entry is missing and is replaced by
// the other half, or else by the shortest path over one other place. The diagonal, if
// positive, is the round trip within a place. names may be nil. Errors wrap ErrMatrix.
func FromMatrix(names []string, rtt [][]time.Duration, seed uint64) (*World, error) {
	if names == nil {
		names = make([]string, len(rtt))
		for i := range names {
			names[i] = fmt.Sprintf("node-%03d", i)
		}
	}
	if len(names) != len(rtt) {
		return nil, fmt.Errorf("%w: %d names for %d rows", ErrMatrix, len(names), len(rtt))
	}
	full, err := complete(rtt)
	if err != nil {
		return nil, err
	}
	w := &World{seed: seed, base: base{
		names: append([]string(nil), names...),
		rtt:   func(a, b int) time.Duration { return full[a][b] },
	}}
	b := w.base
	w.base.globe = sync.OnceValue(func() []Place { return spreadOut(b, seed) })
	for i := range names {
		w.nodes = append(w.nodes, w.newNode(i, i, false))
	}
	return w, nil
}

// Select returns a world of the given places of w, in that order. A place that occurs
// again has the same row but another last mile. It panics if a number is out of range.
func (w *World) Select(places []int) *World {
	s := &World{seed: w.seed, base: w.base, lo: w.lo, hi: w.hi}
	measured := make(map[int]bool) // a matrix includes the last mile of one place for each row
	for i, p := range places {
		row := w.nodes[p].row
		again := measured[row]
		measured[row] = true
		s.nodes = append(s.nodes, w.newNode(row, i, w.nodes[p].lastMile > 0 || again))
	}
	return s
}

// Extend returns w with the given places of from added, each with a last mile of its own. w was
// selected from the same world.
func (w *World) Extend(from *World, places []int) *World {
	c := w.clone()
	for _, p := range places {
		c.nodes = append(c.nodes, w.newNode(from.nodes[p].row, len(c.nodes), true))
	}
	return c
}

// newNode draws the properties of place number i.
func (w *World) newNode(row, i int, lastMile bool) node {
	lo, hi := w.lo, w.hi
	if hi == 0 {
		lo, hi = minBandwidth, maxBandwidth
	}
	n := node{row: row, bps: betweenLog(unit(w.seed, saltBandwidth, uint64(i)), lo, hi)}
	if lastMile {
		ms := between(unit(w.seed, saltLastMile, uint64(i)), minLastMile, maxLastMile)
		n.lastMile = time.Duration(ms * float64(time.Millisecond))
	}
	return n
}

// WithBandwidth returns w with the bandwidth of each place between lo and hi bytes per
// second, uniform in the logarithm. It also applies to worlds selected from the result.
func (w *World) WithBandwidth(lo, hi float64) *World {
	c := w.clone()
	c.lo, c.hi = lo, hi
	for i := range c.nodes {
		c.nodes[i].bps = betweenLog(unit(w.seed, saltBandwidth, uint64(i)), lo, hi)
	}
	return c
}

// Slowed returns w with the bandwidth of one place divided by by.
func (w *World) Slowed(place int, by float64) *World {
	c := w.clone()
	c.nodes[place].bps /= by
	return c
}

// Loaded returns w with by added to every round trip to and from a place.
func (w *World) Loaded(place int, by time.Duration) *World {
	c := w.clone()
	c.nodes[place].load += by
	return c
}

// Parted returns w with a place in a part of the network. Places in different parts are cut off
// from each other; at first all are in part 0.
func (w *World) Parted(place, part int) *World {
	c := w.clone()
	c.nodes[place].part = part
	return c
}

func (w *World) clone() *World {
	return &World{seed: w.seed, base: w.base, nodes: slices.Clone(w.nodes), lo: w.lo, hi: w.hi}
}

// Len returns the number of places.
func (w *World) Len() int { return len(w.nodes) }

// Name returns the name of a place; several places may have one name.
func (w *World) Name(place int) string { return w.base.names[w.nodes[place].row] }

// Link returns the link between two places. It is symmetric. It panics if a number is
// out of range.
func (w *World) Link(a, b int) Link {
	na, nb := w.nodes[a], w.nodes[b]
	rtt := w.base.rtt(na.row, nb.row) + na.lastMile + nb.lastMile
	share := between(pairUnit(w.seed, saltJitter, a, b), minJitter, maxJitter)
	return Link{
		RTT:    rtt + na.load + nb.load,
		Jitter: time.Duration(share * float64(rtt)),
		Bps:    min(na.bps, nb.bps),
		Cut:    na.part != nb.part,
	}
}
