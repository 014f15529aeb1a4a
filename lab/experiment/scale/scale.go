package scale

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/zone"
	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
	"peerd/overlay"
	"peerd/overlay/peers"
)

// Scale is the experiment "scale".
func Scale() experiment.Experiment {
	return experiment.Experiment{
		Name: "scale",
		Title: "From ten to ten thousand peers: what each says, and how the peers near a server " +
			"are found",
		Source: "Malet 2009, section 2.3.4; Ledlie et al. 2007 (θ̂-routing)",
		Run:    runScale,
	}
}

// scaleRow is the result of one network size.
type scaleRow struct {
	Peers int    `json:"peers"`
	Seed  uint64 `json:"seed"`
	// Table is the mean number of other peers that a peer knows.
	Table float64 `json:"table"`
	// Messages and Bytes are what an idle peer sends per second. It receives as much.
	Messages float64 `json:"messages_s"`
	Bytes    float64 `json:"bytes_s"`
	// Of Bytes: digests, beacons of other peers passed on, and changes sent at once.
	Digests float64 `json:"digests_s"`
	Passed  float64 `json:"passed_s"`
	Pushed  float64 `json:"pushed_s"`
	// Hops is the mean number of hops of a search; Most is the maximum.
	Hops    float64 `json:"hops"`
	HopsP90 float64 `json:"hops_p90"`
	HopsMax float64 `json:"hops_max"`
	Log2    float64 `json:"log2_peers"`
	Asked   float64 `json:"asked"`
	// Found is the share of searches with a first peer within 15 % of the
	// least predicted cost of all peers.
	Found float64 `json:"found_predicted"`
	// Within15 is the share of servers for which the chosen peer, after 8 estimations, is truly
	// within 15 % of the best of all peers; All is the same if all peers are known.
	Within15 float64 `json:"within15"`
	All      float64 `json:"within15_full"`
	// Sixteen is Within15 with up to 16 estimations, which separates the quality of the search
	// from that of the estimations.
	Sixteen float64 `json:"within15_estimations16"`
	// LateP90 is the 90th percentile of the difference, in ms, between the round trips of the
	// chosen peer and of the peer nearest to the server.
	LateP90 float64 `json:"rtt_late_p90_ms"`
	// Error is the median relative error of the coordinates.
	Error float64 `json:"coordinate_re50"`
}

// scaleTableRow compares compositions of a table of 64 peers.
type scaleTableRow struct {
	Kind  string  `json:"kind"`
	Peers int     `json:"peers"`
	Size  int     `json:"size"`
	Found float64 `json:"found_predicted"`
	Hops  float64 `json:"hops"`
}

func runScale(ctx context.Context, p experiment.Params, out experiment.Out) error {
	sizes := []int{10, 100, 1000, 10_000}
	queries, rounds := 300, 40
	if p.Quick {
		sizes, queries, rounds = []int{10, 100, 400}, 40, 36
	}
	if p.Peers > 0 {
		sizes = []int{p.Peers}
	}
	if p.Rounds > 0 {
		rounds = p.Rounds
	}
	if p.Sites > 0 {
		queries = p.Sites
	}
	seed := max(p.Seed, 1)
	var matrix [][]float64
	if p.Matrix != "" {
		m, err := data.LoadMatrix(p.Matrix)
		if err != nil {
			return err
		}
		matrix = m.Square()
		out.Note(
			"Round trips are those of a matrix of %d nodes. Beyond its size its rows are used "+
				"again: two peers of one row are neighbours of some ms, other pairs get 10 %% of "+
				"jitter and access links of their own.", len(matrix))
	} else {
		out.Note(
			"The world is synthetic: 60 cities of different sizes on a globe, peers within " +
				"about 130 km of them, paths 1.3 to 1.9 times the great circle at 2/3 of the " +
				"speed of light, access links of 0.5 ms and more.")
	}
	names, err := overlay.NewNames("scale-0123456789abcdef")
	if err != nil {
		return err
	}
	wireSizes, err := peers.MeasureSizes(names.Beacons(), names.Coords(),
		coords.DefaultConfig().Dimensions)
	if err != nil {
		return err
	}
	out.Note(
		"Sizes of real messages: a beacon passed on %d bytes, an exchange %d and %d for each "+
			"peer known at either end. The traffic of the DHT is not included: it was "+
			"measured with real peers.", wireSizes.Beacon, wireSizes.Exchange, wireSizes.Entry)

	var rows []scaleRow
	for run := range max(p.Seeds, 1) {
		work, total := 0.0, 0.0
		for _, n := range sizes {
			total += float64(n)
		}
		for _, n := range sizes {
			s := &scaleRun{n: n, seed: seed + uint64(run), queries: queries, rounds: rounds,
				matrix: matrix, p: p, sizes: wireSizes}
			err := s.run(ctx, func(share float64, what string) {
				out.Progress((float64(run)+(work+share*float64(n))/total)/float64(max(p.Seeds, 1)),
					fmt.Sprintf("%d peers: %s", n, what))
			})
			if err != nil {
				return err
			}
			work += float64(n)
			out.Row("scale", s.row)
			rows = append(rows, s.row)
			if n == 1000 || p.Quick && n > 300 {
				for _, r := range s.compareTables() {
					out.Row("tables", r)
				}
			}
		}
	}
	report(rows, out)
	return nil
}

