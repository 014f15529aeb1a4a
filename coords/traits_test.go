package coords

import (
	"fmt"
	"testing"
)

// A peer like others stays as it is, and one unlike all others may become like them.
func TestPopulationLasting(t *testing.T) {
	t.Parallel()
	published := map[string]*Traits{}
	for i := range 12 {
		published[fmt.Sprint(i)] = &Traits{Lag: Normal{Mean: float64(i - 6), Variance: 25},
			PerKB: Normal{Variance: 0.01}}
	}
	p := NewPopulation(published, []float64{1, 2, 3, 2, 400})
	same := func(lag, height float64) (share float64) {
		now := Traits{Lag: Normal{Mean: lag, Variance: 25}, PerKB: Normal{Variance: 0.01}}
		all, places := p.Lasting([]Traits{now}, Coordinate{Height: height})
		for i, x := range all {
			switch {
			case x == now && places[i].Height == height:
				share += 1 / float64(len(all))
			case places[i].Height != 2:
				t.Errorf("height of any peer = %v, want the typical one", places[i].Height)
			}
		}
		return share
	}
	for _, c := range []struct{ lag, height float64 }{{5, 3}, {5, 2}} {
		if got := same(c.lag, c.height); got < 0.99 {
			t.Errorf("a peer like others, %+v, stays so with %.2f, want 1", c, got)
		}
	}
	for _, c := range []struct{ lag, height float64 }{{6000, 2}, {5, 400}, {6000, 400}} {
		if got := same(c.lag, c.height); got < 0.5 || got > 0.52 {
			t.Errorf("a peer unlike all others, %+v, stays so with %.2f, want one half", c, got)
		}
	}
	all, places := (Population{}).Lasting([]Traits{{}}, Coordinate{})
	if len(all) != 1 || len(places) != 1 {
		t.Errorf("%d Traits and %d places without a population, want those of the peer", len(all),
			len(places))
	}
}
