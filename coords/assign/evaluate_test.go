package assign_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/coordstest"
)

var rttMatrix = flag.String("rtt-matrix", "",
	"file with a square matrix of measured round trips; tests on real data are skipped without it")

// trial is a world in which the first places are peers.
type trial struct {
	swarm *coordstest.Swarm
	peers int
	rng   *rand.Rand
}

func newTrial(
	t *testing.T, w *coordstest.World, peers, rounds, partners int, rng *rand.Rand,
) *trial {
	t.Helper()
	s := coordstest.NewSwarm(w, peers, rng)
	for range rounds {
		s.Round(partners)
	}
	return &trial{swarm: s, peers: peers, rng: rng}
}

// result summarises many assignments.
type result struct {
	servers, near, within20, probes, optimal int
	chosen, best, random                     float64
}

// assign runs a strategy for one server to its choice.
func (tr *trial) assign(
	t *testing.T, strategy assign.Strategy, server coordstest.Server, subnet int, res *result,
) {
	t.Helper()
	w := tr.swarm.World
	self := tr.rng.IntN(tr.peers)
	e := assign.Evidence{
		Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, byte(subnet >> 8), byte(subnet),
			0}), 24),
		Self:     coordstest.Name(self),
		CanProbe: true,
	}
	observed := coords.NewObservations()
	for i, p := range tr.swarm.Peers {
		observed.Add(coordstest.Name(i), p.Coordinate(), p.Trips())
	}
	at := make(map[string]int)
	var times []float64
	for i, p := range tr.swarm.Peers {
		name := coordstest.Name(i)
		c := assign.Candidate{ID: name, Capacity: 1}
		c.At, c.Place = tr.swarm.Peers[self].Judge(name, p.Coordinate(), observed.Of(name))
		e.Candidates = append(e.Candidates, c)
		at[coordstest.Name(i)] = i
		times = append(times, w.Time(i, server))
	}
	for range 100 {
		step, err := strategy.Next(e)
		if err != nil {
			t.Fatal(err)
		}
		if step.Choice != "" {
			res.add(times, times[at[step.Choice]], len(e.Samples))
			return
		}
		i := at[step.Probe]
		e.Samples = append(e.Samples, w.Download(i, step.Probe, tr.swarm.Peers[i].Coordinate(),
			server, tr.rng))
	}
	t.Fatal("Next made no choice after 100 probes")
}

func (r *result) add(times []float64, chosen float64, probes int) {
	best := slices.Min(times)
	r.servers++
	r.probes += probes
	r.chosen += chosen
	r.best += best
	for _, x := range times {
		r.random += x / float64(len(times))
	}
	if chosen == best {
		r.optimal++
	}
	if chosen <= 1.1*best {
		r.near++
	}
	if chosen <= 1.2*best {
		r.within20++
	}
}

func (r *result) share(n int) float64 { return float64(n) / float64(r.servers) }

func (r *result) log(t *testing.T, what string) {
	t.Helper()
	t.Logf("%s: %d servers, optimal %.2f, within 10 %% %.2f, within 20 %% %.2f, "+
		"chosen/best %.3f, chosen/random %.3f, probes %.2f",
		what, r.servers, r.share(r.optimal), r.share(r.near), r.share(r.within20),
		r.chosen/r.best, r.chosen/r.random, float64(r.probes)/float64(r.servers))
}

func newProxy(t *testing.T) *assign.ProxyStrategy {
	t.Helper()
	s, err := assign.NewProxy(assign.DefaultProxyConfig())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestProxyFindsNearOptimalPeers tests the main promise: a few downloads find a peer that is
// almost as good as the best.
func TestProxyFindsNearOptimalPeers(t *testing.T) {
	t.Parallel()
	findsNearOptimal{8, 24, 12, 10, 7, 0.9}.run(t)
}

// findsNearOptimal has peers choose among themselves in a number of worlds, after so many rounds
// of exchanges with so many partners. At least the share near of choices are within 10 % of the
// best.
type findsNearOptimal struct {
	peers, servers, worlds, rounds, partners int
	near                                     float64
}

func (c findsNearOptimal) run(t *testing.T) {
	t.Helper()
	const probes, ofRandom = 8, 0.7
	strategy := newProxy(t)
	var res result
	for seed := range uint64(c.worlds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := coordstest.Globe(c.peers+c.servers, rng)
		tr := newTrial(t, w, c.peers, c.rounds, c.partners, rng)
		for i := range c.servers {
			tr.assign(t, strategy, coordstest.NewServer(c.peers+i, rng), i, &res)
		}
	}
	res.log(t, fmt.Sprint(c.peers, " peers"))
	if res.share(res.near) < c.near {
		t.Errorf("within 10 %%: %.3f, want >= %.2f", res.share(res.near), c.near)
	}
	if p := float64(res.probes) / float64(res.servers); p > probes {
		t.Errorf("%.2f probes per server, want <= %v", p, probes)
	}
	if res.chosen/res.random > ofRandom {
		t.Errorf("chosen/random %.3f, want <= %v", res.chosen/res.random, ofRandom)
	}
}

// TestProxyOnRealMatrix does the same with measured round trips.
func TestProxyOnRealMatrix(t *testing.T) {
	t.Parallel()
	if *rttMatrix == "" {
		t.Skip("skipped: no matrix of measured round trips, set -rtt-matrix")
	}
	f, err := os.Open(*rttMatrix)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rtt, err := coordstest.ReadMatrix(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, peers := range []int{8, 16, 64} {
		if peers*2 > len(rtt) {
			continue
		}
		var res result
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w := coordstest.FromMatrix(shuffled(rtt, rng), rng)
			tr := newTrial(t, w, peers, 100, min(4, peers-1), rng)
			re50, re90 := tr.swarm.Errors(peers)
			t.Logf("%d peers among themselves: RE50 %.3f RE90 %.3f", peers, re50, re90)
			for i := range min(150, len(rtt)-peers) {
				tr.assign(t, newProxy(t), coordstest.NewServer(peers+i, rng), i, &res)
			}
		}
		res.log(t, "proxy")
		if res.chosen/res.random > 0.75 || math.IsNaN(res.chosen) {
			t.Errorf("%d peers: chosen/random %.3f, want <= 0.75", peers, res.chosen/res.random)
		}
	}
}

// shuffled renumbers the nodes of a matrix.
func shuffled(rtt [][]float64, rng *rand.Rand) [][]float64 {
	order := rng.Perm(len(rtt))
	out := make([][]float64, len(rtt))
	for i, a := range order {
		for _, b := range order {
			out[i] = append(out[i], rtt[a][b])
		}
	}
	return out
}