// report adds plots and claims.
func report(rows []scaleRow, out experiment.Out) {
	var n, bytes, hops, log2, within []float64
	for _, r := range rows {
		n = append(n, float64(r.Peers))
		bytes = append(bytes, 2*r.Bytes)
		hops, log2 = append(hops, r.HopsMax), append(log2, r.Log2)
		within = append(within, 100*r.Within15)
	}
	out.Plot(experiment.Plot{Name: "scale-bytes", Title: "Control traffic at rest", X: "peers",
		Y: "bytes/s a peer, sent and received", LogX: true,
		Series: []experiment.Series{{Name: "exchanges", X: n, Y: bytes}}})
	out.Plot(experiment.Plot{Name: "scale-hops", Title: "Hops of a search", X: "peers", Y: "hops",
		LogX: true,
		Series: []experiment.Series{{Name: "most", X: n, Y: hops},
			{Name: "log2 n", X: n, Y: log2}}})
	out.Plot(experiment.Plot{Name: "scale-within", Title: "Chosen peer within 15 % of the best",
		X: "peers", Y: "% of servers", LogX: true,
		Series: []experiment.Series{{Name: "searched", X: n, Y: within}}})
	var hundred, last scaleRow
	fewHops, good := true, true
	for _, r := range rows {
		if r.Peers <= 100 {
			hundred = r
		}
		last = r
		fewHops = fewHops && r.HopsMax <= r.Log2
		good = good && r.Found >= 0.9
	}
	out.Claim("target: control traffic at 100 peers at rest", "≤ 2 kB/s",
		fmt.Sprintf("%.0f bytes/s with %d peers", 2*hundred.Bytes, hundred.Peers),
		2*hundred.Bytes <= 2000)
	if hundred.Bytes > 0 && last.Peers > hundred.Peers {
		grows := last.Bytes / hundred.Bytes
		allowed := math.Log(float64(last.Peers)) / math.Log(float64(hundred.Peers))
		out.Claim("target: growth with the network",
			fmt.Sprintf("× %.2f at most from %d to %d peers (log n)", allowed, hundred.Peers,
				last.Peers), fmt.Sprintf("× %.2f", grows), grows <= allowed)
	}
	out.Claim("target: hops of a search", "≤ log2 n", fmt.Sprintf("%.0f of %.1f with %d peers",
		last.HopsMax, last.Log2, last.Peers), fewHops)
	out.Claim(
		"Ledlie et al. 2007: θ̂-routing over 1740 nodes finds the nearest or second nearest in "+
			"coordinate space", "always", fmt.Sprintf("within 15 %% of the least predicted "+
			"cost in "+
			"%.0f %% with %d peers", 100*last.Found, last.Peers), good)
	out.Claim(
		"Ledlie et al. 2007: with measurements on the way, a peer's latency above the nearest's",
		"≤ 30 ms in 90 %", fmt.Sprintf("%.0f ms (90th percentile, %d peers)", last.LateP90,
			last.Peers), last.LateP90 <= 30)
	out.Claim("target: time of the chosen peer within 15 % of the best's",
		"in 90 % of the searches", fmt.Sprintf("%.0f %% with %d peers after 8 estimations",
			100*last.Within15, last.Peers), last.Within15 >= 0.9)
}

// scaleRun is one network.
type scaleRun struct {
	n, queries, rounds int
	seed               uint64
	matrix             [][]float64
	p                  experiment.Params
	sizes              peers.Sizes

	world *scaleWorld
	at    []coords.Coordinate
	wait  []float64 // ms
	views *scaleViews
	rng   *rand.Rand
	row   scaleRow

	strategy, sixteen assign.Strategy
	strategyMost      int // maximum number of samples
}

