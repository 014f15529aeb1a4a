package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"peerd/coords"
	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
)

const (
	// timeoutMS is the time of a failed download. Larger times, and those slightly below, are
	// failures.
	timeoutMS   = 20_000.0
	timeoutFrom = 19_900.0
	// Users without times for this share of the servers are left out, then servers without
	// times for a share of the users, and those with a median above medianMax ms.
	usersFrom   = 0.5
	serversFrom = 0.75
	medianMax   = 5000.0
)

// timesData is the content of a file of response times. Pairs without early or late values are
// not candidates.
type timesData struct {
	early [][][]float64 // [user][server]: the times from which a download draws
	truth [][]float64   // [user][server]; NaN: not a pair
}

// timesSource reads response times.
func timesSource(path string) (func(int, *rand.Rand) (*chooseWorld, error), error) {
	t, err := data.LoadTimes(path)
	if err != nil {
		return nil, err
	}
	d := pairsOf(t).measured()
	if len(d.truth) < 2 || len(d.truth[0]) == 0 {
		return nil, fmt.Errorf("%s: no servers that most users measured with a median below %v ms",
			path, medianMax)
	}
	return d.world, nil
}

// pairsOf takes the first eighth of the slots for early and the median of the last eighth for
// truth. If there is only one slot, it is used for both.
func pairsOf(t *data.Times) timesData {
	eighth := max(1, len(t.Slots)/8)
	known := func(slots [][][]float32, u, s int) (out []float64) {
		for _, slot := range slots {
			if x := slot[u][s]; x >= 0 {
				out = append(out, float64(x))
			}
		}
		return out
	}
	var d timesData
	for u, row := range t.Slots[0] {
		early, truth := make([][]float64, len(row)), make([]float64, len(row))
		for s := range row {
			early[s] = known(t.Slots[:eighth], u, s)
			truth[s] = middle(known(t.Slots[len(t.Slots)-eighth:], u, s))
			if len(early[s]) == 0 {
				truth[s] = math.NaN()
			}
		}
		d.early, d.truth = append(d.early, early), append(d.truth, truth)
	}
	return d
}

// middle returns the median, NaN if v is empty.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// measured removes the users and servers with few times.
func (d timesData) measured() timesData {
	var users, servers []int
	for u, row := range d.truth {
		n := 0
		for _, x := range row {
			if !math.IsNaN(x) {
				n++
			}
		}
		if float64(n) >= usersFrom*float64(len(row)) {
			users = append(users, u)
		}
	}
	for s := range d.truth[0] {
		if slices.ContainsFunc(users, func(u int) bool { return !math.IsNaN(d.truth[u][s]) }) {
			servers = append(servers, s)
		}
	}
	var out timesData
	for _, u := range users {
		var early [][]float64
		var truth []float64
		for _, s := range servers {
			early, truth = append(early, d.early[u][s]), append(truth, d.truth[u][s])
		}
		out.early, out.truth = append(out.early, early), append(out.truth, truth)
	}
	return out
}

