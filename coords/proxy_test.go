package coords_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords"
)

func ms(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }

// ring returns n peers around the origin, at radius ms, and a little above.
func ring(n int, radius float64) []coords.Coordinate {
	var out []coords.Coordinate
	for i := range n {
		phi := 2 * math.Pi * float64(i) / float64(n)
		out = append(out, at(radius*math.Cos(phi), radius*math.Sin(phi), radius/3*math.Cos(3*phi),
			radius/3*math.Sin(2*phi)))
	}
	return out
}

// visit returns a download by the peer at c from a server at s.
func visit(i int, c, s coords.Coordinate, delay, perKB, kb float64) coords.Sample {
	rtt := c.Distance(s)
	return coords.Sample{
		Peer: fmt.Sprintf("p%02d", i), At: c,
		Connect: ms(rtt), FirstByte: ms(rtt + delay), Body: ms(perKB * kb), Bytes: int64(kb * 1000),
	}
}

var server = coords.Coordinate{Vec: []float64{20, -30, 5, 0}, Height: 2}

func TestLocateRecoversAServer(t *testing.T) {
	t.Parallel()
	var samples []coords.Sample
	for i, c := range ring(10, 80) {
		samples = append(samples, visit(i, c, server, 40, 0.5, 10+float64(i)))
	}
	p, err := coords.Locate(samples)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.Delay-40) > 1 || math.Abs(p.PerKB-0.5) > 0.1 || math.Abs(p.Scale-1) > 0.1 ||
		p.Samples != 10 {
		t.Errorf("got %+v", p)
	}
	if p.Error > 0.05 || p.Validate(4) != nil {
		t.Errorf("error %v, %v", p.Error, p.Validate(4))
	}
	newcomer := at(60, 10, 0, 0)
	want := newcomer.Distance(server) + 40 + 0.5*20
	if got := float64(p.Predict(newcomer, 20_000)) / 1e6; math.Abs(got-want) > 0.08*want {
		t.Errorf("predicted %.1f ms, want %.1f", got, want)
	}
}

// Variations of the server's delay must not move it: delays vary ten times as much as
// distances, and the nearest peer got the slowest page.
func TestServerDelayDoesNotHideDistance(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	var samples []coords.Sample
	peers := ring(8, 80)
	for i, c := range peers {
		samples = append(samples, visit(i, c, server, 40*math.Exp(rng.NormFloat64()), 0.5, 12))
	}
	nearest := 0
	for i, c := range peers {
		if c.Distance(server) < peers[nearest].Distance(server) {
			nearest = i
		}
	}
	samples[nearest].FirstByte += 2 * time.Second
	d := coords.DigestOf(samples, coords.Population{})
	best := 0
	for i, m := range d.Peers {
		if d.Time(m).Mean < d.Time(d.Peers[best]).Mean {
			best = i
		}
	}
	if best != nearest {
		t.Errorf("peer %d looks fastest, %d is", best, nearest)
	}
	p, err := d.Locate()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range peers {
		if got, want := p.At.Distance(c), c.Distance(server); math.Abs(got-want) > 0.15*want {
			t.Errorf("peer %d: distance %.1f, want %.1f", i, got, want)
		}
	}
}

