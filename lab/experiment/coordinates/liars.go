package coordinates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
)

// mean is the mean over the seeds, with the half width of its 95 % interval.
type mean struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half"`
}

func meanOf(v []float64) mean {
	m, deviation := stat.MeanStdDev(v, nil)
	if len(v) < 2 {
		return mean{m, 0}
	}
	n := float64(len(v))
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return mean{m, t * stat.StdErr(deviation, n)}
}

func (m mean) String() string { return fmt.Sprintf("%.3f ± %.3f", m.Mean, m.Half) }

// liarsRow is what one attack does to peerd. Ratios are to the same run in which the liars do not
// lie, seed by seed.
type liarsRow struct {
	Attack string  `json:"attack"`
	From   int     `json:"from"` // its first round
	Liars  float64 `json:"liars"`
	// RE50 is the median relative error of pairs of honest peers, RE50Ratio its ratio, and
	// VictimsRatio that of pairs with a peer of the region.
	RE50         mean `json:"re50"`
	RE50Ratio    mean `json:"re50_ratio"`
	VictimsRatio mean `json:"victims_ratio"`
	// Within20 is the share of servers for which the chosen peer takes at most 20 % longer than the
	// best candidate, and WithinRatio its ratio; WithinVictims is the ratio for servers that peers
	// of the region decide about.
	Within20      mean `json:"within20"`
	WithinRatio   mean `json:"within20_ratio"`
	WithinVictims mean `json:"within20_victims_ratio"`
}

// liars measures all attacks on peerd's coordinates, and on the choices that are made with them.
func liars() experiment.Experiment {
	return experiment.Experiment{
		Name:   "liars",
		Title:  "Peers that lie about their places: errors of honest peers, and choices of owners",
		Source: "Kaafar 2006, Zage 2007, Chan-Tin 2011",
		Needs:  []string{"matrix"},
		Run:    runLiars,
	}
}

func runLiars(ctx context.Context, p experiment.Params, out experiment.Out) error {
	if p.Matrix == "" {
		return errors.New("liars: no matrix of round trips: want --matrix")
	}
	m, err := data.LoadMatrix(p.Matrix)
	if err != nil {
		return err
	}
	p.Rounds = p.Or(p.Rounds, 60, 30)
	p.Peers = min(p.Or(p.Peers, 128, 40), m.Len()*2/3)
	c, err := newCourse(m, p)
	if err != nil {
		return err
	}
	c.peers, c.delay, c.trips = p.Peers, cmp.Or(p.DelayMS, 150), cmp.Or(p.RTTs, 3)
	seeds := p.Or(p.Seeds, 5, 2)
	trials := liarsTrials(c.rounds)
	clean := map[float64][]errorsAt{}
	var rows []liarsRow
	for i, t := range trials {
		out.Progress(float64(i)/float64(len(trials)), t.key())
		runs, err := c.runs(ctx, t, p.Seed, seeds)
		if err != nil {
			return err
		}
		var got []errorsAt
		for _, r := range runs {
			got = append(got, r[len(r)-1])
		}
		if t.from > c.rounds {
			clean[t.liars] = got
		}
		row := rowOf(t, got, clean[t.liars])
		out.Row("liars", row)
		rows = append(rows, row)
	}
	out.Progress(1, "done")
	liarsReport(out, m, c, rows, seeds)
	return nil
}

// liarsTrials returns the contests: for each share of liars first one in which they never lie.
func liarsTrials(rounds int) (all []contest) {
	for _, share := range []float64{0.2, liarsMost} {
		t := contest{algorithm: algorithms()[0], liars: share, choices: true}
		t.attack, t.from = attack{name: "none"}, rounds+1
		all = append(all, t)
		for _, t.attack = range attacks() {
			if t.from = 1; !t.attack.start {
				t.from = rounds/2 + 1
			}
			all = append(all, t)
		}
	}
	return all
}

// liarsMost is the largest share of liars.
const liarsMost = 0.3