// world returns a world in which some of the users are the peers.
func (d timesData) world(peers int, rng *rand.Rand) (*chooseWorld, error) {
	if peers > len(d.truth) {
		return nil, fmt.Errorf("choose: %d peers wanted, %d users measured most servers", peers,
			len(d.truth))
	}
	users := rng.Perm(len(d.truth))[:peers]
	var servers []int
	for s := range d.truth[0] {
		var known []float64
		for _, u := range users {
			if x := d.truth[u][s]; !math.IsNaN(x) {
				known = append(known, x)
			}
		}
		if len(known) >= 2 && float64(len(known)) >= serversFrom*float64(peers) &&
			middle(known) < medianMax {
			servers = append(servers, s)
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf(
			"choose: no servers that most of the %d peers measured with a median below %v ms",
			peers, medianMax)
	}
	w := &chooseWorld{rng: rng}
	for i, u := range users {
		var row []float64
		for _, s := range servers {
			row = append(row, d.truth[u][s])
		}
		w.names, w.truth = append(w.names, peerName(i)), append(w.truth, row)
		w.places = append(w.places, coords.Coordinate{Error: 1})
	}
	w.measure = func(peer, server int) coords.Sample {
		v := d.early[users[peer]][servers[server]]
		x := v[rng.IntN(len(v))]
		return coords.Sample{FirstByte: time.Duration(x * float64(time.Millisecond)), Reused: true,
			Failed: x >= timeoutFrom}
	}
	return w, nil
}

// matrixSource derives response times from round trips: p.RTTs round trips and a delay of the
// server.
func matrixSource(p experiment.Params) (func(int, *rand.Rand) (*chooseWorld, error), error) {
	m, err := data.LoadMatrix(p.Matrix)
	if err != nil {
		return nil, err
	}
	rtt := m.Square()
	delay, trips := p.DelayMS, p.RTTs
	if delay == 0 {
		delay = 150
	}
	if trips == 0 {
		trips = 3
	}
	return func(peers int, rng *rand.Rand) (*chooseWorld, error) {
		if peers >= len(rtt) {
			return nil, fmt.Errorf(
				"choose: %d peers wanted, the matrix has %d nodes, and some must be servers", peers,
				len(rtt))
		}
		return matrixWorld(rtt, peers, delay, trips, rng)
	}, nil
}

// matrixRounds is the number of exchanges of each peer before the first server is estimated.
const matrixRounds = 300

// matrixWorld returns a world in which some of the nodes are peers, which learn their
// coordinates from noisy round trips, and all others are servers.
func matrixWorld(
	rtt [][]float64, peers int, delay, trips float64, rng *rand.Rand,
) (*chooseWorld, error) {
	order := rng.Perm(len(rtt))
	w := &chooseWorld{rng: rng}
	estimators := make([]*coords.Estimator, peers)
	for i := range estimators {
		cfg := coords.DefaultConfig()
		cfg.Rand = rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		e := coords.NewEstimator(cfg)
		estimators[i] = e
		w.names = append(w.names, peerName(i))
	}
	for range matrixRounds {
		for a := range estimators {
			b := rng.IntN(peers)
			if a == b {
				continue
			}
			trip := time.Duration(rtt[order[a]][order[b]] * math.Exp(
				0.05*rng.NormFloat64()) * float64(time.Millisecond))
			at, bt := estimators[a].Coordinate(), estimators[b].Coordinate()
			// An error is a round trip out of the estimator's bounds, which both ends ignore.
			_ = estimators[a].Observe(w.names[b], bt, trip)
			_ = estimators[b].Observe(w.names[a], at, trip)
		}
	}
	w.estimators = estimators
	for _, e := range estimators {
		w.places = append(w.places, e.Coordinate())
	}
	servers := order[peers:]
	delays := make([]float64, len(servers))
	for i := range delays {
		delays[i] = delay * math.Exp(0.6*rng.NormFloat64())
	}
	w.truth = make([][]float64, peers)
	for u := range w.truth {
		for s, node := range servers {
			w.truth[u] = append(w.truth[u], delays[s]+trips*rtt[order[u]][node])
		}
	}
	w.measure = func(peer, server int) coords.Sample {
		trip := rtt[order[peer]][servers[server]]
		ms := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
		// A handshake, then the request; the remaining round trips are slow start.
		connect := min(1, trips/2) * trip
		first := connect + delays[server]
		return coords.Sample{Connect: ms(connect), FirstByte: ms(first),
			Body: ms(max(0, trips*trip-2*connect)), Bytes: 16_000}
	}
	return w, nil
}

// syntheticSource generates response times similar to measured ones: places in a plane, a delay
// of each server, slow peers, heavy-tailed noise and failures.
func syntheticSource(quick bool) func(int, *rand.Rand) (*chooseWorld, error) {
	servers := 400
	if quick {
		servers = 80
	}
	return func(peers int, rng *rand.Rand) (*chooseWorld, error) {
		return syntheticTimes(peers, servers, 8, rng).world(peers, rng)
	}
}

// syntheticTimes generates users × servers, each with the given number of early values.
func syntheticTimes(users, servers, early int, rng *rand.Rand) timesData {
	type place struct{ x, y, own, mood float64 }
	somewhere := func(own, mood float64) place {
		// Places are around ten towns on a map of 150 ms.
		town := rand.New(rand.NewPCG(uint64(rng.IntN(10)), 5))
		return place{town.Float64()*150 + 4*rng.NormFloat64(),
			town.Float64()*80 + 4*rng.NormFloat64(), own, mood}
	}
	var d timesData
	var at []place
	for range servers {
		at = append(at, somewhere(30*math.Exp(rng.NormFloat64()), 0))
	}
	for range users {
		me := somewhere(5*math.Exp(rng.NormFloat64()), 0.05*math.Exp(0.8*rng.NormFloat64()))
		slow := math.Exp(0.3 * rng.NormFloat64())
		fails := 0.02 * rng.ExpFloat64()
		rows, truth := make([][]float64, servers), make([]float64, servers)
		for s, there := range at {
			truth[s] = slow * (there.own + me.own + 2*math.Hypot(me.x-there.x,
				me.y-there.y)) * math.Exp(0.15*rng.NormFloat64())
			for range early {
				x := truth[s] * math.Exp(me.mood*rng.NormFloat64()/max(0.1, rng.Float64()))
				if rng.Float64() < fails {
					x = timeoutMS
				}
				rows[s] = append(rows[s], min(x, timeoutMS))
			}
		}
		d.early, d.truth = append(d.early, rows), append(d.truth, truth)
	}
	return d
}
