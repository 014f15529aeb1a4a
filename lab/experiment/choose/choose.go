package choose

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/lab/experiment"
	"peerd/lab/internal/interval"
)

// chooseRow is the result of one method with k estimations per server.
type chooseRow struct {
	Method string `json:"method"`
	K      int    `json:"k"`
	// Within20 is the share of servers for which the chosen peer takes at most 20 % longer than
	// the best candidate.
	Within20 float64 `json:"within20"`
	// MedianRatio and P90Ratio are quantiles of the time of the chosen peer over that of the
	// best candidate.
	MedianRatio float64 `json:"median_ratio"`
	P90Ratio    float64 `json:"p90_ratio"`
	// MeanRatio is the mean time of the chosen peers over the mean time of all candidates.
	MeanRatio float64 `json:"mean_ratio"`
	// Within20CI is half of the width of the 95 %% interval of Within20 over seeds.
	Within20CI float64 `json:"within20_ci"`
}

// choose compares methods that choose the peer for a server from k estimations.
func choose() experiment.Experiment {
	return experiment.Experiment{
		Name:   "choose",
		Title:  "Choosing the peer for a server from k estimations",
		Source: "Malet 2009, 4.4: proxy coordinates from estimations",
		Run:    runChoose,
	}
}

func runChoose(ctx context.Context, p experiment.Params, out experiment.Out) error {
	peers, seeds, ks := p.Peers, p.Seeds, p.K
	if peers == 0 {
		peers = 64
	}
	if seeds == 0 {
		seeds = 5
	}
	if len(ks) == 0 {
		ks = []int{4, 8, 16}
	}
	if peers < 2 || seeds < 1 || slices.Min(ks) < 1 {
		return fmt.Errorf("choose: %d peers, %d seeds, k %v: want at least 2, 1 and 1", peers,
			seeds, ks)
	}
	source, err := chooseSource(p)
	if err != nil {
		return err
	}
	methods := []chooseMethod{
		{"random", func(w *chooseWorld, _ int) ([]int, error) { return w.random(), nil }},
		{"malet", func(w *chooseWorld, k int) ([]int, error) { return w.malet(k), nil }},
		{"best-of-k", func(w *chooseWorld, k int) ([]int, error) { return w.bestOf(k), nil }},
		{"peerd", func(w *chooseWorld, k int) ([]int, error) { return w.peerd(ctx, k) }},
	}
	if p.Matrix != "" {
		methods = append(methods, chooseMethod{"peerd-total", func(w *chooseWorld, k int) ([]int,
			error) {
			w.total = true
			return w.peerd(ctx, k)
		}})
	}
	done, all := 0, len(methods)*len(ks)*seeds
	for _, m := range methods {
		for _, k := range ks {
			var t chooseTally
			for seed := range uint64(seeds) {
				out.Progress(float64(done)/float64(all), fmt.Sprintf("%s, k=%d", m.name, k))
				if err := ctx.Err(); err != nil {
					return err
				}
				w, err := source(peers, rand.New(rand.NewPCG(p.Seed+seed, 44)))
				if err != nil {
					return err
				}
				chosen, err := m.run(w, k)
				if err != nil {
					return err
				}
				t.add(w, chosen)
				done++
			}
			out.Row("choose", t.row(m.name, k))
		}
	}
	out.Note("Each server is estimated at most k times, failures included, the deciding peer " +
		"first. No peer has learned traits. _ci is half of the width of the 95 %% interval over " +
		"seeds.")
	return nil
}

type chooseMethod struct {
	name string
	run  func(w *chooseWorld, k int) (chosen []int, err error)
}

// chooseWorld holds what a method may measure, and the true times by which it is judged.
type chooseWorld struct {
	rng    *rand.Rand
	names  []string
	places []coords.Coordinate // of the peers; without components if unknown
	// estimators have computed the places. Nil: they are unknown.
	estimators []*coords.Estimator
	// truth is the time of each peer at each server, ms; NaN if the peer is not a candidate.
	truth [][]float64
	// measure simulates one download.
	measure func(peer, server int) coords.Sample
	total   bool // only the total time of a download is known, not its phases
}

// candidates returns the peers that may be chosen for a server.
func (w *chooseWorld) candidates(server int) []int {
	var out []int
	for u := range w.names {
		if !math.IsNaN(w.truth[u][server]) {
			out = append(out, u)
		}
	}
	return out
}

// servers returns the number of servers, each of which has at least two candidates.
func (w *chooseWorld) servers() int { return len(w.truth[0]) }

// took returns the total time of a download in ms; a failure takes as long as the timeout.
func took(s coords.Sample) float64 {
	if s.Failed {
		return timeoutMS
	}
	return float64(s.Connect+s.FirstByte+s.Body) / float64(time.Millisecond)
}

func (w *chooseWorld) random() []int {
	out := make([]int, w.servers())
	for s := range out {
		c := w.candidates(s)
		out[s] = c[w.rng.IntN(len(c))]
	}
	return out
}

