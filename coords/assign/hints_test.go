package assign_test

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
)

// decidedBlocks are 20 blocks with three decided subnets each: all of a block at one place on the
// line of scene, or each anywhere. here is the place of the first block.
func decidedBlocks(together bool, here float64) assigntest.Delegations {
	rng := rand.New(rand.NewPCG(7, 8))
	var all assigntest.Delegations
	for block := range 20 {
		x := rng.Float64() * 280
		if block == 0 {
			x = here
		}
		for i := range 3 {
			if !together {
				x = rng.Float64() * 280
			}
			addr := netip.AddrFrom4([4]byte{198, byte(block), byte(4 * i)})
			all = append(all, assign.Delegation{Owner: "a", Subnet: netip.PrefixFrom(addr, 24),
				Proxy: &coords.Proxy{Scale: 1, At: coords.Coordinate{
					Vec: []float64{x + rng.NormFloat64(), rng.NormFloat64()}}}})
		}
	}
	return all
}

// Neighbours at the place of a subnet save probes. Those that are anywhere, and those in blocks of
// other subnets, change little or nothing.
func TestNeighboursSaveProbes(t *testing.T) {
	t.Parallel()
	count := func(subnet string, known func(x float64) assigntest.Delegations) (n, wrong int) {
		for x := 10.0; x < 280; x += 20 {
			e := scene("abcdefgh", "d")
			e.Subnet = netip.MustParsePrefix(subnet)
			if known != nil {
				e.Delegations = known(x)
			}
			probes, choice := play(t, e, func(e assign.Evidence, id string, _ int) coords.Sample {
				return at(e, id, x, 50)
			})
			n += len(probes)
			i := slices.IndexFunc(e.Candidates, func(c assign.Candidate) bool {
				return c.ID == choice
			})
			if math.Abs(e.Candidates[i].At.Vec[0]-x) > 20 { // the nearest are at most 20 ms away
				wrong++
			}
		}
		return n, wrong
	}
	const inside, outside = "198.0.5.0/24", "203.0.113.0/24"
	none, wrong := count(inside, nil)
	near, wrongNear := count(inside, func(x float64) assigntest.Delegations {
		return decidedBlocks(true, x)
	})
	if near >= none-7 || wrongNear > wrong {
		t.Errorf("%d probes and %d wrong choices with near neighbours, %d and %d without: "+
			"want half a probe less a decision", near, wrongNear, none, wrong)
	}
	mislead, wrongMisled := count(inside, func(x float64) assigntest.Delegations {
		return decidedBlocks(false, x)
	})
	if mislead > none+4 || wrongMisled > wrong {
		t.Errorf("%d probes and %d wrong choices with neighbours anywhere, %d and %d without",
			mislead, wrongMisled, none, wrong)
	}
	if n, w := count(outside, func(x float64) assigntest.Delegations {
		return decidedBlocks(true, x)
	}); n != none || w != wrong {
		t.Errorf("%d probes and %d wrong choices without a neighbour, want %d and %d", n, w, none,
			wrong)
	}
}
