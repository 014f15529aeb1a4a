package coords_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"peerd/coords"
)

// Two peers exchange coordinates and round trips until the distance of their
// coordinates agrees with the round trip of 40 ms.
func ExampleEstimator() {
	cfg := coords.DefaultConfig()
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	a := coords.NewEstimator(cfg)
	b := coords.NewEstimator(cfg)
	const rtt = 40 * time.Millisecond
	for range 50 {
		atA, atB := a.Coordinate(), b.Coordinate()
		if err := a.Observe("b", atB, rtt); err != nil {
			fmt.Println(err)
		}
		if err := b.Observe("a", atA, rtt); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Printf("%.0f ms\n", a.Coordinate().Distance(b.Coordinate()))
	// Output: 40 ms
}

// exampleSamples are downloads from a server that is 10, 50 and 50 ms from three peers on
// a line, needs 30 ms for a page and sends 1 kB in 0.5 ms.
func exampleSamples() []coords.Sample {
	at := func(x, y float64) coords.Coordinate {
		return coords.Coordinate{Vec: []float64{x, y}, Error: 0.05}
	}
	sample := func(peer string, at coords.Coordinate, rtt time.Duration) coords.Sample {
		return coords.Sample{
			Peer: peer, At: at, Connect: rtt, FirstByte: rtt + 30*time.Millisecond,
			Body: 10 * time.Millisecond, Bytes: 20_000,
		}
	}
	return []coords.Sample{
		sample("near", at(0, 0), 10*time.Millisecond),
		sample("east", at(50, 0), 50*time.Millisecond),
		sample("west", at(-50, 0), 50*time.Millisecond),
	}
}

// The position of a server follows from the downloads of some peers. It predicts the time
// that a page takes for a peer that never asked the server.
func ExampleLocate() {
	proxy, err := coords.Locate(exampleSamples())
	if err != nil {
		fmt.Println(err)
		return
	}
	near := coords.Coordinate{Vec: []float64{5, 0}}
	far := coords.Coordinate{Vec: []float64{200, 0}}
	fmt.Println(proxy.Predict(near, 20_000) < proxy.Predict(far, 20_000))
	fmt.Printf("delay %.0f ms\n", proxy.Delay)
	// Output:
	// true
	// delay 30 ms
}

func ExampleDigestOf() {
	d := coords.DigestOf(exampleSamples(), coords.Population{})
	for _, m := range d.Peers {
		fmt.Printf("%s: round trip %.0f ms, page %.0f ms\n", m.Peer, m.RTT, d.Time(m).Mean)
	}
	// Output:
	// east: round trip 50 ms, page 90 ms
	// near: round trip 10 ms, page 50 ms
	// west: round trip 50 ms, page 90 ms
}

func ExampleAnnouncer() {
	a := new(coords.Announcer)
	for _, x := range []float64{0, 3, 6} { // 6 ms is more than the default of 5 ms
		fmt.Println(x, a.Consider(coords.Coordinate{Vec: []float64{x}, Error: 0.1}))
	}
	// Output:
	// 0 true
	// 3 false
	// 6 true
}

func ExampleChoosePartners() {
	known := []coords.KnownPeer{
		{ID: "a", Distance: 80}, {ID: "b", Distance: 5}, {ID: "c", Distance: 120},
		{ID: "d", Distance: 9}, {ID: "e", Distance: -1},
	}
	p := coords.ChoosePartners(known, 4, 1)
	fmt.Println(p.Near, len(p.Random))
	// Output: [b d] 2
}

// A peer learns from its downloads, and from what the owners of subnets publish of their servers,
// that pages take 30 ms longer there than distance and server explain.
func ExampleLearner() {
	l := coords.NewLearner(coords.LearnerSubnets)
	l.Observe("192.0.2.0/24", coords.Sample{
		Connect: 50 * time.Millisecond, FirstByte: 180 * time.Millisecond,
		Body: 20 * time.Millisecond, Bytes: 20_000,
	})
	l.ObserveServer("192.0.2.0/24", coords.Proxy{Delay: 100, Scale: 1, PerKB: 1})
	traits := l.Traits()
	fmt.Printf("%.0f ms, %.0f ms per kB\n", traits.Lag.Mean, traits.PerKB.Mean)
	// Output: 30 ms, 0 ms per kB
}
