package coords

import (
	"errors"
	"fmt"
	"math"
)

// StabilityConfig holds the parameters of an Announcer.
type StabilityConfig struct {
	// Move is the change of the point, in milliseconds, that is announced. > 0.
	Move float64
	// Relative is the change of the height or of the error, relative to the last announced
	// one, that is announced. Load can make heights of seconds, for which
	// Move alone would be too sensitive. > 0.
	Relative float64
}

// DefaultStabilityConfig returns 5 ms and 25 %: smaller changes do not alter any choice.
func DefaultStabilityConfig() StabilityConfig {
	return StabilityConfig{Move: 5, Relative: 0.25}
}

// Validate returns an error that names every field that is out of range.
func (c StabilityConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("coords: %s is %v, want %s", name, value, want))
		}
	}
	check(c.Move > 0, "Move", c.Move, "> 0")
	check(c.Relative > 0, "Relative", c.Relative, "> 0")
	return errors.Join(errs...)
}

// Announcer decides when a coordinate has changed enough to be announced, so that small
// fluctuations cause no traffic. It is not safe for concurrent use.
type Announcer struct {
	cfg       StabilityConfig
	last      Coordinate
	announced bool
}

// NewAnnouncer returns an Announcer that has announced nothing yet. The error is that of
// cfg.Validate.
func NewAnnouncer(cfg StabilityConfig) (*Announcer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Announcer{cfg: cfg}, nil
}

// Consider reports whether c should be announced now, and if so treats it as announced.
// It always returns true for the first coordinate.
func (a *Announcer) Consider(c Coordinate) bool {
	c = c.Clone()
	if a.announced && !a.differs(c) {
		return false
	}
	a.last, a.announced = c, true
	return true
}

// differs reports whether c differs enough from the last announced coordinate.
func (a *Announcer) differs(c Coordinate) bool {
	height := math.Abs(c.Height - a.last.Height)
	// The receiver treats errors below a tenth alike.
	was, is := max(a.last.Error, 0.1), max(c.Error, 0.1)
	return c.spread(a.last) > a.cfg.Move ||
		height > max(a.cfg.Move, a.cfg.Relative*a.last.Height) ||
		math.Abs(is-was) > a.cfg.Relative*was
}
