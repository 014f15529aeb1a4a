package assign_test

import (
	"fmt"
	"net/netip"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// exampleEvidence is the evidence for a new subnet with three candidates on a line.
func exampleEvidence() assign.Evidence {
	at := func(x float64) coords.Coordinate {
		return coords.Coordinate{Vec: []float64{x, 0}, Error: 0.1}
	}
	return assign.Evidence{
		Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: "amsterdam", CanProbe: true,
		Candidates: []assign.Candidate{
			{ID: "amsterdam", At: at(0)}, {ID: "tokyo", At: at(200)}, {ID: "virginia", At: at(-90)},
		},
	}
}

// A caller asks for the next step, makes the measurement that it names, and repeats this
// until there is a choice.
func ExampleProxyStrategy_Next() {
	strategy, err := assign.NewProxy(assign.DefaultProxyConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	rtt := map[string]time.Duration{ // to a server in Japan
		"amsterdam": 210 * time.Millisecond, "tokyo": 10 * time.Millisecond,
		"virginia": 290 * time.Millisecond,
	}
	e := exampleEvidence()
	for {
		step, err := strategy.Next(e)
		if err != nil {
			fmt.Println(err)
			return
		}
		if step.Choice != "" {
			fmt.Println("choice:", step.Choice)
			return
		}
		fmt.Println("probe:", step.Probe)
		e.Samples = append(e.Samples, coords.Sample{
			Peer: step.Probe, Connect: rtt[step.Probe], FirstByte: rtt[step.Probe], Bytes: 1000,
		})
	}
	// Output:
	// probe: amsterdam
	// probe: virginia
	// probe: tokyo
	// choice: tokyo
}

// Consistent hashing chooses at once, and all peers choose alike.
func ExampleHashStrategy_Next() {
	strategy, err := assign.NewHash(assign.DefaultHashConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	e := exampleEvidence()
	first, _ := strategy.Next(e)
	e.Self = "tokyo"
	second, _ := strategy.Next(e)
	fmt.Println(first.Choice == second.Choice)
	// Output: true
}

// An overloaded peer gives away the subnets with download times that differ least between
// peers, as far as the others have capacity.
func ExampleRelieve() {
	loads := []assign.Load{
		{Subnet: netip.MustParsePrefix("192.0.2.0/24"), Size: 100,
			Probes: map[string]float64{"a": 10, "b": 200}},
		{Subnet: netip.MustParsePrefix("198.51.100.0/24"), Size: 50,
			Probes: map[string]float64{"a": 80, "b": 90}},
	}
	for _, r := range assign.Relieve("a", loads, 40, map[string]float64{"b": 500}) {
		fmt.Println(r.Subnet, "to", r.To)
	}
	// Output: 198.51.100.0/24 to b
}

// exampleRegion is a Locator that knows two addresses.
func exampleRegion(a netip.Addr) (lat, lon float64, ok bool) {
	switch a.String() {
	case "192.0.2.0":
		return 35.7, 139.7, true
	case "203.0.113.5":
		return 34.7, 135.5, true
	}
	return 0, 0, false
}

func ExampleNewGeo() {
	strategy, err := assign.NewGeo(exampleRegion)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := exampleEvidence()
	e.Candidates[1].Addr = netip.MustParseAddr("203.0.113.5")
	step, err := strategy.Next(e)
	fmt.Println(step.Choice, err)
	// Output: tokyo <nil>
}
