package crawl

import (
	"math/rand/v2"
	"time"

	"peerd/store"
)

// throttledTries is how often a URL may be answered with "come again later"
// before it is given up. That is no fault of the URL, so it is allowed more
// often than failing.
const throttledTries = 10

// A URL's patience is a number of parts, of which every try that came to
// nothing uses some: it lasts for MaxTries failed tries, for throttledTries
// throttled ones, or for a mixture. store.Entry.Tries counts the parts used,
// so that they survive restarts and handovers.

// try is the number of parts that one try uses.
func (c *Crawler) try(throttled bool) int {
	if throttled {
		return c.cfg.MaxTries
	}
	return throttledTries
}

// spent says whether used parts are all there are.
func (c *Crawler) spent(used int) bool { return used >= c.cfg.MaxTries*throttledTries }

// maxDoublings bounds the growth of the back-off.
const maxDoublings = 4

// backOff returns the wait after a try, when `used` parts were used before it:
// what the server asked for, or else Config.BackOff, doubled for each try
// before, with up to a third of jitter.
func (c *Crawler) backOff(used int, throttled bool, asked time.Duration) time.Duration {
	before := max(used, 0) / c.try(throttled) // used may come from another peer
	d := c.cfg.BackOff << min(before, maxDoublings)
	return max(asked, d+time.Duration(rand.Int64N(int64(d)/3+1)))
}

// throttled says whether an outcome asks for patience.
func throttled(o store.Outcome) bool { return o == store.OutcomeThrottled }
