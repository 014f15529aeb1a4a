package coords

import "math"

// Announcer decides when a coordinate has changed enough to be announced, so that small
// fluctuations cause no traffic. The zero value has announced nothing. It is not safe for
// concurrent use.
type Announcer struct {
	last      Coordinate
	announced bool
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

// differs reports whether c differs enough from the last announced coordinate: by shortTrip, or as
// much as any place may be wrong. Load can make heights of seconds, for which shortTrip would be
// too sensitive.
func (a *Announcer) differs(c Coordinate) bool {
	height := math.Abs(c.Height - a.last.Height)
	// No receiver believes smaller errors.
	was, is := max(a.last.Error, placeError), max(c.Error, placeError)
	return c.spread(a.last) > shortTrip ||
		height > max(shortTrip, placeError*a.last.Height) ||
		is-was > placeError || was-is > placeError
}
