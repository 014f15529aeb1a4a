package delegate

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/lab/experiment/data"
)

// delegations holds the known delegations, sorted by prefix. It implements assign.Delegations.
type delegations struct {
	list []assign.Delegation
}

var _ assign.Delegations = (*delegations)(nil)

// add adds a delegation, which replaces an earlier one of the same prefix.
func (d *delegations) add(one assign.Delegation) {
	at, found := slices.BinarySearchFunc(d.list, one.Subnet,
		func(a assign.Delegation, p netip.Prefix) int {
			return a.Subnet.Compare(p)
		})
	if found {
		d.list[at] = one
		return
	}
	d.list = slices.Insert(d.list, at, one)
}

// Within implements assign.Delegations.
func (d *delegations) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		at, _ := slices.BinarySearchFunc(d.list, p.Masked(),
			func(a assign.Delegation, p netip.Prefix) int {
				return a.Subnet.Compare(p)
			})
		for _, one := range d.list[at:] {
			if !p.Contains(one.Subnet.Addr()) || !yield(one) {
				return
			}
		}
	}
}

// targeter is implemented by strategies that delegate a larger subnet than that of the site.
type targeter interface {
	Target(netip.Prefix) netip.Prefix
}

// delegator runs strategies over the sites of a world.
type delegator struct {
	world *data.World
	// crawlers are the participating rows of the world, candidates their descriptions.
	crawlers   []int
	candidates []assign.Candidate
	known      delegations
	index      map[string]int // candidates by name
	// learned is the result of training, if any.
	learned learned
	// probes reports whether the probes of a site are published with it.
	probes bool
	// against are the rows with which a choice is compared; nil means the participating ones.
	against []int
	rng     *rand.Rand
}

// crawlerID returns the name of a row. Names sort like rows.
func crawlerID(row int) string { return fmt.Sprintf("c%04d", row) }

// newDelegator returns a delegator with the given rows of a world as candidates.
func newDelegator(w *data.World, rows []int, l learned, seed uint64) *delegator {
	d := &delegator{
		world: w, crawlers: rows, candidates: l.candidates, learned: l, index: make(map[string]int),
		rng: rand.New(rand.NewPCG(seed, 0x6d69637261)),
	}
	for i, row := range rows {
		if l.candidates == nil {
			at := coords.Coordinate{Vec: []float64{0}, Error: 1}
			d.candidates = append(d.candidates, assign.Candidate{ID: crawlerID(row), At: at,
				Addr: w.Crawlers[row]})
		}
		d.index[crawlerID(row)] = i
	}
	return d
}

// sample returns the probe of a site by a candidate.
func (d *delegator) sample(candidate, site int) coords.Sample {
	ms := d.world.ProbeMS[d.crawlers[candidate]][site]
	took := time.Duration(ms * float64(time.Millisecond))
	return coords.Sample{
		Peer: d.candidates[candidate].ID, At: d.candidates[candidate].At,
		Connect: took, FirstByte: took, Failed: ms >= data.ProbeFailed,
	}
}

// best returns the first of the candidates that are nearest to a site.
func (d *delegator) best(site int) int {
	best := 0
	for i, row := range d.crawlers {
		if d.world.ProbeMS[row][site] < d.world.ProbeMS[d.crawlers[best]][site] {
			best = i
		}
	}
	return best
}

// subnetOf returns the address of a site as a prefix.
func (d *delegator) subnetOf(site int) netip.Prefix {
	a := d.world.Sites[site]
	return netip.PrefixFrom(a, a.BitLen())
}

// target returns the subnet that a strategy delegates for a site.
func (d *delegator) target(s assign.Strategy, site int) netip.Prefix {
	if t, ok := s.(targeter); ok {
		return t.Target(d.subnetOf(site))
	}
	return d.subnetOf(site)
}

// train delegates each site to its nearest crawler, after all crawlers have probed it: steps 2
// to 4 of Papapetrou 2003, 8.6.
func (d *delegator) train(ctx context.Context, s assign.Strategy, sites []int) error {
	for _, site := range sites {
		if err := ctx.Err(); err != nil {
			return err
		}
		one := assign.Delegation{Subnet: d.target(s, site), Owner: d.candidates[d.best(site)].ID}
		one.Proxy = d.learned.proxies[site]
		d.publish(one, d.samples(site))
	}
	return nil
}

