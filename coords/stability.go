package coords

import (
	"errors"
	"fmt"
	"math"
)

// StabilityConfig holds the parameters of an Announcer.
type StabilityConfig struct {
	// Move is the change of place, in milliseconds, that is worth telling. > 0.
	Move float64
	// Relative is the change of the height or of the error, as a share of the
	// last announced one, that is worth telling. Load makes heights of seconds,
	// for which Move alone would be nervous. > 0.
	Relative float64
}

// DefaultStabilityConfig returns 5 ms and 25 %: below both, no choice changes.
func DefaultStabilityConfig() StabilityConfig {
	return StabilityConfig{Move: 5, Relative: 0.25}
}

// Validate names every field that is out of its range.
func (c StabilityConfig) Validate() error {
	var errs []error
	if !(c.Move > 0) {
		errs = append(errs, fmt.Errorf("coords: Move is %v, want > 0", c.Move))
	}
	if !(c.Relative > 0) {
		errs = append(errs, fmt.Errorf("coords: Relative is %v, want > 0", c.Relative))
	}
	return errors.Join(errs...)
}

// Announcer decides when a coordinate has changed enough to be announced (the
// update filter of [2]), so that small wiggles cost no traffic. It is not safe
// for concurrent use.
type Announcer struct {
	cfg  StabilityConfig
	last Coordinate
	told bool
}

// NewAnnouncer returns an Announcer that has announced nothing yet. The error
// is that of cfg.Validate.
func NewAnnouncer(cfg StabilityConfig) (*Announcer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Announcer{cfg: cfg}, nil
}

// Consider reports whether c should be announced now; it then counts as
// announced. The first one always is.
func (a *Announcer) Consider(c Coordinate) bool {
	if a.told && !a.differs(c) {
		return false
	}
	a.last, a.told = c.Clone(), true
	return true
}

// differs compares c with the last announced one.
func (a *Announcer) differs(c Coordinate) bool {
	height := math.Abs(c.Height - a.last.Height)
	// Errors below a tenth weigh the same at the receiver: no news.
	was, is := max(a.last.Error, 0.1), max(c.Error, 0.1)
	return c.spread(a.last) > a.cfg.Move ||
		height > max(a.cfg.Move, a.cfg.Relative*a.last.Height) ||
		math.Abs(is-was) > a.cfg.Relative*was
}
