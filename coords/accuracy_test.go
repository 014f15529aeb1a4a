package coords_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"peerd/coords"
	"peerd/coords/coordstest"
)

var rttMatrix = flag.String("rtt-matrix", "",
	"file with a square matrix of measured round trips; tests on real data are skipped without it")

// A small network must place its peers within seconds, with one exchange per second and
// pair of peers.
func TestEightPeersConvergeInTenRounds(t *testing.T) {
	t.Parallel()
	var sum50, sum90, worst, ranked, total float64
	const worlds = 20
	for seed := range uint64(worlds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := coordstest.NewSwarm(coordstest.Globe(8, rng), 8, rng)
		for range 10 {
			s.Round(7)
		}
		re50, re90 := s.Errors(8)
		sum50 += re50 / worlds
		sum90 += re90 / worlds
		worst = max(worst, re50)
		good, all := ordered(s, 8)
		ranked += good
		total += all
	}
	t.Logf("8 peers, 10 rounds: RE50 mean %.3f worst %.3f, RE90 mean %.3f, pairs in order %.3f",
		sum50, worst, sum90, ranked/total)
	if sum50 > 0.12 || sum90 > 0.5 || ranked/total < 0.9 {
		t.Errorf("RE50 %.3f, RE90 %.3f, pairs in order %.3f; want <= 0.12, <= 0.5, >= 0.9",
			sum50, sum90, ranked/total)
	}
}

// ordered counts the triples in which a peer ranks two others correctly, among those
// with round trips that differ by at least 20 %.
func ordered(s *coordstest.Swarm, n int) (good, all float64) {
	for a := range n {
		for b := range n {
			for c := range n {
				if a == b || a == c || s.World.RTT[a][b]*1.2 > s.World.RTT[a][c] {
					continue
				}
				at := s.Peers[a].Coordinate()
				all++
				if at.Distance(s.Peers[b].Coordinate()) < at.Distance(s.Peers[c].Coordinate()) {
					good++
				}
			}
		}
	}
	return good, all
}

// TestRealMatrix sets a bar for a large network on measured round trips.
func TestRealMatrix(t *testing.T) {
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
	rng := rand.New(rand.NewPCG(1, 1))
	w := coordstest.FromMatrix(rtt, rng)
	s := coordstest.NewSwarm(w, len(rtt), rng)
	for round := 1; round <= 200; round++ {
		s.Round(1)
		switch round {
		case 10, 20, 50, 100, 200:
			re50, re90 := s.Errors(len(rtt))
			t.Logf("%d nodes, round %d: RE50 %.3f RE90 %.3f", len(rtt), round, re50, re90)
		}
	}
	if re50, _ := s.Errors(len(rtt)); re50 > 0.15 {
		t.Errorf("RE50 %.3f after 200 rounds, want <= 0.15", re50)
	}
}

// Peers that lie about everything, at random and claiming certainty, must not pull the
// others apart ([3], disorder attack).
func TestThirdOfThePeersLies(t *testing.T) {
	t.Parallel()
	const honest, liars = 28, 12
	rng := rand.New(rand.NewPCG(4, 4))
	s := coordstest.NewSwarm(coordstest.Globe(honest, rng), honest, rng)
	for range 60 {
		s.Round(2)
	}
	clean, _ := s.Errors(honest)
	for range 200 {
		s.Round(1)
		for _, p := range s.Peers {
			if rng.Float64() > float64(liars)/honest {
				continue
			}
			lie := coords.Coordinate{Vec: make([]float64, 4), Height: rng.Float64() * 100,
				Error: 0.01}
			for i := range lie.Vec {
				lie.Vec[i] = rng.NormFloat64() * 1000
			}
			rtt := coordstest.Millis(10 + 1000*rng.Float64())
			_ = p.Observe("liar"+coordstest.Name(rng.IntN(liars)), lie, rtt)
		}
	}
	attacked, re90 := s.Errors(honest)
	t.Logf("RE50 before the attack %.3f, after %.3f (RE90 %.3f)", clean, attacked, re90)
	if attacked > 0.15 {
		t.Errorf("RE50 %.3f, want <= 0.15", attacked)
	}
}

// A network at rest stays at rest, without drift or oscillation.
func TestSettledNetworkStaysPut(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 6))
	s := coordstest.NewSwarm(coordstest.Globe(12, rng), 12, rng)
	for range 100 {
		s.Round(2)
	}
	told := 0
	for _, p := range s.Peers {
		a := new(coords.Announcer)
		a.Consider(p.Coordinate())
		for range 10 {
			s.Round(2)
			if a.Consider(p.Coordinate()) {
				told++
			}
		}
	}
	re50, re90 := s.Errors(12)
	t.Logf("RE50 %.3f RE90 %.3f; %d announcements of 12 peers in 10 rounds each", re50, re90, told)
	if told > 36 {
		t.Errorf("%d announcements, want at most three per peer", told)
	}
}
