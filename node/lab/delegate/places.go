package delegate

import (
	"math"
	"math/rand/v2"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/node/lab/data"
)

const (
	// placeRounds is how often crawlers exchange round trips with all others
	// before they delegate anything.
	placeRounds = 40
	// gossipRounds is how often crawlers and owners hear what the others have
	// learned of themselves.
	gossipRounds = 6
)

// place gives the candidates what peers of a network know of themselves: a
// coordinate, by the product's own coords.Estimator, and traits, by a
// coords.Learner each, from the training sites, which all of them probed.
//
// A world has no round trips among its crawlers. They are taken to be what the
// training sites tell of them: no two are farther from each other than the way
// over any site, so the least of those, which is close to the truth where some
// site is close to one of the two.
func (d *delegator) place(training []int) error {
	cfg := coords.DefaultConfig()
	estimators := make([]*coords.Estimator, len(d.candidates))
	for i := range estimators {
		cfg.Rand = rand.New(rand.NewPCG(d.rng.Uint64(), uint64(i)))
		var err error
		if estimators[i], err = coords.NewEstimator(cfg); err != nil {
			return err
		}
	}
	rtt := d.crawlerRTTs(training)
	for range placeRounds {
		for i, e := range estimators {
			for j, other := range estimators {
				if i != j {
					// Outliers are refused, which is part of it.
					_ = e.Observe(d.candidates[j].ID, other.Coordinate(), rtt[i][j])
				}
			}
		}
	}
	for i, e := range estimators {
		d.candidates[i].At = e.Coordinate()
	}
	return d.learn(training)
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

// learn lets the crawlers learn their traits from the training sites, and the
// owners of these theirs, each from what the others publish.
func (d *delegator) learn(training []int) error {
	learners := make([]*coords.Learner, len(d.candidates))
	for i := range learners {
		cfg := coords.DefaultLearnerConfig()
		cfg.Subnets = min(max(cfg.Subnets, len(training)), 1<<16)
		var err error
		if learners[i], err = coords.NewLearner(cfg, d.candidates[i].ID); err != nil {
			return err
		}
		for _, site := range training {
			learners[i].Observe(d.subnetOf(site).String(), d.sample(i, site))
		}
		d.candidates[i].Traits = learners[i].Traits()
	}
	for range gossipRounds {
		for _, site := range training {
			p := coords.Proxy{Traits: d.hostTraits(d.samples(site))}
			for _, l := range learners {
				l.Told(d.subnetOf(site).String(), p)
			}
		}
		met := make([]coords.Traits, len(learners))
		for i := range learners {
			met[i] = d.candidates[i].Traits
		}
		for i, l := range learners {
			l.Meet(met)
			d.candidates[i].Traits = l.Traits()
		}
	}
	return nil
}

// samples are the probes of a site by everybody.
func (d *delegator) samples(site int) []coords.Sample {
	out := make([]coords.Sample, len(d.candidates))
	for i := range out {
		out[i] = d.sample(i, site)
	}
	return out
}

// hostTraits is what the owner of a site finds out from probes of it.
func (d *delegator) hostTraits(samples []coords.Sample) coords.Traits {
	var rows []coords.TraitRow
	for _, s := range samples {
		if i := d.index[s.Peer]; !s.Failed {
			rows = append(rows, coords.TraitRow{Peer: d.candidates[i].Traits, Time: math.Log(float64(s.FirstByte)/float64(time.Millisecond) + 1)})
		}
	}
	return coords.LocateTraits(rows)
}

// proxyOf is what the owner of a training site publishes of it.
func (d *delegator) proxyOf(samples []coords.Sample) *coords.Proxy {
	p, err := coords.Locate(samples, coords.DefaultFitConfig())
	if err != nil {
		return nil
	}
	p.Traits = d.hostTraits(samples)
	return &p
}

// learned is what a world's training has taught, for all strategies alike.
type learned struct {
	candidates []assign.Candidate
	proxies    map[int]*coords.Proxy // by training site
}

// teach places the candidates and works out the training sites' proxies, once
// for all strategies.
func (d *delegator) teach(training []int) (learned, error) {
	if err := d.place(training); err != nil {
		return learned{}, err
	}
	l := learned{candidates: d.candidates, proxies: make(map[int]*coords.Proxy, len(training))}
	for _, site := range training {
		l.proxies[site] = d.proxyOf(d.samples(site))
	}
	return l, nil
}
