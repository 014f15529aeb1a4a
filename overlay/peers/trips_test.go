package peers

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
)

func TestTripsDecode(t *testing.T) {
	_, near := identity(t, 1)
	_, far := identity(t, 2)
	trips := tripsOf([]coords.Trip{
		{Peer: near.String(), RTT: time.Microsecond},
		{Peer: "no peer", RTT: time.Second},
		{Peer: far.String(), RTT: 20 * time.Second},
		{Peer: near.String(), RTT: 12345 * time.Microsecond},
	})
	if err := trips.validate(); err != nil {
		t.Fatal(err)
	}
	all := map[string][]time.Duration{}
	for _, trip := range trips.decode() {
		all[trip.Peer] = append(all[trip.Peer], trip.RTT)
	}
	want := map[peer.ID][]time.Duration{
		near: {tripUnit, 12345 * time.Microsecond}, far: {6270 * time.Millisecond}}
	for p, rtts := range want {
		got := all[keyOf(p)]
		if len(got) != len(rtts) {
			t.Fatalf("observed about %v = %v, want %v", p, got, rtts)
		}
		for i, rtt := range rtts {
			if math.Abs(float64(got[i])/float64(rtt)-1) > 0.022 {
				t.Errorf("round trip %d = %v, want %v", i, got[i], rtt)
			}
		}
	}
}

// The places of peers that lie are those that the other peers' measurements show.
func TestObservationsJudge(t *testing.T) {
	_, id := identity(t, 1)
	d := testDirectory(id, 64)
	_, liar := identity(t, 2)
	truth := coords.Coordinate{Vec: []float64{40, 0, 0}, Height: 1, Error: 0.1}
	lie := coords.Coordinate{Vec: []float64{-200, 50, 0}, Height: 1, Error: 0.01}
	put := func(seed int64, at coords.Coordinate, trips Trips) {
		t.Helper()
		key, id := identity(t, seed)
		b := testBeacon(id, 1, d.now)
		b.At, b.Trips = at.Loaded(b.Wait), trips
		if _, err := d.Put(mustSeal(t, key, b)); err != nil {
			t.Fatal(err)
		}
	}
	put(2, lie, nil)
	for i := range int64(12) {
		angle := float64(i) * 2.4
		at := coords.Coordinate{Vec: []float64{80 * math.Cos(angle), 80 * math.Sin(angle),
			float64(i%3) * 20}, Height: 1, Error: 0.1}
		rtt := time.Duration(at.Distance(truth) * float64(time.Millisecond))
		put(10+i, at, tripsOf([]coords.Trip{{Peer: liar.String(), RTT: rtt}}))
	}
	cfg := coords.DefaultConfig()
	cfg.Dimensions = testDims
	cfg.Rand = rand.New(rand.NewPCG(1, 1))
	me := &self{est: coords.NewEstimator(cfg), own: testBeacon(id, 1, d.now)}
	observed := observationsOf(me, d.Directory)
	got, standing := observed.Judge(liar, lie)
	if standing != coords.Claimed || got.Distance(truth) > 20 {
		t.Errorf("Judge(lie) = %v, %v, want about %v, claimed", got, standing, truth)
	}
	if got, _ := observed.Judge(liar, truth); got.Distance(truth) > 2*truth.Height {
		t.Errorf("Judge(truth) = %v, want %v", got, truth)
	}
}