func (s *scaleRun) run(ctx context.Context, progress func(float64, string)) error {
	s.rng = rand.New(rand.NewPCG(s.seed, uint64(s.n)))
	pcfg := assign.DefaultProxyConfig()
	strategy, err := assign.NewProxy(pcfg)
	if err != nil {
		return err
	}
	s.strategy = strategy
	pcfg.Budget, pcfg.Pages = 16, math.MaxInt // do not stop earlier
	if s.sixteen, err = assign.NewProxy(pcfg); err != nil {
		return err
	}
	s.strategyMost = pcfg.Budget
	s.world = newScaleWorld(s.n+s.queries, s.seed, s.matrix)
	progress(0, "tables")
	for range s.n {
		wait := 0.0
		if s.rng.IntN(5) == 0 { // one in five is busy
			wait = 200 * s.rng.ExpFloat64()
		}
		s.wait = append(s.wait, wait)
	}
	if s.views, err = newScaleViews(peers.DefaultConfig(), s.sizes, zone.DefaultConfig(), s.world,
		s.n, s.rng); err != nil {
		return err
	}
	var bytes, messages, digests, passed, pushed float64
	rest := s.rounds * 2 / 3 // from here on, all tables are complete
	// The network grows: it doubles every few pauses.
	for size := 16; s.views.present < s.n; size *= 2 {
		s.views.join(size)
		for range 4 {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.views.round()
		}
		progress(0.2*float64(s.views.present)/float64(s.n), "joining")
	}
	for r := range s.rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r == rest {
			bytes, messages = s.views.bytes, s.views.messages
			digests, passed, pushed = s.views.digests, s.views.passed, s.views.pushed
		}
		s.views.round()
		progress(0.2+0.7*float64(r)/float64(s.rounds), "tables")
	}
	s.at = s.views.said
	seconds := float64(s.rounds-rest) * s.views.cfg.SlowInterval.Seconds() * float64(s.n)
	known := 0
	for _, t := range s.views.tables {
		known += len(t)
	}
	s.row = scaleRow{
		Peers: s.n, Seed: s.seed, Table: float64(known) / float64(s.n),
		Log2:  math.Log2(float64(s.n)),
		Bytes: (s.views.bytes - bytes) / seconds, Messages: (s.views.messages - messages) / seconds,
		Digests: (s.views.digests - digests) / seconds, Passed: (s.views.passed - passed) / seconds,
		Pushed: (s.views.pushed - pushed) / seconds,
		Error:  s.world.misplaced(s.at, s.rng),
	}
	return s.search(ctx, progress)
}

// search searches for peers near one server per query.
func (s *scaleRun) search(ctx context.Context, progress func(float64, string)) error {
	var hops, late []float64
	var asked, near, within, full, sixteen int
	for q := range s.queries {
		if err := ctx.Err(); err != nil {
			return err
		}
		progress(0.9+0.1*float64(q)/float64(s.queries), "searches")
		server := scaleServer{place: s.n + q, delay: 150, rtts: 3}
		if s.p.DelayMS > 0 {
			server.delay = s.p.DelayMS
		}
		if s.p.RTTs >= 1 {
			server.rtts = s.p.RTTs
		}
		server.delay *= math.Exp(0.5 * s.rng.NormFloat64())
		owner := s.rng.IntN(s.n)

		target, err := s.target(owner, server)
		if err != nil {
			return err
		}
		tables := func(i int) []int32 { return idsOf(s.views.tables[i]) }
		known, h, a, err := s.lookup(owner, target, tables)
		if err != nil {
			return err
		}
		hops, asked = append(hops, float64(h)), asked+a
		least := math.Inf(1)
		all := make([]int, s.n)
		for i := range s.n {
			all[i] = i
			least = min(least, s.cost(target, i))
		}
		if s.cost(target, known[0]) <= 1.15*least {
			near++
		}
		best, nearest := math.Inf(1), math.Inf(1)
		for i := range s.n {
			best = min(best, s.world.took(i, server)+s.wait[i])
			nearest = min(nearest, s.world.rtt(i, server.place))
		}
		found := func(t coords.Proxy) ([]int, error) {
			known, _, _, err := s.lookup(owner, t, tables)
			return known, err
		}
		chosen, err := s.choose(s.strategy, owner, server, found)
		if err != nil {
			return err
		}
		if s.world.took(chosen, server)+s.wait[chosen] <= 1.15*best {
			within++
		}
		late = append(late, s.world.rtt(chosen, server.place)-nearest)
		if more, err := s.choose(s.sixteen, owner, server, found); err != nil {
			return err
		} else if s.world.took(more, server)+s.wait[more] <= 1.15*best {
			sixteen++
		}
		oracle := func(t coords.Proxy) ([]int, error) { return s.byCost(t, all), nil }
		if chosen, err = s.choose(s.strategy, owner, server, oracle); err != nil {
			return err
		}
		if s.world.took(chosen, server)+s.wait[chosen] <= 1.15*best {
			full++
		}
	}
	n := float64(s.queries)
	s.row.Asked = float64(asked) / n
	s.row.Found, s.row.Within15, s.row.All = float64(near)/n, float64(within)/n, float64(full)/n
	s.row.Sixteen = float64(sixteen) / n
	sum := 0.0
	for _, h := range hops {
		sum += h
	}
	s.row.Hops, s.row.HopsP90, s.row.HopsMax = sum/n, scaleQuantile(hops, 0.9),
		scaleQuantile(hops, 1)
	s.row.LateP90 = scaleQuantile(late, 0.9)
	return nil
}