func TestOneLiarDoesNotMoveTheServer(t *testing.T) {
	t.Parallel()
	var samples []coords.Sample
	peers := ring(9, 80)
	for i, c := range peers {
		samples = append(samples, visit(i, c, server, 30, 0.3, 10))
	}
	samples[4].Connect, samples[4].FirstByte = ms(1), ms(2)
	p, err := coords.Locate(samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range peers {
		if got, want := p.At.Distance(c), c.Distance(server); i != 4 &&
			math.Abs(got-want) > 0.2*want {
			t.Errorf("peer %d: distance %.1f, want %.1f", i, got, want)
		}
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	near, far := at(0, 0, 0, 0), at(100, 0, 0, 0)
	reused := func(s coords.Sample) coords.Sample {
		s.Reused, s.Connect = true, 0
		return s
	}
	twice := visit(0, near, server, 40, 1, 10)
	twice.Connect += time.Second // the handshake's first packet was lost
	samples := []coords.Sample{
		twice,
		reused(visit(0, near, server, 400, 1, 10)), // a slow page
		reused(visit(0, near, server, 40, 1, 10)),
		reused(visit(1, far, server, 40, 3, 10)), // never a handshake; a slow link
		{Peer: "p02", At: far, Failed: true, FirstByte: time.Hour},
	}
	d := coords.DigestOf(samples, coords.Population{})
	if d.OK != 4 || d.Failed != 1 || d.MeanKB != 10 || len(d.Peers) != 3 {
		t.Fatalf("got %+v", d)
	}
	if m := d.Peers[0]; !m.Direct || m.RTT > near.Distance(server)+41 {
		t.Errorf("the lost packet counts: %+v", m)
	}
	if m := d.Peers[1]; m.Direct || m.OK != 1 || m.Traits.PerKB.Mean < 1 {
		t.Errorf("got %+v", m)
	}
	if m := d.Peers[2]; m.OK != 0 || m.Failed != 1 || !math.IsNaN(d.Time(m).Mean) {
		t.Errorf("got %+v", m)
	}
	empty := coords.DigestOf(nil, coords.Population{})
	if len(empty.Peers) != 0 || empty.MeanKB <= 0 {
		t.Errorf("got %+v", empty)
	}
}

func TestLocateRefuses(t *testing.T) {
	t.Parallel()
	peers := ring(3, 50)
	good := []coords.Sample{visit(0, peers[0], server, 1, 1, 1), visit(1, peers[1], server, 1, 1,
		1), visit(2, peers[2], server, 1, 1, 1)}
	with := func(change func(*coords.Sample)) []coords.Sample {
		out := append([]coords.Sample(nil), good...)
		change(&out[2])
		return out
	}
	for _, tc := range []struct {
		name    string
		samples []coords.Sample
		want    error
	}{
		{"none", nil, coords.ErrTooFew},
		{"two peers", append(good[:2:2], good[0]), coords.ErrTooFew},
		{"a failure is no measurement", with(func(s *coords.Sample) {
			s.Failed = true
		}), coords.ErrTooFew},
		{"no peer", with(func(s *coords.Sample) { s.Peer = "" }), coords.ErrPeer},
		{"dimension", with(func(s *coords.Sample) { s.At = at(1, 2) }), coords.ErrDimension},
		{"NaN", with(func(s *coords.Sample) { s.At = at(1, 2, math.NaN(), 3) }), coords.ErrBounds},
		{"negative time", with(func(s *coords.Sample) { s.Body = -1 }), coords.ErrBounds},
		{"endless", with(func(s *coords.Sample) { s.FirstByte = 2 * time.Hour }), coords.ErrBounds},
		{"negative size", with(func(s *coords.Sample) { s.Bytes = -1 }), coords.ErrBounds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := coords.Locate(tc.samples); !errors.Is(err,
				tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestProxyValidate(t *testing.T) {
	t.Parallel()
	good := coords.Proxy{At: server, Delay: 1, Scale: 1, PerKB: 1, Error: 0.1, Samples: 3}
	if err := good.Validate(4); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*coords.Proxy){
		func(p *coords.Proxy) { p.At = coords.Coordinate{} },
		func(p *coords.Proxy) { p.Delay = math.NaN() },
		func(p *coords.Proxy) { p.Scale = -1 },
		func(p *coords.Proxy) { p.PerKB = math.Inf(1) },
		func(p *coords.Proxy) { p.Error = 2 },
		func(p *coords.Proxy) { p.Samples = -1 },
	} {
		bad := good
		change(&bad)
		if bad.Validate(4) == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
}

// sample draws valid samples, including unusual ones.
func sample(t *rapid.T) coords.Sample {
	long := rapid.Int64Range(0, int64(time.Hour))
	return coords.Sample{
		Peer:      rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "peer"),
		At:        coordinate(4).Draw(t, "at"),
		Connect:   time.Duration(long.Draw(t, "connect")),
		FirstByte: time.Duration(long.Draw(t, "first")),
		Body:      time.Duration(long.Draw(t, "body")),
		Reused:    rapid.Bool().Draw(t, "reused"),
		Bytes:     rapid.Int64Range(0, 1<<40).Draw(t, "bytes"),
		Failed:    rapid.Bool().Draw(t, "failed"),
	}
}

// locateIsSane is the property of the fuzz target and of the test.
func locateIsSane(t *rapid.T) {
	samples := rapid.SliceOfN(rapid.Custom(sample), 0, 20).Draw(t, "samples")
	p, err := coords.Locate(samples)
	if errors.Is(err, coords.ErrTooFew) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(4); err != nil {
		t.Fatalf("%v: %+v", err, p)
	}
	if d := p.Predict(coordinate(4).Draw(t, "at"), rapid.Int64().Draw(t, "bytes")); d < 0 {
		t.Fatalf("predicted %v", d)
	}
}

func TestLocateIsSane(t *testing.T) { rapid.Check(t, locateIsSane) }

func FuzzLocate(f *testing.F) { f.Fuzz(rapid.MakeFuzz(locateIsSane)) }

func BenchmarkLocate(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var samples []coords.Sample
	for i, c := range ring(8, 80) {
		samples = append(samples, visit(i, c, server, 40*math.Exp(0.5*rng.NormFloat64()), 0.5, 12))
	}
	for b.Loop() {
		if _, err := coords.Locate(samples); err != nil {
			b.Fatal(err)
		}
	}
}

// A handshake alone is a round trip: it neither gives its peer the distance 0 nor says
// anything about pages.
func TestDigestTakesHandshakesForRoundTrips(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	page := coords.Sample{Peer: "a", Connect: 40 * ms, FirstByte: 140 * ms, Body: 80 * ms,
		Bytes: 16_000}
	d := coords.DigestOf([]coords.Sample{page, {Peer: "b", Connect: 90 * ms}},
		coords.Population{})
	b := d.Peers[1]
	if !b.Direct || b.RTT != 90 || b.Traits.PerKB.Mean != 0 {
		t.Errorf("of a handshake of 90 ms: %+v", b)
	}
	if d.Delay != 100 || d.MeanKB != 16 {
		t.Errorf("delay %v ms, pages of %v kB, want those of the only page: 100, 16", d.Delay,
			d.MeanKB)
	}
	if a, its := d.Time(d.Peers[0]).Mean, d.Time(b).Mean; !(its > a) {
		t.Errorf("b takes %v ms, a, which is nearer, %v", its, a)
	}
}
