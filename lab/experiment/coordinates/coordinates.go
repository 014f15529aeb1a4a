package coordinates

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"peerd/coords"
	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
)

// coordinatesRow is the result of one algorithm after a number of rounds: the mean over the
// seeds, for pairs of honest peers.
type coordinatesRow struct {
	Algorithm string  `json:"algorithm"`
	Round     int     `json:"round"`
	RE50      float64 `json:"re50"`  // median of |predicted-real|/real
	RE90      float64 `json:"re90"`  // 90th percentile
	Liars     float64 `json:"liars"` // share of the peers
	// Attack is the name of the attack, and From its first round.
	Attack string `json:"attack,omitempty"`
	From   int    `json:"from,omitempty"`
}

// coordinatesRounds are the rounds after which errors are measured.
var coordinatesRounds = []int{10, 20, 50, 100, 200, 500}

// coordinates compares algorithms by which peers compute their coordinates, on any matrix of
// round trips.
func coordinates() experiment.Experiment {
	return experiment.Experiment{
		Name:   "coordinates",
		Title:  "Peers place themselves: relative error of predicted round trips by rounds",
		Source: "Dabek 2004, Ledlie 2007, hashicorp/serf",
		Needs:  []string{"matrix"},
		Run:    runCoordinates,
	}
}

// contest is one algorithm in one environment.
type contest struct {
	algorithm
	liars  float64
	attack attack
	from   int // the first round of the attack
	// choices asks for errorsAt.within, too. Set by run: victims are the honest peers of the region
	// that attack.region is about.
	choices bool
	victims []bool
}

func runCoordinates(ctx context.Context, p experiment.Params, out experiment.Out) error {
	if p.Matrix == "" {
		return errors.New("coordinates: no matrix of round trips: want --matrix")
	}
	m, err := data.LoadMatrix(p.Matrix)
	if err != nil {
		return err
	}
	c, err := newCourse(m, p)
	if err != nil {
		return err
	}
	trials := coordinatesTrials(c.rounds, p.Quick)
	seeds := max(1, p.Seeds)
	if p.Seeds == 0 && !p.Quick {
		seeds = 3
	}
	rows := map[string][]coordinatesRow{}
	for i, t := range trials {
		sum := make([]coordinatesRow, len(c.stops()))
		out.Progress(float64(i)/float64(len(trials)), fmt.Sprintf("%s %s", t.name, t.attack.name))
		got, err := c.runs(ctx, t, p.Seed, seeds)
		if err != nil {
			return err
		}
		for _, g := range got {
			for k, e := range g {
				sum[k].RE50 += e.re50 / float64(seeds)
				sum[k].RE90 += e.re90 / float64(seeds)
			}
		}
		for k, round := range c.stops() {
			r := sum[k]
			r.Algorithm, r.Round, r.Liars, r.Attack, r.From = t.name, round, t.liars, t.attack.name,
				t.from
			out.Row("coordinates", r)
			rows[t.key()] = append(rows[t.key()], r)
		}
	}
	out.Progress(1, "done")
	coordinatesReport(out, m, rows, seeds)
	return nil
}

func (t contest) key() string {
	if t.attack.name == "" {
		return t.name
	}
	return fmt.Sprintf("%s, %s from %d", t.name, t.attack.name, t.from)
}

// coordinatesTrials returns the contests, those without liars first.
func coordinatesTrials(rounds int, quick bool) []contest {
	var ts []contest
	for _, a := range algorithms() {
		ts = append(ts, contest{algorithm: a})
	}
	late := rounds*4/5 + 1
	for _, a := range algorithms() {
		for _, at := range attacks() {
			if a.attacked < at.level {
				continue
			}
			if at.start {
				ts = append(ts, contest{algorithm: a, liars: 0.3, attack: at, from: 1})
			}
			if !quick && late > 1 {
				ts = append(ts, contest{algorithm: a, liars: 0.3, attack: at, from: late})
			}
		}
	}
	return ts
}

// course is the network in which the peers compute their coordinates.
type course struct {
	m      *data.Matrix
	truth  [][]float64
	rounds int
	// peers is the number of nodes that are peers; 0: all. Others are web servers, with this median
	// delay in ms, and round trips per page.
	peers        int
	delay, trips float64
}

func newCourse(m *data.Matrix, p experiment.Params) (*course, error) {
	c := &course{m: m, truth: m.Median(), rounds: p.Rounds}
	if c.rounds <= 0 {
		c.rounds = 500
		if p.Quick {
			c.rounds = 50
		}
	}
	if m.Len() < 3 {
		return nil, fmt.Errorf("coordinates: %d nodes in the matrix, want at least 3", m.Len())
	}
	for i := range c.truth {
		for j := range i {
			if c.truth[i][j] > 0 {
				return c, nil
			}
		}
	}
	return nil, errors.New("coordinates: the matrix has no round trip above zero")
}

// stops returns the rounds after which errors are measured, always including the last one.
func (c *course) stops() []int {
	var s []int
	for _, r := range coordinatesRounds {
		if r < c.rounds {
			s = append(s, r)
		}
	}
	return append(s, c.rounds)
}

// errorsAt holds the errors after a round; re50Victims is for pairs with a victim of the region.
// within is the share of good choices, for all servers and for those that a victim decides about:
// see course.choose.
type errorsAt struct{ re50, re90, re50Victims, within, withinVictims float64 }

