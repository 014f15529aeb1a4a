package assign_test

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
)

// scene is a decision among peers on a line, 40 ms apart: a at 0, b at 40, ...
func scene(names string, self string) assign.Evidence {
	e := assign.Evidence{Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: self, CanProbe: true}
	for i, r := range names {
		e.Candidates = append(e.Candidates, assign.Candidate{
			ID: string(r), At: coords.Coordinate{Vec: []float64{float64(40 * i), 0}, Height: 1,
				Error: 0.05},
		})
	}
	return e
}

// at returns the download of a peer from a server at x on the line.
func at(e assign.Evidence, id string, x, delay float64) coords.Sample {
	i := slices.IndexFunc(e.Candidates, func(c assign.Candidate) bool { return c.ID == id })
	c := e.Candidates[i].At
	rtt := math.Abs(c.Vec[0]-x) + 2
	ms := func(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }
	return coords.Sample{Peer: id, At: c, Connect: ms(rtt), FirstByte: ms(rtt + delay), Body: ms(5),
		Bytes: 10_000}
}

func failure(e assign.Evidence, id string) coords.Sample {
	s := at(e, id, 0, 0)
	s.Failed = true
	return s
}

// play lets a ProxyStrategy decide and returns the probes in their order and
// the choice.
func play(
	t *testing.T, e assign.Evidence, probe func(e assign.Evidence, id string, n int) coords.Sample,
) (probes, choice string) {
	t.Helper()
	s := newProxy(t)
	for n := range 50 {
		step, err := s.Next(e)
		if err != nil {
			t.Fatal(err)
		}
		if step.Choice != "" {
			return probes, step.Choice
		}
		probes += step.Probe
		e.Samples = append(e.Samples, probe(e, step.Probe, n))
	}
	t.Fatalf("Next made no choice after %s", probes)
	return "", ""
}

// A handshake, as that of the deciding peer's request for robots.txt, spares a candidate no page if
// it may be the nearest, and is enough if it is not. One that answers without a page is asked once
// more.
func TestProxyAfterHandshake(t *testing.T) {
	t.Parallel()
	handshake := func(e assign.Evidence, x float64) coords.Sample {
		s := at(e, "d", x, 0)
		s.FirstByte, s.Body, s.Bytes = 0, 0, 0
		return s
	}
	for _, c := range []struct {
		name   string
		x      float64 // d is at 120
		page   bool
		asked  int
		choice string
	}{
		{"near", 120, true, 1, "d"},
		{"near, without a page", 120, false, 1, "d"},
		{"far", 280, true, 0, "h"},
		{"one other peer", 120, true, 1, "d"},
	} {
		e := scene("abcdefgh", "d")
		if c.name == "one other peer" {
			e.Candidates = e.Candidates[2:4]
		}
		e.Samples = []coords.Sample{handshake(e, c.x)}
		probes, choice := play(t, e, func(e assign.Evidence, id string, _ int) coords.Sample {
			if id == "d" && !c.page {
				return handshake(e, c.x)
			}
			return at(e, id, c.x, 50)
		})
		if strings.Count(probes, "d") != c.asked || choice != c.choice {
			t.Errorf("%s: probes %s, chose %s", c.name, probes, choice)
		}
	}
}

// A candidate with a handshake only has to be the nearest even if a page takes long there.
func TestProxyHandshakeIsNoPage(t *testing.T) {
	t.Parallel()
	e := scene("cd", "c")
	e.CanProbe = false
	e.Samples = []coords.Sample{at(e, "c", 23, 50), at(e, "d", 23, 50)} // d takes 6 ms less
	if step, err := newProxy(t).Next(e); err != nil || step.Choice != "d" {
		t.Errorf("with two pages: chose %s, %v, want d", step.Choice, err)
	}
	s := &e.Samples[1]
	s.FirstByte, s.Body, s.Bytes = 0, 0, 0
	if step, err := newProxy(t).Next(e); err != nil || step.Choice != "c" {
		t.Errorf("with a handshake of d: chose %s, %v, want c", step.Choice, err)
	}
}

func TestProxyMeasuresSelfThenWhatSavesMost(t *testing.T) {
	t.Parallel()
	probes, choice := play(t, scene("abcdefgh", "d"), func(e assign.Evidence, id string,
		_ int) coords.Sample {
		return at(e, id, 40, 50)
	})
	if !strings.HasPrefix(probes, "d") {
		t.Errorf("probes %s, want self first", probes)
	}
	if choice != "b" {
		t.Errorf("chose %s, want b, which stands there", choice)
	}
	if len(probes) > 6 {
		t.Errorf("probes %s: those on the far side are clearly worse", probes)
	}
}

