package revisit

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"peerd/store"
)

// spread is how far jitter moves a visit, as a share of its interval. Pages
// found together would else be due together for ever.
const spread = 0.1

// Policy says when to look at pages again. It is immutable and safe for
// concurrent use.
type Policy struct {
	Min     time.Duration // no interval is shorter, whatever hints say
	Max     time.Duration // or longer
	Initial time.Duration // after the first visit, if nothing else is known
	// Price is the fresh time that one more visit to a page has to buy. Higher
	// prices mean fewer visits; no optimal interval is below 3.35 prices. Pages
	// with one change in time T are visited each sqrt(2 T Price), about, if
	// that is well below T.
	Price time.Duration
	// Confirm is how many times in a row, Initial apart, a page must be 404 or
	// 410 before it is dropped.
	Confirm int
}

// DefaultPolicy returns a policy for a crawl of weeks: a page that changes once
// a day is visited each 11 hours, once a week each 27 hours, once a year each
// 8 days.
func DefaultPolicy() Policy {
	return Policy{Min: time.Hour, Max: 60 * 24 * time.Hour, Initial: 3 * 24 * time.Hour, Price: 2 * time.Hour, Confirm: 3}
}

// Validate says what is wrong with p.
func (p Policy) Validate() error {
	switch {
	case p.Min < time.Second:
		return errors.New("revisit: Min is below a second")
	case p.Initial < p.Min || p.Max < p.Initial:
		return errors.New("revisit: not Min <= Initial <= Max")
	case p.Max > 100*365*24*time.Hour:
		return errors.New("revisit: Max is above 100 years")
	case p.Price <= 0:
		return errors.New("revisit: Price is not positive")
	case p.Confirm < 1:
		return errors.New("revisit: Confirm is below 1")
	}
	return nil
}

// Interval returns the planned interval of a page with a known rate of changes
// a day, within [Min, Max].
func (p Policy) Interval(rate float64) time.Duration {
	return p.clamp(p.interval(rate / day))
}

// interval is in seconds, for a rate a second.
func (p Policy) interval(rate float64) float64 {
	if rate <= 0 {
		return p.Max.Seconds()
	}
	price := p.Price.Seconds()
	best := optimum(rate, price)
	if rate*price > gain(peak) { // too fast to be kept: its links are still news
		best = min(best, p.Initial.Seconds())
	}
	return best
}

// Next returns when to look at a page again; ok is false if it is to be
// dropped. A page that was never visited is due at once, which is the zero
// time. Otherwise the time is within [Min, Max] of the last visit, and always
// the same for the same page and history.
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
	case h.Failures > 0: // Min, then twice as long each time
		wait = math.Ldexp(p.Min.Seconds(), int(h.Failures)-1)
	case h.Gone > 0:
		wait = p.Initial.Seconds()
	default:
		wait = p.interval(h.Evidence.rateWith(p.prior(h)))
		wait = p.advance(h, min(wait, p.Max.Seconds()))
	}
	return time.Unix(last, 0).Add(p.jitter(p.clamp(wait), page, last)), true
}

func (p Policy) clamp(seconds float64) time.Duration {
	if !(seconds < p.Max.Seconds()) {
		return p.Max
	}
	return max(p.Min, time.Duration(seconds*float64(time.Second)))
}

// jitter moves an interval by up to spread, without leaving [Min, Max].
func (p Policy) jitter(d time.Duration, page store.Digest, last int64) time.Duration {
	width := time.Duration(spread * float64(d))
	lo, hi := max(p.Min, d-width), min(p.Max, d+width)
	x := binary.BigEndian.Uint64(page[:8]) ^ binary.BigEndian.Uint64(page[8:]) ^ uint64(last)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // SplitMix64, Steele et al., OOPSLA 2014
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return lo + time.Duration(float64(hi-lo)*(float64(x>>11)/(1<<53)))
}
