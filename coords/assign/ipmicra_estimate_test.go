package assign_test

import (
	"iter"
	"net/netip"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
)

// counted counts the delegations that are read.
type counted struct {
	assign.Delegations
	read int
}

func (c *counted) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		for d := range c.Delegations.Within(p) {
			if c.read++; !yield(d) {
				return
			}
		}
	}
}

// However much is known, a step reads only a part of it, the nearest.
func TestIPMicraProxyReadsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	s, err := assign.NewIPMicraProxy(assign.DefaultIPMicraProxyConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := assign.Evidence{Subnet: netip.MustParsePrefix("11.3.128.0/24"), Self: "a", CanProbe: true}
	for _, id := range []string{"a", "b", "c"} {
		e.Candidates = append(e.Candidates,
			assign.Candidate{ID: id, At: coords.Coordinate{Vec: []float64{0, 0}, Error: 0.1},
				Capacity: 1})
	}
	var all assigntest.Delegations
	for i := range 1 << 17 { // all of 10.0.0.0/7
		d := assign.Delegation{Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10 + byte(i>>16),
			byte(i >> 8), byte(i), 0}), 24), Owner: "b"}
		if i>>11 == 1<<5 {
			d.Owner = "c" // of 11.0.0.0/13
		}
		if d.Subnet != e.Subnet {
			all = append(all, d)
		}
	}
	known := &counted{Delegations: all}
	e.Delegations = known
	begin := time.Now()
	step, err := s.Next(e)
	if err != nil || step.Probe != "c" {
		t.Errorf("Next() = %+v, %v, want a probe by c, which owns the neighbours", step, err)
	}
	if most := 20_000; known.read > most {
		t.Errorf("%d of %d delegations were read, want at most %d", known.read, len(all), most)
	}
	t.Logf("%d of %d read, in %v", known.read, len(all), time.Since(begin).Round(time.Microsecond))
}