// bestOf chooses the fastest of k random candidates.
func (w *chooseWorld) bestOf(k int) []int {
	out := make([]int, w.servers())
	for s := range out {
		c := w.candidates(s)
		w.rng.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
		least := math.Inf(1)
		for _, u := range c[:min(k, len(c))] {
			if x := took(w.measure(u, s)); x < least {
				out[s], least = u, x
			}
		}
	}
	return out
}

// peerd runs the strategy of the peers for the owner of every server.
func (w *chooseWorld) peerd(ctx context.Context, k int) ([]int, error) {
	cfg := assign.DefaultProxyConfig()
	cfg.Budget = max(k, 4)
	cfg.Pages, cfg.Tie = math.MaxInt, 0
	strategy, err := assign.NewProxy(cfg)
	if err != nil {
		return nil, err
	}
	out := make([]int, w.servers())
	for _, server := range w.rng.Perm(len(out)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := w.newCase(server)
		choice := ""
		for choice == "" {
			if choice, err = c.step(w, strategy, k); err != nil {
				return nil, err
			}
		}
		out[server] = c.index[choice]
	}
	return out, nil
}

// chooseCase is the state of a decision about one server.
type chooseCase struct {
	name     string
	server   int
	evidence assign.Evidence
	peers    []int          // of the candidates
	index    map[string]int // peer by name
}

func (w *chooseWorld) newCase(server int) chooseCase {
	subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(server >> 8), byte(server), 0}), 24)
	c := chooseCase{
		name: subnet.String(), server: server, peers: w.candidates(server),
		index: make(map[string]int),
	}
	c.evidence = assign.Evidence{Subnet: subnet, CanProbe: true}
	for _, u := range c.peers {
		c.index[w.names[u]] = u
		c.evidence.Candidates = append(c.evidence.Candidates, assign.Candidate{ID: w.names[u],
			At: w.places[u], Capacity: 1,
			Addr: netip.AddrFrom4([4]byte{100, 64, byte(u >> 8), byte(u)})})
	}
	self := c.peers[w.rng.IntN(len(c.peers))]
	c.evidence.Self = w.names[self]
	if w.estimators == nil {
		return c
	}
	observed := coords.NewObservations()
	for _, u := range c.peers {
		observed.Add(w.names[u], w.places[u], w.estimators[u].Trips())
	}
	for i, o := range c.evidence.Candidates {
		o.At, o.Place = w.estimators[self].Judge(o.ID, o.At, observed.Of(o.ID))
		c.evidence.Candidates[i] = o
	}
	return c
}

// step makes the next probe, or the choice after k of them.
func (c *chooseCase) step(
	w *chooseWorld, strategy assign.Strategy, k int,
) (choice string, err error) {
	c.evidence.CanProbe = len(c.evidence.Samples) < k
	step, err := strategy.Next(c.evidence)
	if err != nil {
		return "", fmt.Errorf("choose: %s: %w", c.name, err)
	}
	if step.Choice != "" {
		return step.Choice, nil
	}
	u := c.index[step.Probe]
	sample := w.measure(u, c.server)
	if w.total {
		sample.FirstByte += sample.Connect + sample.Body
		sample.Connect, sample.Body = 0, 0
	}
	sample.Peer, sample.At = step.Probe, w.places[u]
	c.evidence.Samples = append(c.evidence.Samples, sample)
	return "", nil
}

// chooseTally accumulates the results of choices.
type chooseTally struct {
	ratios       []float64
	chosen, mean float64
	within       []float64 // of each run
}

func (t *chooseTally) add(w *chooseWorld, chosen []int) {
	within := 0.0
	for s, u := range chosen {
		best, sum, n := math.Inf(1), 0.0, 0.0
		for _, c := range w.candidates(s) {
			best = min(best, w.truth[c][s])
			sum += w.truth[c][s]
			n++
		}
		x := w.truth[u][s]
		t.ratios = append(t.ratios, x/max(best, 1e-3))
		t.chosen += x
		t.mean += sum / n
		if x <= 1.2*best {
			within++
		}
	}
	t.within = append(t.within, within/float64(len(chosen)))
}

func (t *chooseTally) row(method string, k int) chooseRow {
	n := len(t.ratios)
	slices.Sort(t.ratios)
	round := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	within, ci := interval.OfMean(t.within)
	return chooseRow{
		Method: method, K: k, Within20: within, Within20CI: ci,
		MedianRatio: round(t.ratios[n/2]),
		P90Ratio:    round(t.ratios[min(n-1, n*9/10)]),
		MeanRatio:   round(t.chosen / t.mean),
	}
}

// chooseSource returns a function that creates the world of a run.
func chooseSource(
	p experiment.Params,
) (func(peers int, rng *rand.Rand) (*chooseWorld, error), error) {
	switch {
	case p.Times != "" && p.Matrix != "":
		return nil, errors.New("choose: --times and --matrix exclude each other")
	case p.Times != "":
		return timesSource(p.Times)
	case p.Matrix != "":
		return matrixSource(p)
	}
	return syntheticSource(p.Quick), nil
}

// peerName returns the name of peer i.
func peerName(i int) string { return "peer-" + strconv.Itoa(i) }
