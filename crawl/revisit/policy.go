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
	// Price is the fresh time that one more visit to a page must gain. A higher price means
	// fewer visits; no optimal interval is below 3.35 prices. A page with one change in
	// time T is visited about every sqrt(2 T Price) if that is well below T.
	Price time.Duration
	// Confirm is how many times in a row, Initial apart, a page must answer 404 or 410
	// before it is dropped.
	Confirm int
}

// DefaultPolicy returns a policy for a crawl of weeks. A page that changes once a day is
// visited every 11 hours, once a week every 27 hours, once a year every 8 days.
func DefaultPolicy() Policy {
	return Policy{Min: time.Hour, Max: 60 * 24 * time.Hour, Initial: 3 * 24 * time.Hour,
		Price: 2 * time.Hour, Confirm: 3}
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
	case p.Price <= 0:
		return errors.New("revisit: Price is not positive")
	case p.Confirm < 1:
		return errors.New("revisit: Confirm is less than 1")
	}
	return nil
}

// interval is Interval in seconds, for a rate per second.
func (p Policy) interval(rate float64) float64 {
	if rate <= 0 {
		return p.Max.Seconds()
	}
	price := p.Price.Seconds()
	best := optimum(rate, price)
	if rate*price > gain(peak) { // too fast to be kept fresh, but its links are new
		best = min(best, p.Initial.Seconds())
	}
	return best
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
