package owner

import (
	"net/netip"
	"testing"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
)

// Whoever claims to own the very subnet that is being decided is measured before
// it gets it.
func TestClaimedOwnershipIsIgnored(t *testing.T) {
	t.Parallel()
	p, next := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.3.0/24")
	known := assigntest.Delegations{{Subnet: p, Owner: "z", Proxy: &coords.Proxy{Scale: 1}},
		{Subnet: next, Owner: "z"}}
	e := assign.Evidence{Subnet: p, Self: "a", CanProbe: true, Delegations: known}
	for _, id := range []string{"a", "z"} {
		e.Candidates = append(e.Candidates,
			assign.Candidate{ID: id, At: coords.Coordinate{Vec: []float64{0, 0}}, Capacity: 1})
	}
	e = unseen(e)
	s, err := assign.NewIPMicra(assign.DefaultIPMicraConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if step, err := s.Next(e); err != nil || step.Choice != "" || step.Probe == "" {
		t.Errorf("%+v, %v", step, err)
	}
	for d := range e.Delegations.Within(netip.MustParsePrefix("192.0.2.0/23")) {
		if (d.Owner == "") != (d.Subnet == p) || d.Subnet == p && d.Proxy == nil {
			t.Errorf("%+v", d)
		}
	}
}
