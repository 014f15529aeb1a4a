package assign_test

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
	"peerd/coords/registry"
)

// paper names the statement that a test is about.
func paper(t *testing.T, where, statement string) {
	t.Helper()
	t.Logf("%s: %q", where, statement)
}

// outcomes runs a strategy to its choice with fixed times, ms, by name.
func outcomes(
	t testing.TB, s assign.Strategy, e assign.Evidence, times map[string]float64,
) (choice string, probed []string) {
	t.Helper()
	for range 200 {
		step, err := s.Next(e)
		if err != nil {
			t.Fatal(err)
		}
		if step.Choice != "" {
			return step.Choice, probed
		}
		probed = append(probed, step.Probe)
		e.Samples = append(e.Samples, took(step.Probe, times[step.Probe]))
	}
	t.Fatal("Next made no choice")
	return "", nil
}

// took is a probe of a peer in a space of one dimension.
func took(peer string, ms float64) coords.Sample {
	d := time.Duration(ms * float64(time.Millisecond))
	return coords.Sample{Peer: peer, At: coords.Coordinate{Vec: []float64{0}}, Connect: d,
		FirstByte: d}
}

func TestPaperBruteForceFindsTheNearest(t *testing.T) {
	t.Parallel()
	paper(t, "Papapetrou 2003, 5.3",
		"each URL would be crawled from the migrating crawler logically nearer to it")
	s := must(assign.NewProbe(assign.DefaultProbeConfig()))
	rapid.Check(t, func(t *rapid.T) {
		e := among(rapid.IntRange(1, 20).Draw(t, "n"))
		e.Subnet, e.CanProbe = netip.MustParsePrefix("192.0.2.0/24"), true
		times := map[string]float64{}
		best := math.Inf(1)
		for _, c := range e.Candidates {
			times[c.ID] = rapid.Float64Range(1, 500).Draw(t, c.ID)
			best = min(best, math.Trunc(times[c.ID]*1e6))
		}
		for range len(e.Candidates) {
			step, err := s.Next(e)
			if err != nil || step.Via != assign.ViaConnect {
				t.Fatalf("Next() = %+v, %v, want a probe by a connection", step, err)
			}
			e.Samples = append(e.Samples, took(step.Probe, times[step.Probe]))
		}
		step, err := s.Next(e)
		if err != nil || math.Trunc(times[step.Choice]*1e6) != best {
			t.Fatalf("Next() = %+v, %v, want the nearest of %v", step, err, times)
		}
	})
}

func TestPaperHigherThresholdsNeedFewerProbes(t *testing.T) {
	t.Parallel()
	paper(t, "Papapetrou 2003, 7.2",
		"the higher the threshold, the less optimal delegations we get")
	rapid.Check(t, func(t *rapid.T) {
		e := among(12)
		e.Subnet = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, rapid.Byte().Draw(t, "subnet"),
			0}), 24)
		e.CanProbe = true
		times := map[string]float64{}
		for _, c := range e.Candidates {
			times[c.ID] = float64(rapid.IntRange(1, 200).Draw(t, c.ID))
		}
		last, lastTime := 13, 0.0
		for _, ms := range []int{0, 25, 50, 75, 100, 200} {
			cfg := assign.ThresholdConfig{Threshold: time.Duration(ms) * time.Millisecond}
			s, err := assign.NewSequential(cfg)
			if err != nil {
				t.Fatal(err)
			}
			n, choice := 0, ""
			f := e
			for choice == "" {
				step, err := s.Next(f)
				if err != nil {
					t.Fatal(err)
				}
				if choice = step.Choice; choice == "" {
					n++
					f.Samples = append(f.Samples, took(step.Probe, times[step.Probe]))
				}
			}
			if n > last || times[choice] < lastTime {
				t.Fatalf("%d ms: %d probes after %d, %v ms after %v", ms, n, last, times[choice],
					lastTime)
			}
			last, lastTime = n, times[choice]
		}
	})
}

