package strategy_test

import (
	"errors"
	"fmt"
	"net/netip"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/node/strategy"
)

// A caller creates a strategy by name and asks it for the owner of a subnet. The strategy
// "keep" needs no measurement: the peer that found the subnet keeps it.
func ExampleNew() {
	s, err := strategy.New("keep", strategy.Config{Self: "amsterdam"})
	if err != nil {
		fmt.Println(err)
		return
	}
	step, err := s.Next(assign.Evidence{
		Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: "amsterdam",
		Candidates: []assign.Candidate{
			{ID: "amsterdam", At: coords.Coordinate{Vec: []float64{0, 0}}},
			{ID: "tokyo", At: coords.Coordinate{Vec: []float64{200, 0}}},
		},
	})
	fmt.Println(step.Choice, err)

	_, err = strategy.New("best", strategy.Config{})
	fmt.Println(errors.Is(err, strategy.ErrUnknown))
	// Output:
	// amsterdam <nil>
	// true
}