// An anycast server has no place: peers that did not measure it are expected to be as far from it
// as those that did.
func TestProxyRecognisesAnycast(t *testing.T) {
	t.Parallel()
	e := scene("abcdefghijklmnop", "d")
	near := func(e assign.Evidence, id string, n int) coords.Sample {
		x := at(e, id, 0, 50)
		x.Connect = time.Duration(5+n%2) * time.Millisecond
		x.FirstByte = x.Connect + 50*time.Millisecond
		return x
	}
	probes, choice := play(t, e, near)
	if !strings.Contains(probes, choice) {
		t.Errorf("chose %s after %s, want one of these", choice, probes)
	}
	for n, id := range strings.Split(probes, "") {
		e.Samples = append(e.Samples, near(e, id, n))
	}
	step, err := newProxy(t).Next(e)
	if err != nil || step.Choice == "" || step.Proxy != nil {
		t.Fatalf("Next() = %+v, %v, want a choice and no proxy", step, err)
	}
	for id, took := range step.Predicted {
		if took > 100*time.Millisecond {
			t.Errorf("%v is expected of %s, want about 60 ms", took, id)
		}
	}
}

// Peers that claim to be seconds away are not the first ones measured: their places say nothing.
func TestProxyPassesOverImplausiblePlaces(t *testing.T) {
	t.Parallel()
	e := scene("abcdefghijklmnop", "d")
	for i, c := range e.Candidates {
		if strings.Contains("eimo", c.ID) {
			e.Candidates[i].At = coords.Coordinate{Vec: []float64{0, 2000 + float64(500*i)},
				Height: 1, Error: 0.01}
		}
	}
	honest := scene("abcdefghijklmnop", "d")
	probes, choice := play(t, e, func(_ assign.Evidence, id string, _ int) coords.Sample {
		return at(honest, id, 80, 50)
	})
	if strings.ContainsAny(probes[:coords.PlacedBy], "eimo") {
		t.Errorf("probes %s: those of e, i, m and o do not place the server", probes)
	}
	if choice != "c" {
		t.Errorf("chose %s, want c, which stands there", choice)
	}
}

// Peers at measured places are asked first, and refuted places neither predict nor place anything.
func TestProxyPlacesByMeasuredPeers(t *testing.T) {
	t.Parallel()
	honest := scene("abcdefghijklmnop", "d")
	e := scene("abcdefghijklmnop", "d")
	for i, c := range e.Candidates {
		switch {
		case strings.Contains("eikmn", c.ID): // liars
			e.Candidates[i].At.Vec[0], e.Candidates[i].Place = 300+float64(i), coords.Refuted
		case strings.Contains("op", c.ID):
			e.Candidates[i].At.Vec[0] = 500
		default:
			e.Candidates[i].Place = coords.Measured
		}
	}
	probes, choice := play(t, e, func(_ assign.Evidence, id string, _ int) coords.Sample {
		return at(honest, id, 80, 50)
	})
	if strings.ContainsAny(probes[:coords.PlacedBy], "eikmnop") ||
		strings.ContainsAny(strings.TrimRight(probes, "eikmn"), "eikmn") {
		t.Errorf("probes %s: the first ones are at measured places, the last at refuted ones",
			probes)
	}
	if choice != "c" {
		t.Errorf("chose %s, want c, which stands there", choice)
	}
	e.Samples = nil
	for _, id := range []string{"a", "d", "g", "e", "i", "m", "n"} {
		// The liars agree with each other that the server is at 500.
		sample := at(honest, id, 80, 50)
		if i := slices.IndexFunc(e.Candidates, func(c assign.Candidate) bool {
			return c.ID == id
		}); e.Candidates[i].Place == coords.Refuted {
			e.Candidates[i].At.Vec[0] = 502 - float64(sample.Connect)/1e6
		}
		e.Samples = append(e.Samples, sample)
	}
	step, err := newProxy(t).Next(e)
	if err != nil {
		t.Fatal(err)
	}
	if step.Proxy == nil {
		t.Fatal("the server has no place")
	}
	if _, known := step.Predicted["k"]; known {
		t.Error("a time is predicted for the refuted place of k")
	}
	if x := step.Proxy.At.Vec[0]; x < 70 || x > 90 {
		t.Errorf("the server is at %.0f, want 80: refuted places counted", x)
	}
}