func TestPaperHiMicraConstruction(t *testing.T) {
	t.Parallel()
	paper(t, "Papapetrou 2003, 6.5",
		"if we have only one possible root crawler (crawler 1) and four possible children ... "+
			"Suppose that this is the set (1,4,5). ... both crawlers are clustered around "+
			"crawler 4 because ddiff(2, 4) < ddiff(2, 5) and ddiff(3, 4) < ddiff(3, 5). "+
			"This means that crawlers 2 and 3 will be descendants of crawler 4")
	// Probing times of two training sites; 9 stands with 1 at the top, far from all.
	training := map[string][]float64{
		"1": {100, 100}, "4": {100, 160}, "5": {160, 100}, "2": {100, 140}, "3": {105, 140},
		"9": {900, 900},
	}
	e := assign.Evidence{Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: "1", CanProbe: true}
	for _, id := range []string{"1", "2", "3", "4", "5", "9"} {
		e.Candidates = append(e.Candidates,
			assign.Candidate{ID: id, At: coords.Coordinate{Vec: []float64{0}}})
	}
	cfg := assign.DefaultHiMicraConfig()
	cfg.Distance = assign.TrainedDistance(training)
	s := must(assign.NewHiMicra(cfg))
	times := map[string]float64{"9": 500, "1": 60, "4": 55, "5": 58, "2": 51, "3": 50}
	choice, probed := outcomes(t, s, e, times)
	// The farthest crawler from all is 9; with it the pair of the largest sum is 5 or
	// 1's group by name; its members are then asked around 1.
	if choice != "3" || len(probed) != 6 {
		t.Errorf("chose %s after %v, want 3 after six probes", choice, probed)
	}
	want := "[1 9 4 5 2 3]"
	if got := fmt.Sprint(probed); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// registryOf builds a table of prefixes and holders, given in turn.
func registryOf(t testing.TB, pairs ...string) *registry.Table {
	t.Helper()
	var entries []registry.Entry
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, registry.Entry{Prefix: netip.MustParsePrefix(pairs[i]),
			Holder: pairs[i+1]})
	}
	table, err := registry.Build(entries)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestPaperRebuildKeepsDelegations(t *testing.T) {
	t.Parallel()
	paper(t, "Papapetrou 2003, 7.5.3",
		"we had to propagate all the subnet delegations that existed in the old hierarchy tree "+
			"to the new one")
	cfg := assign.DefaultIPMicraConfig()
	known := assigntest.Delegations{{Subnet: netip.MustParsePrefix("10.1.4.0/24"), Owner: "p1"},
		{Subnet: netip.MustParsePrefix("10.1.5.0/24"), Owner: "p2"}}
	for name, table := range map[string]*registry.Table{
		"1, unchanged": registryOf(t, "10.0.0.0/8", "", "10.1.4.0/23", "a"),
		"2, split":     registryOf(t, "10.0.0.0/8", "", "10.1.4.0/24", "a", "10.1.5.0/24", "b"),
		"3, joined":    registryOf(t, "10.0.0.0/8", "", "10.1.0.0/16", "a"),
	} {
		s := must(assign.NewIPMicra(cfg, table))
		for _, d := range known {
			e := among(3)
			e.Subnet, e.Delegations, e.CanProbe = d.Subnet, known, true
			if choice, probed := outcomes(t, s, e, nil); choice != d.Owner || len(probed) > 0 {
				t.Errorf("case %s: %s goes to %s after %v, want %s without a probe", name, d.Subnet,
					choice, probed, d.Owner)
			}
		}
	}
}

func TestPaperCalibration(t *testing.T) {
	t.Parallel()
	paper(t, "Papapetrou 2003, 7.6.2",
		"if the new time is sufficiently larger than the time demanded for the previous "+
			"downloads of the same page, and if this repeats for more than one time "+
			"continuously, then the subnet is re-delegated")
	cfg := assign.CalibrationConfig{Factor: 2, Least: 20 * time.Millisecond, Times: 2}
	series := func(ms ...float64) (out []coords.Sample) {
		for _, x := range ms {
			out = append(out, took("p0", x), took("other", 900))
		}
		return out
	}
	for _, c := range []struct {
		name  string
		times []float64
		since int
		slow  bool
	}{
		{"steady", []float64{30, 32, 31, 30, 33}, 0, false},
		{"once", []float64{30, 32, 31, 30, 200}, 0, false},
		{"twice, not in a row", []float64{30, 200, 31, 30, 200}, 0, false},
		{"twice in a row", []float64{30, 32, 31, 200, 210}, 6, true},
		{"quick pages vary", []float64{3, 4, 3, 12, 14}, 0, false},
		{"too little is known", []float64{200, 210}, 0, false},
	} {
		if since, slow := cfg.Slow(series(c.times...), "p0"); since != c.since || slow != c.slow {
			t.Errorf("Slow(%s) = %d, %v", c.name, since, slow)
		}
	}
	failing := append(series(30, 31), coords.Sample{Peer: "p0", Failed: true},
		coords.Sample{Peer: "p0", Failed: true})
	if _, slow := cfg.Slow(failing, "p0"); !slow {
		t.Error("Slow(failures) = false, want true")
	}
}

