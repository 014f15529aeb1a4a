package coords

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

const (
	// ratePrior is the standard deviation between peers, before any has published its own Traits,
	// of the time of a kB in ms (8 Mbit/s), and lagPrior that of the time before the body: as much
	// as a page of DefaultKB takes.
	ratePrior = 1.0
	lagPrior  = ratePrior * DefaultKB
	// priorCount is the weight of what is expected before anything is known: the number of peers
	// that outweigh lagPrior and ratePrior, and of downloads that outweigh noisePrior.
	priorCount = 4.0
	// claimMost is how many times the median of all published estimates one of them counts as at
	// most, and how many deviations of the population a peer can claim to be faster than others.
	claimMost = 3.0
	// traitMax bounds the means of published Traits and the deviations of all: the longest phase
	// of a download, in ms.
	traitMax = 3.6e6
)

// Normal is a normal distribution.
type Normal struct {
	_        struct{} `cbor:",toarray"`
	Mean     float64
	Variance float64
}

// update returns the posterior of n after an observation.
func (n Normal) update(x Normal) Normal {
	gain := n.Variance / (n.Variance + x.Variance)
	return Normal{Mean: n.Mean + gain*(x.Mean-n.Mean), Variance: (1 - gain) * n.Variance}
}

// off returns the difference of two means in deviations.
func (n Normal) off(from Normal) float64 {
	return (n.Mean - from.Mean) / math.Sqrt(n.Variance+from.Variance)
}

func (n Normal) validate() error {
	if !(math.Abs(n.Mean) <= traitMax) || !(n.Variance > 0 && n.Variance <= traitMax*traitMax) {
		return fmt.Errorf("%w: trait is %v with variance %v", ErrBounds, n.Mean, n.Variance)
	}
	return nil
}

// Traits are what a page takes at a peer in addition to what distance and server explain, the
// same at all servers: the peer's processor, its access link, other work on its machine. They
// are relative to other peers, and therefore negative for a fast one.
type Traits struct {
	_ struct{} `cbor:",toarray"`
	// Lag is the additional time of a page, in ms.
	Lag Normal
	// PerKB is the additional time of a kB (1,000 bytes), in ms.
	PerKB Normal
}

// Validate reports whether Traits that were received from another peer may be used. The errors
// wrap ErrBounds.
func (t Traits) Validate() error {
	if err := t.Lag.validate(); err != nil {
		return err
	}
	return t.PerKB.validate()
}

// time returns what t adds to a page of the given size, in ms, and its variance.
func (t Traits) time(kb float64) Normal {
	return Normal{Mean: t.Lag.Mean + t.PerKB.Mean*kb,
		Variance: t.Lag.Variance + t.PerKB.Variance*kb*kb}
}

// Population is what is known of the Traits of all peers from what they publish. Peers publish
// estimates from their own downloads alone; a Population estimates from all of them how
// different peers are, and draws each towards the others by as much (empirical Bayes). The
// zero Population knows nothing. A Population is safe for concurrent use.
type Population struct {
	typical Traits
	height  Normal // of the places of peers
	peers   map[string]Traits
	anyone  []Traits // typical, as often as priorCount says, and all of peers
}

// NewPopulation returns the Population of the peers with the given names, of which some places have
// the given heights. Malformed and nil Traits are ignored.
func NewPopulation(published map[string]*Traits, heights []float64) Population {
	var names []string
	var lags, rates []Normal
	for _, name := range slices.Sorted(maps.Keys(published)) { // sums depend on the order
		if t := published[name]; t != nil && t.Validate() == nil {
			names = append(names, name)
			lags, rates = append(lags, t.Lag), append(rates, t.PerKB)
		}
	}
	p := Population{peers: make(map[string]Traits, len(names))}
	p.typical.Lag.Variance = spreadOf(lags, lagPrior)
	p.typical.PerKB.Variance = spreadOf(rates, ratePrior)
	p.height = heightOf(heights)
	p.anyone = slices.Repeat([]Traits{p.typical}, priorCount)
	for i, name := range names {
		p.peers[name] = Traits{Lag: shrink(lags[i], p.typical.Lag.Variance),
			PerKB: shrink(rates[i], p.typical.PerKB.Variance)}
		p.anyone = append(p.anyone, p.peers[name])
	}
	return p
}

