package revisit

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"peerd/store"
)

// jitterShare is the maximum jitter of a visit, as a share of its interval. Without jitter,
// pages found together would always be due together.
const jitterShare = 0.1

// Policy decides when to visit pages again. It is immutable and safe for concurrent use.
type Policy struct {
	Min     time.Duration // minimum interval, whatever hints say
	Max     time.Duration // maximum interval
	Initial time.Duration // interval after the first visit, without other knowledge
	// Confirm is how many times in a row, Initial apart, a page must answer 404 or 410
	// before it is dropped.
	Confirm int
}

// DefaultPolicy returns a policy for a crawl of weeks. A page that changes once a day is
// visited every day, once a week every five days, once a year every month.
func DefaultPolicy() Policy {
	return Policy{Min: time.Hour, Max: 60 * 24 * time.Hour, Initial: 3 * 24 * time.Hour, Confirm: 3}
}

// Validate returns an error if p is invalid.
func (p Policy) Validate() error {
	switch {
	case p.Min < time.Second:
		return errors.New("revisit: Min is less than a second")
	case p.Initial < p.Min || p.Max < p.Initial:
		return errors.New("revisit: want Min <= Initial <= Max")
	case p.Max > 100*365*24*time.Hour:
		return errors.New("revisit: Max is more than 100 years")
	case p.Confirm < 1:
		return errors.New("revisit: Confirm is less than 1")
	}
	return nil
}

// priorChanges is how many changes the interval that a new page is thought to have had ended with:
// so many that rate is one change in Initial.
const priorChanges = 0.948

// rate returns the changes per second, estimated as for visits at regular intervals.
func (p Policy) rate(h History) float64 {
	n, x := float64(h.Intervals)+1, float64(h.Changes)+priorChanges
	if !(h.Intervals >= 0 && h.Changes >= 0 && h.Changes <= h.Intervals && h.Observed >= 0) {
		return 1 / p.Initial.Seconds() // it came from another peer
	}
	interval := (float64(h.Observed) + p.Initial.Seconds()) / n
	return -math.Log((n-x+0.5)/(n+0.5)) / interval
}

// Next returns when to visit a page again; ok is false if it should be dropped. A page that
// was never visited is due at once, which is the zero time. Otherwise the time is within
// [Min, Max] of the last visit. The result depends only on the page and its history.
func (p Policy) Next(h History, page store.Digest) (at time.Time, ok bool) {
	if int(h.Gone) >= p.Confirm {
		return time.Time{}, false
	}
	last := h.lastVisit()
	if last == 0 {
		return time.Time{}, true
	}
	var wait float64
	switch {
	case h.Failures > 0: // Min, doubled for each further failure
		wait = math.Ldexp(p.Min.Seconds(), int(h.Failures)-1)
	case h.Gone > 0:
		wait = p.Initial.Seconds()
	default:
		wait = math.Sqrt(p.Initial.Seconds() / p.rate(h))
		if h.hintsChange() && h.Right >= h.Wrong {
			wait = min(wait, float64(h.Hinted-h.Fetched))
		}
	}
	return time.Unix(last, 0).Add(p.jitter(p.clamp(wait), page, last)), true
}

func (p Policy) clamp(seconds float64) time.Duration {
	if !(seconds < p.Max.Seconds()) {
		return p.Max
	}
	return max(p.Min, time.Duration(seconds*float64(time.Second)))
}

// jitter moves an interval by up to jitterShare, without leaving [Min, Max].
func (p Policy) jitter(d time.Duration, page store.Digest, last int64) time.Duration {
	width := time.Duration(jitterShare * float64(d))
	lo, hi := max(p.Min, d-width), min(p.Max, d+width)
	x := binary.BigEndian.Uint64(page[:8]) ^ binary.BigEndian.Uint64(page[8:]) ^ uint64(last)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // SplitMix64, Steele et al., OOPSLA 2014
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return lo + time.Duration(float64(hi-lo)*(float64(x>>11)/(1<<53)))
}
