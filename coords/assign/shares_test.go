package assign_test

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"peerd/coords"
	"peerd/coords/assign"
)

func newHash(t *testing.T, replicas int) *assign.HashStrategy {
	t.Helper()
	s, err := assign.NewHash(assign.HashConfig{VirtualNodes: replicas})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shares assigns 2,000 subnets among n peers and returns who got which.
func shares(t *testing.T, s assign.Strategy, e assign.Evidence) []string {
	t.Helper()
	var out []string
	for i := range 1000 {
		e.Subnet = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		step, err := s.Next(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, step.Choice)
	}
	return out
}

func among(n int) assign.Evidence {
	e := assign.Evidence{Self: "p0"}
	for i := range n {
		e.Candidates = append(e.Candidates, assign.Candidate{ID: fmt.Sprint("p", i),
			At: coords.Coordinate{Vec: []float64{0}}})
	}
	return e
}

func count(owners []string) map[string]int {
	out := make(map[string]int)
	for _, o := range owners {
		out[o]++
	}
	return out
}

func TestSharesAreEven(t *testing.T) {
	t.Parallel()
	for _, s := range []assign.Strategy{assign.NewRandom(assign.RandomConfig{Seed: 3}),
		newHash(t, 64)} {
		for id, n := range count(shares(t, s, among(8))) {
			if n < 75 || n > 200 {
				t.Errorf("%s: %s has %d of 1000, want about 125", s.Name(), id, n)
			}
		}
	}
}

func TestRandomSeedsDiffer(t *testing.T) {
	t.Parallel()
	a := shares(t, assign.NewRandom(assign.RandomConfig{Seed: 1}), among(8))
	b := shares(t, assign.NewRandom(assign.RandomConfig{Seed: 2}), among(8))
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	if same > 200 {
		t.Errorf("%d of 1000 alike, want about 125", same)
	}
}

// UbiCrawler's contravariance: a new peer takes from all others and moves
// nothing among the others.
func TestHashMovesOnlyToTheNewcomer(t *testing.T) {
	t.Parallel()
	s := newHash(t, 64)
	before, after := shares(t, s, among(8)), shares(t, s, among(9))
	moved := 0
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		if moved++; after[i] != "p8" {
			t.Fatalf("subnet %d moved from %s to %s", i, before[i], after[i])
		}
	}
	if moved == 0 || moved > 250 {
		t.Errorf("%d of 1000 moved, want about 111", moved)
	}
}

func TestHashSharesByCapacity(t *testing.T) {
	t.Parallel()
	e := among(4)
	e.Candidates[2].Capacity = 3
	e.Candidates[3].Capacity = math.MaxFloat64 // cut at 16
	got := count(shares(t, newHash(t, 64), e))
	if got["p2"] < got["p0"]*3/2 || got["p3"] < got["p2"]*2 || got["p0"] == 0 {
		t.Errorf("shares %v, want about 1:1:3:16", got)
	}
}

func TestHashConfig(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 1025} {
		if _, err := assign.NewHash(assign.HashConfig{VirtualNodes: n}); err == nil {
			t.Errorf("NewHash accepted %d virtual nodes", n)
		}
	}
	if err := assign.DefaultHashConfig().Validate(); err != nil {
		t.Error(err)
	}
}