func rowOf(t contest, got, clean []errorsAt) liarsRow {
	values := func(of func(errorsAt) float64, ratio bool) mean {
		var v []float64
		for i, e := range got {
			x := of(e)
			if ratio {
				x /= of(clean[i])
			}
			v = append(v, x)
		}
		return meanOf(v)
	}
	re50 := func(e errorsAt) float64 { return e.re50 }
	within := func(e errorsAt) float64 { return e.within }
	return liarsRow{
		Attack: t.attack.name, From: t.from, Liars: t.liars,
		RE50: values(re50, false), RE50Ratio: values(re50, true),
		VictimsRatio:  values(func(e errorsAt) float64 { return e.re50Victims }, true),
		Within20:      values(within, false),
		WithinRatio:   values(within, true),
		WithinVictims: values(func(e errorsAt) float64 { return e.withinVictims }, true),
	}
}

// honest returns the peers that are honest in every contest of a seed, of an order of which the
// first ones lie.
func honest(order []int) []int { return order[int(liarsMost*float64(len(order))):] }

// region marks an honest peer and those nearest to it: a tenth of all peers.
func (c *course) region(order []int) []bool {
	near := slices.Clone(honest(order))
	row := c.truth[near[0]]
	slices.SortStableFunc(near[1:], func(i, j int) int { return cmp.Compare(row[i], row[j]) })
	in := make([]bool, len(order))
	for _, i := range near[:min(len(near), max(1, len(order)/10))] {
		in[i] = true
	}
	return in
}

// shuffled returns the course with other nodes first: those are the peers.
func (c *course) shuffled(rng *rand.Rand) *course {
	out, nodes := *c, rng.Perm(c.m.Len())[:min(c.m.Len(), c.peers+choiceServers)]
	move := func(old [][]float64) (moved [][]float64) {
		for _, i := range nodes {
			row := make([]float64, len(nodes))
			for k, j := range nodes {
				row[k] = old[i][j]
			}
			moved = append(moved, row)
		}
		return moved
	}
	out.truth, out.m = move(c.truth), new(data.Matrix)
	for _, s := range c.m.Slices {
		out.m.Slices = append(out.m.Slices, move(s))
	}
	return &out
}

const (
	// choiceServers is how many servers are decided about.
	choiceServers = 100
	// choiceNear is the largest ratio of the chosen peer's time to the least that is good.
	choiceNear = 1.2
)

// choose decides about servers at the nodes that are no peers with the strategy of the network:
// honest peers decide, every second one in the region, and all peers are candidates, at the places
// that they tell the decider. It returns the shares of good choices, of all servers and of those
// that peers of the region decide about. A liar is measured truthfully and counts by its true time.
func (c *course) choose(
	pub *published, order []int, seed uint64,
) (all, ofVictims float64, err error) {
	t, players := pub.t, pub.players
	strategy, err := assign.NewProxy(assign.DefaultProxyConfig())
	if err != nil {
		return 0, 0, err
	}
	deciders := honest(order)
	victims := slices.DeleteFunc(slices.Clone(deciders), func(i int) bool { return !t.victims[i] })
	var good, asked [2]float64 // by others, by peers of the region
	for s := len(players); s < c.m.Len(); s++ {
		rng := rand.New(rand.NewPCG(seed, uint64(s)+100)) // the same with and without liars
		self, of := deciders[rng.IntN(len(deciders))], 0
		if s%2 == 1 {
			self, of = victims[rng.IntN(len(victims))], 1
		}
		server := c.newServer(s, rng)
		e := assign.Evidence{CanProbe: true, Self: name(self),
			Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(s >> 8), byte(s)}), 24)}
		best := math.Inf(1)
		for j := range players {
			if _, ok := c.m.Sample(j, s, 0); !ok {
				continue
			}
			best = min(best, server.time(j))
			at := players[j].tell()
			if pub.liar[j] {
				at, _ = t.told(rand.New(rand.NewPCG(seed, uint64(j))), self, j, c.rounds,
					players[self].tell(), at, c.truth[self][j])
			}
			at, standing := players[self].judge(j, at, pub.about(self, j, at.Coordinate))
			e.Candidates = append(e.Candidates, assign.Candidate{ID: name(j), At: at.Coordinate,
				Place: standing})
		}
		chosen, err := decide(strategy, e, server)
		if errors.Is(err, assign.ErrEvidence) {
			continue // the decider has no round trip to the server
		}
		if err != nil {
			return 0, 0, err
		}
		asked[of]++
		if server.time(chosen) <= choiceNear*best {
			good[of]++
		}
	}
	return (good[0] + good[1]) / (asked[0] + asked[1]), good[1] / asked[1], nil
}

