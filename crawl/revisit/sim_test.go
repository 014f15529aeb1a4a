package revisit

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/http"
	"sort"
	"testing"
	"time"

	"peerd/store"
)

// world is a set of pages that change as Poisson processes with log-normal rates, over a
// span of virtual time.
type world struct {
	span    time.Duration
	rates   []float64         // changes per day
	changes [][]time.Duration // since the start
	dated   bool              // they send Last-Modified
}

func newWorld(pages int, days, median, sigma float64, dated bool) *world {
	r := rand.New(rand.NewPCG(90, 1000))
	w := &world{span: time.Duration(days * day * float64(time.Second)), dated: dated}
	for range pages {
		rate := median * math.Exp(sigma*r.NormFloat64())
		var at []time.Duration
		for t := r.ExpFloat64() / rate; t < days; t += r.ExpFloat64() / rate {
			at = append(at, time.Duration(t*day*float64(time.Second)))
		}
		w.rates, w.changes = append(w.rates, rate), append(w.changes, at)
	}
	return w
}

// observe returns what a visit to a page sees.
func (w *world) observe(page int, at time.Duration) Observation {
	n := sort.Search(len(w.changes[page]), func(i int) bool { return w.changes[page][i] > at })
	var o Observation
	binary.BigEndian.PutUint64(o.Digest[:], uint64(n+1))
	if w.dated && n > 0 {
		o.LastModified = start.Add(w.changes[page][n-1]).UTC().Format(http.TimeFormat)
	}
	return o
}

// fresh returns how long the copy of a visit stays fresh until the next visit.
func (w *world) fresh(page int, at, next time.Duration) time.Duration {
	c := w.changes[page]
	if n := sort.Search(len(c), func(i int) bool { return c[i] > at }); n < len(c) {
		next = min(next, c[n])
	}
	return min(next, w.span) - at
}

// run visits all pages, each first within a day, then at the times that next returns. It
// returns the share of time in which copies are fresh, and the number of visits.
func (w *world) run(
	next func(page int, at time.Duration) time.Duration,
) (freshness float64, visits int) {
	sum := 0.0
	for page := range w.rates {
		at := time.Duration(float64(page) / float64(len(w.rates)) * day * float64(time.Second))
		for at < w.span {
			visits++
			then := next(page, at)
			sum += w.fresh(page, at, then).Seconds()
			at = then
		}
	}
	return sum / w.span.Seconds() / float64(len(w.rates)), visits
}

// learn runs a policy that does not know the rates.
func (w *world) learn(p Policy) (freshness float64, visits int) {
	var h History
	current := -1
	return w.run(func(page int, at time.Duration) time.Duration {
		if page != current {
			h, current = History{}, page
		}
		h.Observe(start.Add(at), w.observe(page, at))
		next, _ := p.Next(h, store.Digest{byte(page), byte(page >> 8)})
		return next.Sub(start)
	})
}

// tuned uses a fixed interval for each page, scaled to the wanted number of visits.
func (w *world) tuned(
	visits int, interval func(rate, scale float64) float64,
) (freshness float64, got int) {
	gaps := make([]time.Duration, len(w.rates))
	try := func(scale float64) (float64, int) {
		for i, rate := range w.rates {
			d := interval(rate, scale) * day * float64(time.Second)
			gaps[i] = time.Duration(max(float64(time.Minute), min(d, float64(2*w.span))))
		}
		return w.run(func(page int, at time.Duration) time.Duration { return at + gaps[page] })
	}
	lo, hi := -8.0, 8.0
	for range 16 {
		mid := (lo + hi) / 2
		if freshness, got = try(math.Exp(mid)); got > visits {
			lo = mid
		} else {
			hi = mid
		}
	}
	return freshness, got
}

type contest struct {
	policy, uniform, proportional, best float64
	visits                              int
}

// compete compares a policy with the others of Cho and Garcia-Molina. Those know the true
// rates and get as many visits as the policy made.
func compete(w *world, p Policy) (c contest) {
	c.policy, c.visits = w.learn(p)
	c.uniform, _ = w.tuned(c.visits, func(_, scale float64) float64 { return scale })
	c.proportional, _ = w.tuned(c.visits, func(rate, scale float64) float64 { return scale / rate })
	c.best, _ = w.tuned(c.visits, optimum)
	return c
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		dated bool
		price time.Duration
	}{
		{"few visits", false, 16 * time.Hour},
		{"default", false, 2 * time.Hour},
		{"default, dated", true, 2 * time.Hour},
	} {
		p := DefaultPolicy()
		p.Price = c.price
		got := compete(newWorld(500, 90, 1./20, 1.5, c.dated), p)
		t.Logf(
			"%s: %d visits; policy %.3f, uniform %.3f, proportional %.3f, "+
				"best with known rates %.3f",
			c.name, got.visits, got.policy, got.uniform, got.proportional, got.best)
		if !(got.policy > got.uniform && got.uniform > got.proportional) {
			t.Errorf("%s: policy %.3f, uniform %.3f, proportional %.3f; want descending order",
				c.name, got.policy,
				got.uniform, got.proportional)
		}
		if got.policy > got.best+0.005 {
			t.Errorf("%s: %.3f is better than the optimum %.3f: the simulation is wrong", c.name,
				got.policy, got.best)
		}
	}
}

// BenchmarkFreshness reports the results of the comparison.
func BenchmarkFreshness(b *testing.B) {
	w := newWorld(1000, 90, 1./20, 1.5, false)
	var c contest
	for b.Loop() {
		c = compete(w, DefaultPolicy())
	}
	b.ReportMetric(c.policy, "policy")
	b.ReportMetric(c.uniform, "uniform")
	b.ReportMetric(c.proportional, "proportional")
	b.ReportMetric(c.best, "best")
	b.ReportMetric(float64(c.visits)/float64(len(w.rates)), "visits/page")
}
