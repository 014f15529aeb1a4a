package wan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestGlobeOfCities(t *testing.T) {
	w := NewWorld(Cities(), 1).Select([]int{3, 9, 3})
	g := w.Globe()
	if len(g) != 3 || g[0] != Cities()[3] || g[1] != Cities()[9] || g[2] != g[0] {
		t.Errorf("%v", g)
	}
}

// A matrix derived from places on a globe gives a globe with similar distances.
func TestGlobeOfMatrix(t *testing.T) {
	cities := Cities()
	rtt := make([][]time.Duration, len(cities))
	for i := range rtt {
		for j := range cities {
			d := fibreRTT(cities[i].Distance(cities[j]))
			rtt[i] = append(rtt[i], time.Duration(float64(d)*(minInflation+maxInflation)/2))
		}
	}
	w, err := FromMatrix(nil, rtt, 1)
	if err != nil {
		t.Fatal(err)
	}
	g := w.Globe()
	var off []float64
	for i := range g {
		if !(math.Abs(g[i].Lat) <= 90 && math.Abs(g[i].Lon) <= 180) {
			t.Fatalf("%v is not a valid position", g[i])
		}
		for j := range i {
			off = append(off, math.Abs(g[i].Distance(g[j])-cities[i].Distance(cities[j])))
		}
	}
	slices.Sort(off)
	t.Logf("distances are off by %.0f km in the middle, %.0f km at 90 %%", off[len(off)/2],
		off[len(off)*9/10])
	if off[len(off)/2] > 200 || off[len(off)*9/10] > 1500 {
		t.Errorf("distances are off by %.0f km in the middle, %.0f km at 90 %%", off[len(off)/2],
			off[len(off)*9/10])
	}
	again, err := FromMatrix(nil, rtt, 1)
	if err != nil || !slices.Equal(again.Globe(), g) {
		t.Errorf("two globes of one matrix differ, err = %v", err)
	}
}

// Round trips that fit no globe still give valid and distinct positions.
func TestGlobeOfNonsense(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rtt := make([][]time.Duration, 60)
	for i := range rtt {
		rtt[i] = make([]time.Duration, len(rtt))
		for j := range i {
			d := time.Duration(1+rng.ExpFloat64()*80*float64(rng.IntN(3))) * time.Millisecond
			rtt[i][j], rtt[j][i] = d, d
		}
	}
	w, err := FromMatrix(nil, rtt, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Place]bool{}
	for _, p := range w.Globe() {
		if !(math.Abs(p.Lat) < 89.999 && math.Abs(p.Lon) <= 180) {
			t.Errorf("%v is not a valid position, or is a pole", p)
		}
		p.Name = ""
		if seen[p] {
			t.Errorf("two places at %v", p)
		}
		seen[p] = true
	}
}