// publish adds a delegation with the data that its owner would publish.
func (d *delegator) publish(one assign.Delegation, samples []coords.Sample) {
	if d.probes {
		one.Probes = make(map[string]time.Duration, len(samples))
		for _, s := range samples {
			if !s.Failed {
				one.Probes[s.Peer] = s.Connect
			}
		}
	}
	d.known.add(one)
}

// outcome is the result of one site.
type outcome struct {
	choice  int // candidate
	probes  int
	asked   []int   // candidates that probed
	excess  float64 // of the choice over the best of all candidates, ms
	optimal bool
}

// decide lets the strategy decide on a site, and adds the delegation.
func (d *delegator) decide(s assign.Strategy, site int) (outcome, error) {
	e := assign.Evidence{
		Subnet: d.subnetOf(site), Self: d.candidates[d.rng.IntN(len(d.candidates))].ID,
		Candidates: d.candidates, CanProbe: true, Delegations: &d.known,
	}
	var asked []int
	for range 4*len(d.candidates) + 1 {
		step, err := s.Next(e)
		if err != nil {
			return outcome{}, fmt.Errorf("%s, site %s: %w", s.Name(), d.world.Sites[site], err)
		}
		if step.Choice == "" {
			asked = append(asked, d.index[step.Probe])
			e.Samples = append(e.Samples, d.sample(d.index[step.Probe], site))
			continue
		}
		choice := d.index[step.Choice]
		one := assign.Delegation{Subnet: d.target(s, site), Owner: step.Choice, Proxy: step.Proxy}
		d.publish(one, e.Samples)
		best := d.world.ProbeMS[d.crawlers[d.best(site)]][site]
		for _, row := range d.against {
			best = min(best, d.world.ProbeMS[row][site])
		}
		took := d.world.ProbeMS[d.crawlers[choice]][site]
		return outcome{choice: choice, probes: len(e.Samples), asked: asked,
			excess: took - best, optimal: took == best}, nil
	}
	return outcome{}, fmt.Errorf("%s: no choice for site %s after %d probes", s.Name(),
		d.world.Sites[site], len(e.Samples))
}

// tally is the sum of outcomes.
type tally struct {
	urls, optimal, probes int
	peers                 int // number of candidates
	excess                float64
	over                  int // number of sub-optimal outcomes
}

func (t *tally) add(o outcome) {
	t.urls++
	t.probes += o.probes
	if o.optimal {
		t.optimal++
		return
	}
	t.over++
	t.excess += o.excess
}

// perURL returns the mean number of probes per site.
func (t tally) perURL() float64 { return float64(t.probes) / float64(max(1, t.urls)) }

// share returns the number of probes as a share of those of brute force.
func (t tally) share() float64 { return t.perURL() / float64(max(1, t.peers)) }

// rate returns the share of optimal delegations.
func (t tally) rate() float64 { return float64(t.optimal) / float64(max(1, t.urls)) }

// meanExcess returns the mean excess of the sub-optimal delegations, ms.
func (t tally) meanExcess() float64 { return t.excess / float64(max(1, t.over)) }

// run decides on all sites in their order and returns the outcomes.
func (d *delegator) run(ctx context.Context, s assign.Strategy, sites []int) ([]outcome, error) {
	out := make([]outcome, 0, len(sites))
	for _, site := range sites {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o, err := d.decide(s, site)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// tallyOf sums outcomes.
func tallyOf(outcomes []outcome, peers int) tally {
	t := tally{peers: peers}
	for _, o := range outcomes {
		t.add(o)
	}
	return t
}

// upTo lists 0 to n-1, and from a on.
func upTo(n int) []int { return between(0, n) }

func between(a, n int) []int {
	out := make([]int, 0, max(0, n-a))
	for i := a; i < n; i++ {
		out = append(out, i)
	}
	return out
}

// slope returns the slope of the least-squares line through y over 0, 1, ….
func slope(y []float64) float64 {
	n := float64(len(y))
	var sx, sy, sxx, sxy float64
	for i, v := range y {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+v, sxx+x*x, sxy+x*v
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return math.NaN()
}

// meanOf returns the mean, NaN if x is empty.
func meanOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
