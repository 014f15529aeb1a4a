package coords_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords"
	"peerd/coords/coordstest"
)

func newEstimator(t testing.TB, change func(*coords.Config)) *coords.Estimator {
	t.Helper()
	cfg := coords.DefaultConfig()
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	if change != nil {
		change(&cfg)
	}
	return coords.NewEstimator(cfg)
}

func at(x ...float64) coords.Coordinate { return coords.Coordinate{Vec: x, Height: 1, Error: 0.1} }

func TestObserveRefuses(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, nil)
	before := fmt.Sprint(e.Coordinate())
	for _, tc := range []struct {
		name, peer string
		remote     coords.Coordinate
		rtt        time.Duration
		want       error
	}{
		{"no peer", "", at(0, 0, 0, 0), time.Second, coords.ErrPeer},
		{"dimension", "p", at(0, 0), time.Second, coords.ErrDimension},
		{"NaN", "p", at(0, 0, math.NaN(), 0), time.Second, coords.ErrBounds},
		{"zero", "p", at(0, 0, 0, 0), 0, coords.ErrRTT},
		{"negative", "p", at(0, 0, 0, 0), -time.Second, coords.ErrRTT},
		{"a minute", "p", at(0, 0, 0, 0), time.Minute, coords.ErrRTT},
	} {
		if err := e.Observe(tc.peer, tc.remote, tc.rtt); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	if after := fmt.Sprint(e.Coordinate()); after != before {
		t.Errorf("moved from %s to %s", before, after)
	}
}

// "When two nodes share a location, the spring pushes them in a random
// direction" ([1] 3.2): from one point, a pair finds its distance.
func TestTwoPeersFromOnePoint(t *testing.T) {
	t.Parallel()
	a := newEstimator(t, nil)
	b := newEstimator(t, func(c *coords.Config) { c.Rand = rand.New(rand.NewPCG(3, 4)) })
	for range 30 {
		ac, bc := a.Coordinate(), b.Coordinate()
		_ = a.Observe("b", bc, 80*time.Millisecond)
		_ = b.Observe("a", ac, 80*time.Millisecond)
	}
	if d := a.Coordinate().Distance(b.Coordinate()); math.Abs(d-80) > 4 {
		t.Errorf("distance %.1f, want 80", d)
	}
	if e := a.Coordinate().Error; e > 0.2 {
		t.Errorf("error %.2f, want it low", e)
	}
}

// "A node with a high error relative to its neighbour moves a lot, one with a
// low error little" ([1] 3.4).
func TestWeightLeansToTheCertain(t *testing.T) {
	t.Parallel()
	move := func(remoteError float64) float64 {
		e := newEstimator(t, func(c *coords.Config) { c.Passes = 1 })
		remote := at(50, 0, 0, 0)
		remote.Error = remoteError
		before := e.Coordinate()
		if err := e.Observe("p", remote, 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		after := e.Coordinate()
		return math.Abs(after.Vec[0] - before.Vec[0])
	}
	sure, unsure := move(0.1), move(1)
	if !(sure > 1.25*unsure) { // by e_i/(e_i+e_j), with e_i = 1 and e_j from .5 to 1: 4/3
		t.Errorf("moved %.2f for a certain and %.2f for an uncertain peer", sure, unsure)
	}
	if boast := move(0); boast != sure {
		t.Errorf("claiming no error gained weight: %.3f against %.3f", boast, sure)
	}
}

func TestLoadNeverMovesThePoint(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, nil)
	_ = e.Observe("p", at(10, 0, 0, 0), 30*time.Millisecond)
	own := e.Coordinate()
	e.SetLoad(3 * time.Second)
	told := e.Announced()
	if told.Height != own.Height+3000 || fmt.Sprint(told.Vec) != fmt.Sprint(own.Vec) {
		t.Errorf("own %v, announced %v", own, told)
	}
	if fmt.Sprint(e.Coordinate()) != fmt.Sprint(own) {
		t.Error("load changed the own coordinate")
	}
	e.SetLoad(-time.Second)
	if e.Announced().Height != own.Height {
		t.Error("negative load lowered the height")
	}
}