// runs calls run for a number of seeds, in parallel on all processors.
func (c *course) runs(
	ctx context.Context, t contest, seed uint64, seeds int,
) ([][]errorsAt, error) {
	out := make([][]errorsAt, seeds)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for s := range seeds {
		g.Go(func() (err error) {
			out[s], err = c.run(ctx, t, seed+uint64(s))
			return err
		})
	}
	return out, g.Wait()
}

// run starts all peers at the origin. In each round, each peer initiates one exchange with a
// random other one; the round trip is drawn from the samples of the matrix.
func (c *course) run(ctx context.Context, t contest, seed uint64) ([]errorsAt, error) {
	n, rng := c.m.Len(), rand.New(rand.NewPCG(seed, 1))
	if c.peers > 0 {
		c, n = c.shuffled(rng), c.peers
	}
	players := make([]player, n)
	for i := range players {
		var err error
		if players[i], err = t.make(rand.New(rand.NewPCG(seed, uint64(i)+2))); err != nil {
			return nil, fmt.Errorf("coordinates: %s: %w", t.name, err)
		}
	}
	liar := make([]bool, n)
	order := rng.Perm(n)
	for _, i := range order[:int(t.liars*float64(n))] {
		liar[i] = true
	}
	t.victims = c.region(order)
	pub := &published{t: t, c: c, players: players, liar: liar,
		rng: rand.New(rand.NewPCG(seed, 2))}
	var partners []coords.Partners
	var got []errorsAt
	for round := 1; round <= c.rounds; round++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if t.partners > 0 && (round-1)%20 == 0 {
			partners = c.partners(players, t.partners, rng)
		}
		pub.renew(round)
		for i := range n {
			j := rng.IntN(n - 1)
			if j >= i {
				j++
			}
			if partners != nil {
				j = number(partners[i].Partner(rng))
			}
			if ms, ok := c.m.Sample(i, j, rng.IntN(len(c.m.Slices))); ok {
				t.exchange(pub, i, j, ms, rng)
			}
		}
		if slices.Contains(c.stops(), round) {
			got = append(got, c.errors(players, liar, t.victims))
		}
	}
	if !t.choices {
		return got, nil
	}
	last := &got[len(got)-1]
	var err error
	last.within, last.withinVictims, err = c.choose(pub, order, seed)
	return got, err
}

// exchange lets peer i measure peer j, with a round trip of ms, and peer j measure peer i
// if the algorithm uses both ends.
func (t contest) exchange(pub *published, i, j int, ms float64, rng *rand.Rand) {
	a, b := pub.players[i].tell(), pub.players[j].tell()
	observe := func(i, j int, a, b place) {
		if pub.lies(i) && !t.attack.region {
			return // a liar in a region is at its own place for all others
		}
		delay := 0.0
		if pub.liar[j] {
			b, delay = t.told(rng, i, j, pub.round, a, b, ms)
		}
		b = pub.players[i].place(b, pub.about(i, j, b.Coordinate))
		pub.players[i].observe(j, b, ms+delay)
	}
	observe(i, j, a, b)
	if t.both {
		observe(j, i, b, a)
	}
}

// told returns the place that liar j, which is at own, sends to peer i, at a round trip of ms, and
// the ms by which it delays its answer. Liars attack from round t.from on.
func (t contest) told(
	rng *rand.Rand, i, j, round int, at, own place, ms float64,
) (place, float64) {
	if round < t.from || t.attack.region && !t.victims[i] {
		return own, 0
	}
	return t.attack.lie(rng, j, round-t.from+1, own, at, ms)
}

// partners chooses the measurement partners of each peer: half near, half random. A real
// peer makes the same choice from the coordinates that the other peers announce.
func (c *course) partners(players []player, size int, rng *rand.Rand) []coords.Partners {
	out := make([]coords.Partners, len(players))
	at := make([]place, len(players))
	for i, p := range players {
		at[i] = p.tell()
	}
	known := make([]coords.KnownPeer, 0, len(players))
	for i := range players {
		known = known[:0]
		for j := range players {
			if _, ok := c.m.Sample(i, j, 0); ok && i != j {
				known = append(known,
					coords.KnownPeer{ID: name(j), Distance: at[i].distance(at[j])})
			}
		}
		out[i] = coords.ChoosePartners(known, size, rng.Uint64())
		if out[i].Len() == 0 {
			out[i].Random = []string{name((i + 1) % len(players))}
		}
	}
	return out
}

// errors returns the errors over all pairs of honest peers that the matrix has a round trip
// for.
func (c *course) errors(players []player, liar, victims []bool) errorsAt {
	at := make([]place, len(players))
	for i, p := range players {
		at[i] = p.tell()
	}
	var es, ofVictims []float64
	for i := range players {
		for j := range i {
			if real := c.truth[i][j]; real > 0 && !liar[i] && !liar[j] {
				e := math.Abs(at[i].distance(at[j])-real) / real
				es = append(es, e)
				if victims[i] || victims[j] {
					ofVictims = append(ofVictims, e)
				}
			}
		}
	}
	quantile := func(v []float64, q int) float64 {
		if len(v) == 0 {
			return math.NaN()
		}
		slices.Sort(v)
		return v[len(v)*q/100]
	}
	return errorsAt{re50: quantile(es, 50), re90: quantile(es, 90),
		re50Victims: quantile(ofVictims, 50)}
}
