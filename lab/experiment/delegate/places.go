package delegate

import (
	"context"
	"math/rand/v2"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/lab/experiment/data"
)

// placeRounds is the number of exchanges of each crawler with all others before the first
// delegation.
const placeRounds = 40

// place gives the candidates what peers of a network know about themselves: a coordinate, from
// coords.Estimator. Probes are bare round trips, from which no peer learns traits.
//
// A world has no round trips between its crawlers. place derives them from the training sites:
// the distance of two crawlers is at most the distance via any site, so it uses the least of
// these, which is close to the true one if some site is close to either of the two.
func (d *delegator) place(ctx context.Context, training []int) error {
	cfg := coords.DefaultConfig()
	estimators := make([]*coords.Estimator, len(d.candidates))
	for i := range estimators {
		cfg.Rand = rand.New(rand.NewPCG(d.rng.Uint64(), uint64(i)))
		estimators[i] = coords.NewEstimator(cfg)
	}
	rtt := d.crawlerRTTs(training)
	for range placeRounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, e := range estimators {
			for j, other := range estimators {
				if i != j {
					// The estimator rejects outliers; that is no failure.
					_ = e.Observe(d.candidates[j].ID, other.Coordinate(), rtt[i][j])
				}
			}
		}
	}
	for i, e := range estimators {
		d.candidates[i].At = e.Coordinate()
	}
	return nil
}

// crawlerRTTs estimates the round trips among the crawlers.
func (d *delegator) crawlerRTTs(training []int) [][]time.Duration {
	out := make([][]time.Duration, len(d.crawlers))
	for i, a := range d.crawlers {
		out[i] = make([]time.Duration, len(d.crawlers))
		for j, b := range d.crawlers {
			least := data.ProbeFailed
			for _, site := range training {
				least = min(least, d.world.ProbeMS[a][site]+d.world.ProbeMS[b][site])
			}
			out[i][j] = time.Duration(max(least, 0.1) * float64(time.Millisecond))
		}
	}
	return out
}

// samples returns the probes of a site by all candidates.
func (d *delegator) samples(site int) []coords.Sample {
	out := make([]coords.Sample, len(d.candidates))
	for i := range out {
		out[i] = d.sample(i, site)
	}
	return out
}

// proxyOf returns the proxy coordinate that the owner of a training site publishes.
func (d *delegator) proxyOf(samples []coords.Sample) *coords.Proxy {
	p, err := coords.Locate(samples)
	if err != nil {
		return nil
	}
	return &p
}

// learned is the result of training in a world, shared by all strategies.
type learned struct {
	candidates []assign.Candidate
	proxies    map[int]*coords.Proxy // by training site
}

// teach computes the coordinates of the candidates and the proxy coordinates of the training
// sites, once for all strategies.
func (d *delegator) teach(ctx context.Context, training []int) (learned, error) {
	if err := d.place(ctx, training); err != nil {
		return learned{}, err
	}
	l := learned{candidates: d.candidates, proxies: make(map[int]*coords.Proxy, len(training))}
	for _, site := range training {
		if err := ctx.Err(); err != nil {
			return learned{}, err
		}
		l.proxies[site] = d.proxyOf(d.samples(site))
	}
	return l, nil
}