// settle teaches e its position among ten fixed peers around the origin.
func settle(t testing.TB, e *coords.Estimator, rounds int) []coords.Coordinate {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	var peers []coords.Coordinate
	for range 10 {
		peers = append(peers, at(rng.NormFloat64()*50, rng.NormFloat64()*50, rng.NormFloat64()*50,
			rng.NormFloat64()*50))
	}
	truth := at(10, 10, 0, 0)
	for range rounds {
		for i, p := range peers {
			ms := truth.Distance(p) * (1 + 0.02*math.Abs(rng.NormFloat64()))
			_ = e.Observe(fmt.Sprint("p", i), p, time.Duration(ms*float64(time.Millisecond)))
		}
	}
	return peers
}

func TestOutlierIsRejectedAndOneStrayRTTFiltered(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, nil)
	peers := settle(t, e, 20)
	before := e.Coordinate()
	// A single stray round trip has no effect on the median.
	if err := e.Observe("p0", peers[0], 5*time.Second); err != nil {
		t.Errorf("stray round trip: %v", err)
	}
	// A liar is rejected: nothing moves.
	now := e.Coordinate()
	if err := e.Observe("liar", at(20000, 0, 0, 0), time.Millisecond); !errors.Is(err,
		coords.ErrOutlier) {
		t.Errorf("liar: got %v, want ErrOutlier", err)
	}
	if after := e.Coordinate(); fmt.Sprint(after) != fmt.Sprint(now) {
		t.Error("the liar moved us")
	}
	before.Height, now.Height = 0, 0
	if d := before.Distance(now); d > 2 {
		t.Errorf("the stray round trip moved us by %.1f ms", d)
	}
}

// A peer that really moved leaves its old position: when most samples disagree, the
// samples are right.
func TestMovedPeerRecovers(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, nil)
	peers := settle(t, e, 20)
	truth := at(-80, 40, 0, 0)
	for range 60 {
		for i, p := range peers {
			_ = e.Observe(fmt.Sprint("p", i), p,
				time.Duration(truth.Distance(p)*float64(time.Millisecond)))
		}
	}
	worst := 0.0
	for _, p := range peers {
		worst = max(worst, math.Abs(e.Coordinate().Distance(p)-truth.Distance(p))/truth.Distance(p))
	}
	if worst > 0.15 {
		t.Errorf("off by %.2f after the move", worst)
	}
}

func TestMoveIsCappedAfterWarmUp(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, func(c *coords.Config) { c.OutlierFactor = 1e9; c.GravityRho = 1e9 })
	settle(t, e, 20)
	before := e.Coordinate()
	_ = e.Observe("far", at(9000, 0, 0, 0), time.Millisecond)
	after := e.Coordinate()
	before.Height, after.Height = 0, 0
	if d := before.Distance(after); d > 5.001 {
		t.Errorf("moved %.2f ms at once", d)
	}
}

// Memory is bounded, and the peers that are still observed stay.
func TestNeighboursAreBounded(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, func(c *coords.Config) { c.MaxNeighbours = 8 })
	for i := range 1000 {
		_ = e.Observe(fmt.Sprint("p", i), at(float64(i%50), 1, 0, 0), 20*time.Millisecond)
		_ = e.Observe("friend", at(5, 1, 0, 0), 20*time.Millisecond)
		if n := e.Neighbours(); n > 8 {
			t.Fatalf("%d neighbours", n)
		}
	}
	e.Forget("friend")
	e.Forget("unknown")
	if n := e.Neighbours(); n != 7 {
		t.Errorf("%d neighbours after one left, want 7", n)
	}
}