// Of returns the Traits of a peer, or those of any peer if it has published none.
func (p Population) Of(peer string) Traits {
	if t, ok := p.peers[peer]; ok {
		return t
	}
	if p.peers == nil {
		p = NewPopulation(nil, nil)
	}
	return p.typical
}

// Like returns equally likely Traits of a peer: its own, or those of all peers that have published
// any, and of priorCount imagined ones.
func (p Population) Like(peer string) []Traits {
	if _, ok := p.peers[peer]; ok || len(p.anyone) == 0 {
		return []Traits{p.Of(peer)}
	}
	return p.anyone
}

// Lasting returns equally likely Traits and places of a peer over a longer time, of which now and
// at are those of the present. A peer like others stays as it is. The more it is unlike them
// (Student's t), in its Traits or the height of its place, the more likely a passing cause is, such
// as other work on its machine. Then it will be like any peer, with a typical height; at most, that
// is as likely as not.
func (p Population) Lasting(now []Traits, at Coordinate) ([]Traits, []Coordinate) {
	if len(p.anyone) == 0 {
		return now, []Coordinate{at}
	}
	like := min(1, studentWeight(Normal{Mean: at.Height}.off(p.height)))
	if len(now) == 1 {
		like *= min(1, studentWeight(now[0].Lag.off(p.typical.Lag))) *
			min(1, studentWeight(now[0].PerKB.off(p.typical.PerKB)))
	}
	all, places := make([]Traits, placesKept), slices.Repeat([]Coordinate{at}, placesKept)
	for i := range all {
		all[i] = now[i%len(now)]
		if i >= int((1+like)/2*placesKept) {
			all[i], places[i].Height = p.anyone[i%len(p.anyone)], p.height.Mean
		}
	}
	return all, places
}

// spreadOf returns the variance of a trait between peers, of which some estimates are known: what
// their squares exceed their own variances by. Estimates count by their precision. However alike
// they are, those that priorCount imagines are not.
func spreadOf(estimates []Normal, prior float64) float64 {
	v := prior * prior
	if len(estimates) == 0 {
		return v
	}
	sizes := make([]float64, len(estimates))
	for i, e := range estimates {
		sizes[i] = math.Abs(e.Mean)
	}
	most := min(claimMost*lowerMedian(sizes)+prior, traitMax)
	sum, weight := priorCount*v, priorCount
	for _, e := range estimates {
		w := v / (v + e.Variance)
		size := min(math.Abs(e.Mean), most)
		sum += w * w * (size*size - e.Variance)
		weight += w * w
	}
	return max(sum, priorCount*v) / weight
}

// heightOf returns the typical height of peers, and the variance between them.
func heightOf(heights []float64) Normal {
	if len(heights) == 0 {
		heights = []float64{heightMin}
	}
	n := Normal{Mean: lowerMedian(heights)}
	off := make([]Normal, len(heights))
	for i, h := range heights {
		off[i].Mean = h - n.Mean
	}
	n.Variance = spreadOf(off, shortTrip)
	return n
}

// shrink returns the posterior of a published estimate in a population with the given variance.
// Of peers unlike all others less is certain: Student's t.
func shrink(e Normal, spread float64) Normal {
	e.Mean = max(e.Mean, -claimMost*math.Sqrt(spread))
	spread /= min(1, studentWeight(e.off(Normal{Variance: spread})))
	// A peer gains little influence by claiming to be more certain than one download can be.
	e.Variance = max(e.Variance, noisePrior*spread)
	return Normal{Variance: spread}.update(e)
}