func (s *scaleRun) cost(target coords.Proxy, i int) float64 {
	return float64(target.Predict(s.at[i], 0))/float64(time.Millisecond) + s.wait[i]
}

// lookup searches from a peer and returns the peers found, best first.
func (s *scaleRun) lookup(
	from int, target coords.Proxy, table func(int) []int32,
) (known []int, hops, asked int, err error) {
	const k = 16 // peers per answer
	search, err := zone.NewSearch(target.At, zone.DefaultSearchConfig())
	if err != nil {
		return nil, 0, 0, err
	}
	found := func(i int) zone.Found {
		return zone.Found{Peer: zone.Peer{ID: s.views.names[i], At: s.at[i]},
			Cost: s.cost(target, i)}
	}
	search.Add(found(from))
	search.MarkAsked(s.views.names[from])
	for _, id := range table(from) {
		search.Add(found(int(id)))
	}
	if len(table(from)) < s.n-1 {
		for next := search.Next(); len(next) > 0; next = search.Next() {
			for _, p := range next {
				asked++
				var there []zone.Found
				ids := table(int(s.views.index[p.ID]))
				for _, id := range ids {
					there = append(there, found(int(id)))
				}
				for _, x := range zone.Answer(target.At, there, k) {
					search.Add(there[x])
				}
			}
		}
	}
	for _, f := range search.Best(scaleFound) {
		known = append(known, int(s.views.index[f.ID]))
	}
	return known, search.Hops(), asked, nil
}

func idsOf(table []scaleEntry) []int32 {
	ids := make([]int32, len(table))
	for i, e := range table {
		ids[i] = e.id
	}
	return ids
}

// compareTables searches with tables of 64 of different composition, each the best that gossip
// could produce.
func (s *scaleRun) compareTables() []scaleTableRow {
	const size, queries = 64, 150
	all := make([]zone.Peer, s.n)
	for i := range all {
		all[i] = zone.Peer{ID: s.views.names[i], At: s.at[i]}
	}
	var rows []scaleTableRow
	for _, kind := range []struct {
		name string
		cfg  zone.Config
	}{
		{"random", zone.Config{Rings: 8, InnerRadius: 2}},
		{"near", zone.Config{Near: 1, Rings: 8, InnerRadius: 2}},
		{"near + random", zone.Config{Near: 0.5, Rings: 8, InnerRadius: 2}},
		{"zones + random", zone.Config{Zones: 1, Rings: 8, InnerRadius: 2}},
		{"near + zones + random", zone.DefaultConfig()},
	} {
		rng := rand.New(rand.NewPCG(s.seed, 5))
		tables := map[int][]int32{}
		table := func(i int) []int32 {
			if tables[i] == nil {
				for _, k := range zone.Keep(s.at[i], all, size, kind.cfg, uint64(i)) {
					tables[i] = append(tables[i], int32(k))
				}
			}
			return tables[i]
		}
		r := scaleTableRow{Kind: kind.name, Peers: s.n, Size: size}
		for range queries {
			at := s.at[rng.IntN(s.n)].Clone()
			for i := range at.Vec {
				at.Vec[i] += 5 * rng.NormFloat64()
			}
			target := coords.Proxy{At: at, Delay: 20, Scale: 2}
			known, hops, _, err := s.lookup(rng.IntN(s.n), target, table)
			if err != nil {
				continue
			}
			least := math.Inf(1)
			for i := range s.n {
				least = min(least, s.cost(target, i))
			}
			if s.cost(target, known[0]) <= 1.0001*least {
				r.Found += 1.0 / queries
			}
			r.Hops += float64(hops) / queries
		}
		rows = append(rows, r)
	}
	return rows
}