// A peer on another continent than all others is plausible, and owns the servers near it.
func TestProxyChoosesTheOnlyFarPeer(t *testing.T) {
	t.Parallel()
	e := scene("abcdefghijkl", "d")
	for i := range e.Candidates[:11] {
		e.Candidates[i].At.Vec[0] = float64(i)
	}
	e.Candidates[11].At.Vec[0] = 280
	_, choice := play(t, e, func(e assign.Evidence, id string, _ int) coords.Sample {
		return at(e, id, 280, 50)
	})
	if choice != "l" {
		t.Errorf("chose %s, want l, which stands there", choice)
	}
}

// Delays caused by the server must not count against a peer.
func TestProxyComparesWithoutServerDelay(t *testing.T) {
	t.Parallel()
	_, choice := play(t, scene("abcdefgh", "h"), func(e assign.Evidence, id string,
		n int) coords.Sample {
		delay := 30 + 20*float64(n%3)
		if id == "c" {
			delay = 900
		}
		return at(e, id, 80, delay)
	})
	if choice != "c" {
		t.Errorf("chose %s, want c", choice)
	}
}

func TestProxyCountsTheWait(t *testing.T) {
	t.Parallel()
	e := scene("abcd", "a")
	e.Candidates[0].Wait = 5 * time.Second
	_, choice := play(t, e, func(e assign.Evidence, id string, _ int) coords.Sample {
		return at(e, id, 0, 20)
	})
	if choice != "b" {
		t.Errorf("chose %s, want b: a is next to the server and busy", choice)
	}
}

func TestProxyRetriesOneFailureAndLeavesTheUnreliable(t *testing.T) {
	t.Parallel()
	once := 0
	probes, choice := play(t, scene("abcd", "d"), func(e assign.Evidence, id string,
		_ int) coords.Sample {
		if id == "a" && once == 0 { // chance
			once++
			return failure(e, id)
		}
		return at(e, id, 0, 20)
	})
	if strings.Count(probes, "a") != 2 || choice != "b" {
		t.Errorf("probes %s, choice %s, want a second chance for a, and b, which never failed",
			probes, choice)
	}
	probes, choice = play(t, scene("abcd", "d"), func(e assign.Evidence, id string,
		_ int) coords.Sample {
		if id == "a" {
			return failure(e, id)
		}
		return at(e, id, 0, 20)
	})
	if choice != "b" || strings.Count(probes, "a") > 2 {
		t.Errorf("probes %s, choice %s, want b and no third try of a", probes, choice)
	}
}

// One failure is mostly chance: it does not outweigh the distance to all other peers.
func TestProxyForgivesOneFailure(t *testing.T) {
	t.Parallel()
	e := scene("abcd", "d")
	e.Candidates[0].At.Vec[0] = -200
	failed := false
	probes, choice := play(t, e, func(e assign.Evidence, id string, _ int) coords.Sample {
		if id == "a" && !failed {
			failed = true
			return failure(e, id)
		}
		return at(e, id, -200, 20)
	})
	if choice != "a" {
		t.Errorf("probes %s, choice %s, want a, which is 200 ms nearer and failed once", probes,
			choice)
	}
}

func TestProxyGivesUpOnADeadServer(t *testing.T) {
	t.Parallel()
	probes, choice := play(t, scene("abcdefgh", "c"), func(e assign.Evidence, id string,
		_ int) coords.Sample {
		return failure(e, id)
	})
	if choice != "c" || len(probes) != 4 {
		t.Errorf("probes %s, choice %s, want four probes and no move", probes, choice)
	}
}

func TestProxyWithoutPages(t *testing.T) {
	t.Parallel()
	e := scene("abcd", "c")
	e.CanProbe = false
	never := func(assign.Evidence, string, int) coords.Sample { panic("probed") }
	if _, choice := play(t, e, never); choice != "c" {
		t.Errorf("nothing known: chose %s, want no move", choice)
	}
	e.Samples = []coords.Sample{at(e, "c", 0, 20), at(e, "b", 0, 20)}
	if _, choice := play(t, e, never); choice != "b" {
		t.Errorf("chose %s, want the better of two", choice)
	}
	e.Exclude = map[string]bool{"b": true, "c": true}
	e.Samples = nil
	if _, choice := play(t, e, never); choice != "a" && choice != "d" {
		t.Errorf("chose %s, want one that is left", choice)
	}
}

