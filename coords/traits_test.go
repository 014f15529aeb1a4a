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
	p := NewPopulation(published)
	same := func(lag float64) (share float64) {
		now := Traits{Lag: Normal{Mean: lag, Variance: 25}, PerKB: Normal{Variance: 0.01}}
		all := p.Lasting(now)
		for _, x := range all {
			if x == now {
				share += 1 / float64(len(all))
			}
		}
		return share
	}
	if got := same(5); got < 0.99 {
		t.Errorf("a peer like others stays so with %.2f, want 1", got)
	}
	if got := same(6000); got < 0.5 || got > 0.51 {
		t.Errorf("a peer unlike all others stays so with %.2f, want one half", got)
	}
	if got := (Population{}).Lasting(Traits{}); len(got) != 1 {
		t.Errorf("%d Traits without a population, want those of the peer", len(got))
	}
}