func TestPaperReleaseBySmallestVariance(t *testing.T) {
	t.Parallel()
	paper(t, "Papapetrou 2003, 7.6.3",
		"This is the subnet with the smallest variance in its probing results. The crawler "+
			"takes this subnet and checks if the next-best crawler for it (if any), according "+
			"to the probing results, is available and can accept the subnet (i.e. will not get "+
			"overloaded). If so, the subnet is re-delegated to this crawler. If not, we retry "+
			"the approach with the next best subnet")
	subnet := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24)
	}
	loads := []assign.Load{
		{Subnet: subnet(1), Size: 4, Probes: map[string]float64{"me": 10, "a": 200, "b": 300}},
		{Subnet: subnet(2), Size: 4, Probes: map[string]float64{"me": 10, "a": 14, "b": 12}},
		{Subnet: subnet(3), Size: 4, Probes: map[string]float64{"me": 10, "a": 18, "b": 30}},
		{Subnet: subnet(4), Size: 4, Probes: map[string]float64{"me": 10}},
	}
	for _, c := range []struct {
		name     string
		excess   float64
		capacity map[string]float64
		want     []assign.Release
	}{
		{"not overloaded", 0, map[string]float64{"a": 9, "b": 9}, nil},
		{"the smallest variance, to the next best", 3, map[string]float64{"a": 9, "b": 9},
			[]assign.Release{{Subnet: subnet(2), To: "b"}}},
		{"b is full", 3, map[string]float64{"a": 9, "b": 3},
			[]assign.Release{{Subnet: subnet(3), To: "a"}}},
		{"more is needed, and a has no capacity for two", 9, map[string]float64{"a": 7, "b": 9},
			[]assign.Release{{Subnet: subnet(2), To: "b"}, {Subnet: subnet(3), To: "a"}}},
		{"no capacity", 9, nil, nil},
	} {
		if got := assign.Relieve("me", loads, c.excess, c.capacity); fmt.Sprint(got) != fmt.Sprint(
			c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestThresholdConfigs(t *testing.T) {
	t.Parallel()
	for _, c := range []assign.ThresholdConfig{{Threshold: -1}, {ProbesMax: -1}, {Via: 7}} {
		if _, err := assign.NewSequential(c); err == nil {
			t.Errorf("Validate(%+v) = nil, want an error", c)
		}
	}
	himicra := assign.DefaultHiMicraConfig()
	himicra.Branching = 1
	if _, err := assign.NewHiMicra(himicra); err == nil {
		t.Error("NewHiMicra accepted a branching of 1")
	}
	if _, err := assign.NewGeo(nil); err == nil {
		t.Error("NewGeo accepted a nil Locator")
	}
	proxy := assign.DefaultIPMicraProxyConfig()
	proxy.Neighbours, proxy.Sigma = 0, 0
	if _, err := assign.NewIPMicraProxy(proxy, nil); err == nil {
		t.Error("NewIPMicraProxy accepted Neighbours and Sigma of 0")
	}
	ip := assign.DefaultIPMicraConfig()
	ip.Company, ip.Calibration.Times = 9, 1
	if _, err := assign.NewIPMicra(ip, nil); err == nil {
		t.Error("NewIPMicra accepted an unknown CompanyRule")
	}
}

// HiMicra must not become slow where there are more pairs than can be tried.
func TestHiMicraGreedy(t *testing.T) {
	t.Parallel()
	e := among(400)
	for i := range e.Candidates {
		e.Candidates[i].At = coords.Coordinate{Vec: []float64{float64(i * i % 1009)}}
	}
	e.Subnet, e.CanProbe = netip.MustParsePrefix("192.0.2.0/24"), true
	times := map[string]float64{}
	for _, c := range e.Candidates {
		times[c.ID] = 60 + c.At.Vec[0]/10
	}
	times["p7"] = 20 // at 49, among the near ones
	cfg := assign.DefaultHiMicraConfig()
	cfg.ProbesMax = 60
	if choice, probed := outcomes(t, must(assign.NewHiMicra(cfg)), e, times); times[choice] > 62 {
		t.Errorf("chose %s at %v ms after %d probes", choice, times[choice], len(probed))
	}
}

func TestPaperSlowSubnetsAreDelegatedAgain(t *testing.T) {
	t.Parallel()
	paper(t, "Papapetrou 2003, 7.6.2",
		"the subnet is re-delegated, so that a more suitable crawler is found")
	s, err := assign.NewIPMicra(assign.DefaultIPMicraConfig(), registryOf(t, "10.0.0.0/8", "",
		"10.1.0.0/16", "a"))
	if err != nil {
		t.Fatal(err)
	}
	e := among(3) // p0 is the owner
	e.Subnet, e.CanProbe = netip.MustParsePrefix("10.1.8.0/24"), true
	e.Delegations = assigntest.Delegations{{Subnet: e.Subnet, Owner: "p0"},
		{Subnet: netip.MustParsePrefix("10.1.9.0/24"), Owner: "p2"}}
	e.Samples = []coords.Sample{took("p2", 25), took("p0", 20), took("p0", 22), took("p0", 21)}
	if r, err := s.Review(e); err != nil || r != (assign.Review{}) {
		t.Fatalf("Review(unchanged) = %+v, %v, want nothing", r, err)
	}
	e.Samples = append(e.Samples, took("p0", 90), took("p0", 95), took("p0", 92))
	if r, err := s.Review(e); err != nil || r.Scout != "p2" {
		t.Fatalf("Review(slow) = %+v, %v, want a probe by p2, without its old time", r, err)
	}
	e.Samples = append(e.Samples, took("p2", 30))
	if r, err := s.Review(e); err != nil || r.Better != "p2" || math.Abs(r.Gain-2.0/3) > 0.01 {
		t.Fatalf("Review(p2 near) = %+v, %v, want p2", r, err)
	}
	e.Samples[len(e.Samples)-1] = took("p2", 300)
	if r, err := s.Review(e); err != nil || r.Scout != "p1" {
		t.Fatalf("Review(p2 far) = %+v, %v, want the search to continue", r, err)
	}
	e.Samples = append(e.Samples, took("p1", 200))
	if r, err := s.Review(e); err != nil || r != (assign.Review{}) {
		t.Fatalf("Review(all far) = %+v, %v, want no move", r, err)
	}
}

// Connections that are opened and closed have no first byte: a round trip, and
// not none.
func TestIPMicraProxyPlacesByConnections(t *testing.T) {
	t.Parallel()
	cfg := assign.DefaultIPMicraProxyConfig()
	cfg.Chance, cfg.Via = 0.01, assign.ViaConnect
	s := must(assign.NewIPMicraProxy(cfg, nil))
	e := assign.Evidence{Subnet: netip.MustParsePrefix("10.1.8.0/24"), Self: "p0", CanProbe: false}
	for i, x := range []float64{0, 50, 100, 200} {
		at := coords.Coordinate{Vec: []float64{x}}
		id := fmt.Sprint("p", i)
		e.Candidates = append(e.Candidates, assign.Candidate{ID: id, At: at})
		e.Samples = append(e.Samples, coords.Sample{Peer: id, At: at,
			Connect: time.Duration(10+math.Abs(x-60)) * time.Millisecond})
	}
	e.Delegations = assigntest.Delegations{{Subnet: netip.MustParsePrefix("10.1.9.0/24"),
		Owner: "p0"}}
	step, err := s.Next(e)
	if err != nil || step.Choice != "p1" || step.Proxy == nil {
		t.Fatalf("Next() = %+v, %v", step, err)
	}
	if x := step.Proxy.At.Vec[0]; math.Abs(x-60) > 25 {
		t.Errorf("proxy at %v, want about 60", x)
	}
	if ms := step.Predicted["p3"].Milliseconds(); ms != 150 {
		t.Errorf("predicted %d ms for p3, want 150", ms)
	}
}