// decide has candidates download pages until the strategy has made a choice.
func decide(strategy assign.Strategy, e assign.Evidence, s server) (int, error) {
	for {
		step, err := strategy.Next(e)
		if err != nil || step.Choice != "" {
			return number(step.Choice), err
		}
		e.Samples = append(e.Samples, s.download(number(step.Probe)))
	}
}

// server is a web server at a node of the matrix: a page takes a delay and some round trips, ms.
type server struct {
	c     *course
	node  int
	delay float64
	rng   *rand.Rand
}

func (c *course) newServer(node int, rng *rand.Rand) server {
	return server{c, node, c.delay * math.Exp(0.6*rng.NormFloat64()), rng}
}

// time returns the true time of a page for peer i.
func (s server) time(i int) float64 { return s.delay + s.c.trips*s.c.truth[i][s.node] }

// download returns a sample of peer i, at one of the times of the matrix.
func (s server) download(i int) coords.Sample {
	trip, ok := s.c.m.Sample(i, s.node, s.rng.IntN(len(s.c.m.Slices)))
	if !ok || trip <= 0 {
		return coords.Sample{Peer: name(i), Failed: true}
	}
	ms := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	return coords.Sample{Peer: name(i), Connect: ms(trip), FirstByte: ms(trip + s.delay),
		Body: ms(max(0, s.c.trips-2) * trip), Bytes: 16_000}
}

// liarsReport adds claims for the worst attacks.
func liarsReport(
	out experiment.Out, m *data.Matrix, c *course, rows []liarsRow, seeds int,
) {
	out.Note("%d peers, %d rounds, mean of %d seeds with 95 %% intervals. Ratios compare with the "+
		"same run in which the liars do not lie. A page takes %v ms times a log-normal factor and "+
		"%v round trips; all peers are candidates, %d other nodes are servers.", c.peers, c.rounds,
		seeds, c.delay, c.trips, min(choiceServers, m.Len()-c.peers))
	worst := func(share float64, of func(liarsRow) mean, sign float64) (liarsRow, mean) {
		var at liarsRow
		most := math.Inf(-1)
		for _, r := range rows {
			if x := sign * of(r).Mean; r.Liars == share && r.From <= c.rounds && x > most {
				at, most = r, x
			}
		}
		return at, of(at)
	}
	claim := func(what string, share float64, of func(liarsRow) mean, most, least float64) {
		sign, want := 1.0, fmt.Sprintf("at most %v times that without", most)
		if least > 0 {
			sign, want = -1, fmt.Sprintf("at least %v times those without", least)
		}
		r, got := worst(share, of, sign)
		out.Claim(fmt.Sprintf("target with %.0f %% liars of any kind: %s", 100*share, what), want,
			fmt.Sprintf("%v (%s from %d)", got, r.Attack, r.From),
			got.Mean <= most && got.Mean >= least)
	}
	all := math.Inf(1)
	claim("median error of honest peers", 0.2,
		func(r liarsRow) mean { return r.RE50Ratio }, 1.5, 0)
	claim("median error in the region", 0.2,
		func(r liarsRow) mean { return r.VictimsRatio }, 1.5, 0)
	claim("choices within 20 % of the best", liarsMost,
		func(r liarsRow) mean { return r.WithinRatio }, all, 0.9)
	claim("such choices by peers of the region", liarsMost,
		func(r liarsRow) mean { return r.WithinVictims }, all, 0.9)
}