// Whatever the input, the coordinate remains one that others accept.
func TestCoordinateStaysValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := coords.DefaultConfig()
		cfg.Rand = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		e := coords.NewEstimator(cfg)
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			peer := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "peer")
			rtt := time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "rtt"))
			_ = e.Observe(peer, coordinate(4).Draw(t, "remote"), rtt)
			if err := e.Coordinate().Validate(4); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestRunsRepeat(t *testing.T) {
	t.Parallel()
	run := func() string {
		e := newEstimator(t, nil)
		settle(t, e, 5)
		return fmt.Sprint(e.Coordinate())
	}
	if a, b := run(), run(); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

// A full set of neighbours in a settled network.
func BenchmarkObserve(b *testing.B) {
	e := newEstimator(b, nil)
	rng := rand.New(rand.NewPCG(9, 9))
	truth := at(10, 10, 0, 0)
	var names []string
	var peers []coords.Coordinate
	for i := range coords.DefaultConfig().MaxNeighbours {
		names = append(names, fmt.Sprint("p", i))
		peers = append(peers, at(rng.NormFloat64()*50, rng.NormFloat64()*50, rng.NormFloat64()*50,
			rng.NormFloat64()*50))
	}
	observe := func(i int) {
		i %= len(peers)
		ms := truth.Distance(peers[i]) * (1 + 0.05*math.Abs(rng.NormFloat64()))
		_ = e.Observe(names[i], peers[i], time.Duration(ms*float64(time.Millisecond)))
	}
	for i := range 10 * len(peers) {
		observe(i)
	}
	for i := 0; b.Loop(); i++ {
		observe(i)
	}
}

// A peer that claims to be far away must not displace a new peer that knows no other,
// even if its claim is the only one.
func TestFirstLiarDoesNotDisplace(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, nil)
	for range 20 {
		_ = e.Observe("liar", at(5000, 0, 0, 0), 50*time.Millisecond)
	}
	if far := e.Coordinate().Distance(at(0, 0, 0, 0)); far > 30 {
		t.Errorf("carried off by %.0f ms", far)
	}
}

// Two peers that know only each other and move at the same time find their distance
// without alternately overshooting.
func TestTwoDoNotOvershoot(t *testing.T) {
	t.Parallel()
	a := newEstimator(t, nil)
	b := newEstimator(t, func(c *coords.Config) { c.Rand = rand.New(rand.NewPCG(3, 4)) })
	for i := range 40 {
		ac, bc := a.Coordinate(), b.Coordinate()
		_ = a.Observe("b", bc, 80*time.Millisecond)
		_ = b.Observe("a", ac, 80*time.Millisecond)
		if d := a.Coordinate().Distance(b.Coordinate()); i > 3 && d > 84 {
			t.Fatalf("distance %.1f after %d exchanges", d, i+1)
		}
	}
}

// Moved grows while the coordinate moves, and not while samples are rejected.
func TestMoved(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, nil)
	path, last := 0.0, e.Coordinate()
	for i := range 40 {
		if err := e.Observe(fmt.Sprint("p", i%4), at(float64(40*(i%4)), 30, 0, 0),
			50*time.Millisecond); err != nil && !errors.Is(err, coords.ErrOutlier) {
			t.Fatal(err)
		}
		now := e.Coordinate()
		sum := (now.Height - last.Height) * (now.Height - last.Height)
		for k := range now.Vec {
			sum += (now.Vec[k] - last.Vec[k]) * (now.Vec[k] - last.Vec[k])
		}
		path, last = path+math.Sqrt(sum), now
	}
	if got := e.Moved(); math.Abs(got-path) > 1e-6*path || path == 0 {
		t.Errorf("Moved() = %v, want %v", got, path)
	}
	before := e.Moved()
	if err := e.Observe("p", at(0, 0), time.Second); err == nil || e.Moved() != before {
		t.Errorf("Moved() after a rejected sample = %v, %v, want %v", e.Moved(), err, before)
	}
}

// If three of ten peers claim to be where each other peer is, the honest ones still find their
// places: a peer that is farther away than it says must not lift them all.
func TestNearLiarsDoNotLift(t *testing.T) {
	t.Parallel()
	const honest, all = 42, 60
	meanError := func(lying bool) (sum float64) {
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 5))
			s := coordstest.NewSwarm(coordstest.Globe(all, rng), all, rng)
			for range 60 {
				for a := range all {
					b := (a + 1 + rng.IntN(all-1)) % all
					rtt := coordstest.Millis(s.World.Trip(a, b, rng))
					for _, end := range [][2]int{{a, b}, {b, a}} {
						me, told := s.Peers[end[0]], s.Peers[end[1]].Coordinate()
						if lying && end[1] >= honest {
							told = me.Coordinate()
							told.Error = 0.01
						}
						_ = me.Observe(coordstest.Name(end[1]), told, rtt)
					}
				}
			}
			re50, _ := s.Errors(honest)
			sum += re50 / 5
		}
		return sum
	}
	without, with := meanError(false), meanError(true)
	t.Logf("%.3f, %.3f with liars", without, with)
	if with > 1.4*without {
		t.Errorf("the median error is %.3f instead of %.3f", with, without)
	}
}
