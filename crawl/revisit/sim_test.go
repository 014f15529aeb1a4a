package revisit

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"peerd/store"
)

const day = 86400.0 // seconds

// world is a set of pages that change as Poisson processes with log-normal rates, over a
// span of virtual time.
type world struct {
	span    time.Duration
	rates   []float64         // changes per day
	changes [][]time.Duration // since the start
}

func newWorld(pages int, days, median, sigma float64) *world {
	r := rand.New(rand.NewPCG(90, 1000))
	w := &world{span: time.Duration(days * day * float64(time.Second))}
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

// A policy that does not know the rates keeps more copies fresh than uniform visits, and these more
// than visits in proportion to the true rates, with as many visits (Cho and Garcia-Molina,
// "Effective page refresh policies for Web crawlers", TODS 2003).
func TestFreshness(t *testing.T) {
	t.Parallel()
	for _, initial := range []time.Duration{24 * time.Hour, 72 * time.Hour} {
		w, p := newWorld(500, 90, 1./20, 1.5), DefaultPolicy()
		p.Initial = initial
		learned, visits := w.learn(p)
		uniform, _ := w.tuned(visits, func(_, scale float64) float64 { return scale })
		proportional, _ := w.tuned(visits, func(rate, scale float64) float64 {
			return scale / rate
		})
		t.Logf("initially %v: %d visits; policy %.3f, uniform %.3f, proportional %.3f", initial,
			visits, learned, uniform, proportional)
		if !(learned > uniform && uniform > proportional) {
			t.Errorf("policy %.3f, uniform %.3f, proportional %.3f; want descending order",
				learned, uniform, proportional)
		}
	}
}