// Peers in one place share the subnets instead of crowding on the first.
func TestProxySharesAmongEquals(t *testing.T) {
	t.Parallel()
	e := scene("abcd", "a")
	for i := range e.Candidates {
		e.Candidates[i].At.Vec[0] = 0
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		e.Samples = append(e.Samples, at(e, id, 0, 20))
	}
	got := count(shares(t, newProxy(t), e))
	for _, id := range []string{"a", "b", "c", "d"} {
		if got[id] < 150 {
			t.Errorf("shares %v, want about 250 each", got)
		}
	}
}

func TestProxyPassesOverMalformedSamples(t *testing.T) {
	t.Parallel()
	e := scene("abcd", "a")
	bad := coords.Sample{Peer: "stranger", At: coords.Coordinate{Vec: []float64{math.NaN()}},
		Connect: 1}
	e.Samples = []coords.Sample{bad, {}, {Peer: "b", Connect: -1}}
	_, choice := play(t, e, func(e assign.Evidence, id string, _ int) coords.Sample {
		return at(e, id, 120, 20)
	})
	if choice != "d" {
		t.Errorf("chose %s, want d", choice)
	}
}

// Of candidates that are equally near, the one that owns the fewest subnets is chosen.
func TestProxyBalancesEqualCandidates(t *testing.T) {
	t.Parallel()
	e := scene("abcd", "a")
	e.CanProbe = false
	for _, id := range []string{"a", "b", "c", "d"} { // the server is between b and c
		e.Samples = append(e.Samples, at(e, id, 60, 20))
	}
	for _, tc := range []struct {
		owned string // the owners of other subnets
		want  []string
	}{
		{"", []string{"b", "c"}}, {"b", []string{"c"}}, {"cbc", []string{"b"}},
		{"aabcd", []string{"b", "c"}}, {"bc", []string{"b", "c"}},
	} {
		var others assigntest.Delegations
		for i, r := range tc.owned {
			others = append(others, assign.Delegation{Owner: string(r),
				Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24)})
		}
		e.Delegations = others
		chosen := map[string]bool{}
		for i := range 32 {
			e.Subnet = netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(i), 0}), 24)
			step, err := newProxy(t).Next(e)
			if err != nil {
				t.Fatal(err)
			}
			chosen[step.Choice] = true
		}
		if got := slices.Sorted(maps.Keys(chosen)); !slices.Equal(got, tc.want) {
			t.Errorf("with subnets of %q chose %v, want %v", tc.owned, got, tc.want)
		}
	}
}

func TestProxyExplainsItself(t *testing.T) {
	t.Parallel()
	e := scene("abcd", "a")
	for _, id := range []string{"a", "b", "d"} {
		e.Samples = append(e.Samples, at(e, id, 40, 20))
	}
	step, err := newProxy(t).Next(e)
	if err != nil {
		t.Fatal(err)
	}
	if step.Proxy == nil || step.Proxy.Validate(2) != nil || step.Proxy.Samples != 3 {
		t.Errorf("proxy %+v", step.Proxy)
	}
	if len(step.Predicted) != 4 || step.Predicted["b"] >= step.Predicted["d"] {
		t.Errorf("predicted %v", step.Predicted)
	}
}

func TestProxyConfigNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	err := assign.ProxyConfig{Budget: -1, FailureCost: -1, Tie: -1}.Validate()
	for _, field := range []string{"Budget", "Pages", "FailureCost", "Tie"} {
		if err == nil || !strings.Contains(err.Error(), field+" is") {
			t.Errorf("%s not named in %v", field, err)
		}
	}
	if _, err := assign.NewProxy(assign.ProxyConfig{}); err == nil {
		t.Error("NewProxy accepted the zero ProxyConfig")
	}
}

func BenchmarkNext(b *testing.B) {
	s, err := assign.NewProxy(assign.DefaultProxyConfig())
	if err != nil {
		b.Fatal(err)
	}
	e := scene("abcdefgh", "d")
	for _, id := range []string{"a", "c", "d", "f", "h"} {
		e.Samples = append(e.Samples, at(e, id, 40, 20))
	}
	for b.Loop() {
		if _, err := s.Next(e); err != nil {
			b.Fatal(err)
		}
	}
}
