package malet

import (
	"context"
	"iter"
	"math/rand/v2"
	"net/netip"
	"time"

	"peerd/coords/assign"
	"peerd/lab/emulate/wan"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
	"peerd/lab/internal/interval"
)

func neighbours() experiment.Experiment {
	return experiment.Experiment{
		Name:   "neighbours",
		Title:  "What decided subnets with near addresses tell about one that is to be decided",
		Source: "Malet 2009, 6.4; Papapetrou 2003, 7.7",
		Run:    runNeighbours,
	}
}

// togetherShare is the share of the subnets of a block that are at its place. /24s of which all
// addresses are at one place are 83 % (Gharaibeh et al. 2016: 247,000 of 1.41 million are not).
const togetherShare = 0.85

// movedMS is how far the space of coordinates has moved since subnets were decided, in the world
// "moved".
const movedMS = 40

// neighbourWorlds are the worlds: the subnets of a /20 are mostly at one place; they are, but the
// proxy coordinates of decided subnets are old; and all subnets are anywhere.
var neighbourWorlds = []string{"near", "moved", "anywhere"}

// neighbourRow is the result in a world of a nature: means over seeds of the shares and numbers of
// choiceRow if peers know nothing of decided subnets, and by what they are greater if they do, with
// half of the width of the 95 % intervals.
type neighbourRow struct {
	World      string  `json:"world"`
	Nature     string  `json:"nature"`
	Peers      int     `json:"peers"`
	Seeds      int     `json:"seeds"`
	Within20   float64 `json:"within20"`
	Within20CI float64 `json:"within20_ci"`
	More       float64 `json:"more_within20"`
	MoreCI     float64 `json:"more_within20_ci"`
	Probes     float64 `json:"probes"`
	ProbesCI   float64 `json:"probes_ci"`
	MoreProbes float64 `json:"more_probes"`
	// MoreProbesCI is below MoreProbes if the numbers differ by more than chance.
	MoreProbesCI float64 `json:"more_probes_ci"`
	Inside80     float64 `json:"inside80"`
	MoreInside   float64 `json:"more_inside80"`
	MoreInsideCI float64 `json:"more_inside80_ci"`
}

// runNeighbours lets peers decide about servers with and without what they know of other subnets.
// Servers are found over so long a time that most have decided neighbours.
func runNeighbours(ctx context.Context, p experiment.Params, out experiment.Out) error {
	seeds, peers, sites := p.Or(p.Seeds, 5, 1), p.Or(p.Peers, 10, 6), p.Or(p.Sites, 100, 8)
	g := newStage(ctx, out, 2*seeds*len(natureNames)*len(neighbourWorlds))
	for _, kind := range neighbourWorlds {
		for _, nature := range natureNames {
			var none, more [3][]float64
			for i := range seeds {
				seed := p.Seed + uint64(i)
				world := neighbourWorld(kind, peers, sites, natureNamed(nature), seed)
				var got [2][3]float64
				for arm, view := range []func(assign.Delegations) assign.Delegations{forgotten,
					viewIn(kind)} {
					s, err := g.run(play{who: viewing(contenderNamed("proxy"), view), world: world,
						seed: seed, tune: func(c *crawlsim.Config) {
							c.Watch, c.Pages, c.Assigned = nil, thesisUpdates, 1
							c.FoundWithin = 20 * time.Minute
						}})
					if err != nil {
						return err
					}
					a := &got[arm]
					a[0], a[1], a[2] = judgeChoices(s, world)
				}
				for k := range none {
					none[k] = append(none[k], got[0][k])
					more[k] = append(more[k], got[1][k]-got[0][k])
				}
			}
			r := neighbourRow{World: kind, Nature: nature, Peers: peers, Seeds: seeds}
			r.Within20, r.Within20CI = interval.OfMean(none[0])
			r.More, r.MoreCI = interval.OfMean(more[0])
			r.Probes, r.ProbesCI = interval.OfMean(none[1])
			r.MoreProbes, r.MoreProbesCI = interval.OfMean(more[1])
			r.Inside80, _ = interval.OfMean(none[2])
			r.MoreInside, r.MoreInsideCI = interval.OfMean(more[2])
			out.Row("neighbours", r)
		}
	}
	out.Note("Means over seeds; _ci is half of the width of the 95 %% interval (Student's t). " +
		"more_ is the difference, seed by seed, between peers that use what they know of decided " +
		"subnets and peers that do not.")
	out.Note(simulated)
	return nil
}

// neighbourWorld draws /20s with 1 to 9 subnets each.
func neighbourWorld(
	kind string, peers, sites int, n crawlsim.Nature, seed uint64,
) *crawlsim.World {
	rng := rand.New(rand.NewPCG(seed, 0x6e6561))
	places := wan.Cities()
	var who, at []int
	for len(who) < peers {
		who = append(who, rng.Perm(len(places))...)
	}
	var subnets []netip.Prefix
	for block := 0; len(at) < sites; block++ {
		home, size := rng.IntN(len(places)), 1+rng.IntN(9)
		for _, k := range rng.Perm(16)[:min(size, sites-len(at))] {
			place := home
			if rng.Float64() >= togetherShare {
				place = rng.IntN(len(places))
			}
			at = append(at, place)
			subnets = append(subnets, netip.PrefixFrom(netip.AddrFrom4([4]byte{
				byte(16 + block>>8), byte(block), byte(k), 0}), 24))
		}
	}
	if kind == "anywhere" {
		rng.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] })
	}
	w := crawlsim.NewWorldAt(wan.NewWorld(places, seed), places, who[:peers], at, n, seed)
	w.Number(subnets)
	return w
}

// viewing returns a contender of which the peers see decided subnets through view.
func viewing(who contender, view func(assign.Delegations) assign.Delegations) contender {
	original := who.make
	who.make = func(
		w *crawlsim.World, seed uint64, s **crawlsim.Sim,
	) func(self string) (assign.Strategy, error) {
		of := original(w, seed, s)
		return func(self string) (assign.Strategy, error) {
			strategy, err := of(self)
			return viewer{strategy, view}, err
		}
	}
	return who
}

// viewer is a Strategy with another view of decided subnets.
type viewer struct {
	assign.Strategy
	view func(assign.Delegations) assign.Delegations
}

// Next implements assign.Strategy.
func (v viewer) Next(e assign.Evidence) (assign.Step, error) {
	e.Delegations = v.view(e.Delegations)
	return v.Strategy.Next(e)
}

// viewIn returns what peers know in a world.
func viewIn(kind string) func(assign.Delegations) assign.Delegations {
	return func(d assign.Delegations) assign.Delegations {
		if kind == "moved" {
			return moved{d}
		}
		return d
	}
}

// forgotten is the view of peers that know nothing.
func forgotten(assign.Delegations) assign.Delegations { return nil }

// moved are Delegations with proxy coordinates of a space that has moved since.
type moved struct{ assign.Delegations }

// Within implements assign.Delegations.
func (m moved) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		for d := range m.Delegations.Within(p) {
			if d.Proxy != nil {
				proxy := *d.Proxy
				proxy.At = proxy.At.Clone()
				proxy.At.Vec[0] += movedMS
				d.Proxy = &proxy
			}
			if !yield(d) {
				return
			}
		}
	}
}
