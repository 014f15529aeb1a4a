package coords

import (
	"errors"
	"fmt"
	"math"
)

// Filter is a rule for when a change of place is worth telling.
type Filter int

const (
	// FilterMove compares the place with the last announced one: it is told once
	// it is Move ms away.
	FilterMove Filter = iota
	// FilterEnergy compares the last Window places with the first Window ones
	// since the last announcement, by the energy distance of the two sets: it is
	// told once that is above Energy ([2] ENERGY). Jitter around one place has no
	// energy, however wide it is.
	FilterEnergy
	// FilterRelative compares the centroids of the same two sets: it is told once
	// they are Share of the way to the nearest neighbour apart ([2] RELATIVE).
	FilterRelative
)

// StabilityConfig holds the parameters of an Announcer.
type StabilityConfig struct {
	// Filter is the rule for the place.
	Filter Filter
	// Move is the change of place, in milliseconds, that is worth telling. > 0.
	Move float64
	// Window is the number of places in a set of FilterEnergy and
	// FilterRelative. In [1, 256].
	Window int
	// Energy is the energy distance, in milliseconds, that is worth telling. > 0.
	Energy float64
	// Share is the part of the way to the nearest neighbour that is worth telling.
	// > 0.
	Share float64
	// Relative is the change of the height or of the error, as a share of the
	// last announced one, that is worth telling, whatever the Filter. Load makes
	// heights of seconds, for which Move alone would be nervous. > 0.
	Relative float64
}

// DefaultStabilityConfig returns 5 ms and 25 %: below both, no choice changes.
// The windows and thresholds of the other filters are those of [2].
func DefaultStabilityConfig() StabilityConfig {
	return StabilityConfig{Filter: FilterMove, Move: 5, Window: 32, Energy: 8, Share: 0.3, Relative: 0.25}
}

// Validate names every field that is out of its range.
func (c StabilityConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("coords: %s is %v, want %s", name, value, want))
		}
	}
	check(c.Filter >= FilterMove && c.Filter <= FilterRelative, "Filter", int(c.Filter), "a known one")
	check(c.Move > 0, "Move", c.Move, "> 0")
	check(c.Window >= 1 && c.Window <= 256, "Window", c.Window, "1 to 256")
	check(c.Energy > 0, "Energy", c.Energy, "> 0")
	check(c.Share > 0, "Share", c.Share, "> 0")
	check(c.Relative > 0, "Relative", c.Relative, "> 0")
	return errors.Join(errs...)
}

// Announcer decides when a coordinate has changed enough to be announced (the
// update filter of [2]), so that small wiggles cost no traffic. It is not safe
// for concurrent use.
type Announcer struct {
	cfg     StabilityConfig
	last    Coordinate
	told    bool
	nearest float64
	first   []Coordinate // the first Window places since the last announcement
	latest  []Coordinate // ring of the last Window ones
	next    int
}

// NewAnnouncer returns an Announcer that has announced nothing yet. The error
// is that of cfg.Validate.
func NewAnnouncer(cfg StabilityConfig) (*Announcer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Announcer{cfg: cfg}, nil
}

// SetNearest says how far the nearest neighbour is, in ms, for FilterRelative.
// Until it is known, and when it is not above zero, Move takes the place of its
// Share.
func (a *Announcer) SetNearest(ms float64) { a.nearest = ms }

// Consider reports whether c should be announced now; it then counts as
// announced. The first one always is. It takes c for the next of the places, so
// it wants to be asked once a sample or at a steady pace.
func (a *Announcer) Consider(c Coordinate) bool {
	c = c.Clone()
	if a.cfg.Filter != FilterMove {
		a.remember(c)
	}
	if a.told && !a.differs(c) {
		return false
	}
	a.last, a.told = c, true
	a.first, a.latest, a.next = nil, nil, 0
	return true
}

// remember puts a place into the sets.
func (a *Announcer) remember(c Coordinate) {
	if len(a.first) < a.cfg.Window {
		a.first = append(a.first, c)
		return
	}
	if len(a.latest) < a.cfg.Window {
		a.latest = append(a.latest, c)
		return
	}
	a.latest[a.next] = c
	a.next = (a.next + 1) % a.cfg.Window
}

// differs compares c with the last announced one.
func (a *Announcer) differs(c Coordinate) bool {
	height := math.Abs(c.Height - a.last.Height)
	// Errors below a tenth weigh the same at the receiver: no news.
	was, is := max(a.last.Error, 0.1), max(c.Error, 0.1)
	return a.moved(c) ||
		height > max(a.cfg.Move, a.cfg.Relative*a.last.Height) ||
		math.Abs(is-was) > a.cfg.Relative*was
}

// moved applies the Filter.
func (a *Announcer) moved(c Coordinate) bool {
	if a.cfg.Filter == FilterMove {
		return c.spread(a.last) > a.cfg.Move
	}
	if len(a.latest) < a.cfg.Window {
		return false
	}
	if a.cfg.Filter == FilterEnergy {
		return energy(a.first, a.latest) > a.cfg.Energy
	}
	limit := a.cfg.Move
	if a.nearest > 0 {
		limit = a.cfg.Share * a.nearest
	}
	return centroid(a.first).spread(centroid(a.latest)) > limit
}

// energy is the energy distance of two sets of places of the same size (Székely
// and Rizzo's statistic): 0 when they are spread alike.
func energy(a, b []Coordinate) float64 {
	n := float64(len(a))
	sum := func(x, y []Coordinate) (s float64) {
		for _, p := range x {
			for _, q := range y {
				s += p.spread(q)
			}
		}
		return s / (n * n)
	}
	return n / 2 * (2*sum(a, b) - sum(a, a) - sum(b, b))
}

// centroid is the mean of places.
func centroid(of []Coordinate) Coordinate {
	mean := Coordinate{Vec: make([]float64, len(of[0].Vec))}
	for _, c := range of {
		for i, x := range c.Vec {
			mean.Vec[i] += x / float64(len(of))
		}
	}
	return mean
}
