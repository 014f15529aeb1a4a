package coords

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// download returns a page of a server from a peer at 40 ms that adds lag and rate to it.
func download(p Proxy, kb, lag, rate, noise float64) Sample {
	const rtt = 40.0
	return Sample{
		Peer: "p", Connect: duration(rtt),
		FirstByte: duration(rtt + p.Delay*noise + lag),
		Body:      duration((p.Scale-1)*rtt + (p.PerKB+rate)*kb), Bytes: int64(kb * 1000),
	}
}

// A peer learns what it adds to the time of a page and of a kB, as exactly as it says, though
// single pages are late.
func TestLearnerFindsOwnTime(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	outside := 0
	for range 200 {
		lag, rate := 40*rng.NormFloat64(), rng.ExpFloat64()
		l := NewLearner(LearnerSubnets)
		if got := l.Traits(); got != nil {
			t.Fatalf("traits without a download = %+v, want nil", got)
		}
		for s := range 30 {
			server := Proxy{Delay: 60 + 100*rng.Float64(), Scale: 1.5, PerKB: 0.5}
			subnet := fmt.Sprint(s)
			for range 3 {
				late := 0.0
				if rng.IntN(50) == 0 {
					late = 1000
				}
				l.Observe(subnet, download(server, 10+40*rng.Float64(), lag+late, rate,
					math.Exp(0.3*rng.NormFloat64())))
			}
			l.Observe(subnet, Sample{Failed: true})
			l.ObserveServer(subnet, server)
		}
		got := l.Traits()
		if got == nil {
			t.Fatal("no traits after 90 downloads from known servers")
		}
		for _, x := range []struct{ got, want, sd, most float64 }{
			{got.Lag.Mean, lag, math.Sqrt(got.Lag.Variance), 15},
			{got.PerKB.Mean, rate, math.Sqrt(got.PerKB.Variance), 0.1},
		} {
			if off := math.Abs(x.got - x.want); off > 2*x.sd {
				outside++
			} else if x.sd > x.most {
				t.Errorf("%.2f ± %.2f, want it within %v", x.got, x.sd, x.most)
			}
		}
	}
	if outside > 20 {
		t.Errorf("%d of 400 traits are two deviations off, want at most 20", outside)
	}
}

func TestLearnerMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := NewLearner(3)
	for i := range 10 {
		for range 9 {
			l.Observe(fmt.Sprint(i), download(Proxy{}, 1, 0, 0, 1))
		}
	}
	if got := l.Subnets(); !slices.Equal(got, []string{"7", "8", "9"}) {
		t.Errorf("remembers %v, want the last three", got)
	}
	if n := len(l.memory["9"].firsts); n != LearnerPerSubnet {
		t.Errorf("remembers %d downloads, want %d", n, LearnerPerSubnet)
	}
}

// A Population finds how different peers are, and with that draws each estimate towards the others
// as far as it is uncertain.
func TestPopulationLearnsTheSpread(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	for _, spread := range []float64{10, 30, 100} {
		published := map[string]*Traits{"none": nil}
		truth := map[string]float64{}
		for i := range 100 {
			name := fmt.Sprint(i)
			truth[name] = spread * rng.NormFloat64()
			published[name] = &Traits{
				Lag:   Normal{Mean: truth[name] + 20*rng.NormFloat64(), Variance: 400},
				PerKB: Normal{Variance: 1},
			}
		}
		p := NewPopulation(published, nil)
		if got := math.Sqrt(p.Of("none").Lag.Variance); got < 0.7*spread || got > 1.4*spread {
			t.Errorf("spread %.1f of peers, want about %v", got, spread)
		}
		bare, drawn := 0.0, 0.0
		for name, x := range truth {
			bare += math.Abs(published[name].Lag.Mean - x)
			drawn += math.Abs(p.Of(name).Lag.Mean - x)
		}
		if drawn > 1.05*bare {
			t.Errorf("spread %v: error %.0f, of the published values %.0f", spread, drawn, bare)
		}
	}
	if got := (Population{}).Of("x").Lag; got.Mean != 0 || got.Variance != lagPrior*lagPrior {
		t.Errorf("without any peer %+v, want the prior", got)
	}
}

// A peer that claims to be far faster than all others, and to be certain of it, is believed to be
// hardly faster than the fastest, and what it downloads decides.
func TestPopulationBoundsClaims(t *testing.T) {
	t.Parallel()
	published := map[string]*Traits{"liar": {Lag: Normal{Mean: -1e6, Variance: 1e-6},
		PerKB: Normal{Mean: -1e3, Variance: 1e-6}}}
	for i := range 20 {
		published[fmt.Sprint(i)] = &Traits{Lag: Normal{Mean: float64(i-10) * 3, Variance: 25},
			PerKB: Normal{Mean: 0.1, Variance: 0.01}}
	}
	p := NewPopulation(published, nil)
	lag := p.Of("liar").Lag
	spread := math.Sqrt(p.Of("unknown").Lag.Variance)
	if lag.Mean < -3*spread || spread > 40 || lag.Variance < spread*spread/12 {
		t.Errorf("the liar is believed to be %+v among peers that differ by %.0f ms, want at most "+
			"three times as much, uncertain", lag, spread)
	}
	var samples []Sample
	for _, name := range []string{"0", "10", "19", "liar"} {
		s := download(Proxy{Delay: 20, Scale: 1, PerKB: 0.1}, 10, 0, 0, 1)
		s.Peer, s.At = name, Coordinate{Vec: []float64{0}}
		samples = append(samples, s)
	}
	d := DigestOf(samples, p)
	times := map[string]float64{}
	for _, m := range d.Peers {
		times[m.Peer] = d.Time(m).Mean
	}
	if gain := times["10"] - times["liar"]; gain > 40 {
		t.Errorf("the liar gained %.0f ms of %v by its claim, want at most 40", gain, times)
	}
}

// Whatever peers and owners claim, the result is valid and does not depend on an order.
func TestTraitsStayInBounds(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-20, 20))
	normal := func(rt *rapid.T, label string) Normal {
		return Normal{Mean: number.Draw(rt, label), Variance: number.Draw(rt, label+"²")}
	}
	rapid.Check(t, func(rt *rapid.T) {
		published := map[string]*Traits{}
		for i := range rapid.IntRange(0, 12).Draw(rt, "peers") {
			published[fmt.Sprint(i)] = &Traits{Lag: normal(rt, "lag"), PerKB: normal(rt, "rate")}
		}
		p := NewPopulation(published, nil)
		for name, claim := range published {
			got := p.Of(name)
			if err := got.Validate(); err != nil {
				rt.Fatalf("%+v is believed as %+v: %v", claim, got, err)
			}
			if again := NewPopulation(published, nil).Of(name); again != got {
				rt.Fatalf("%+v, then %+v", got, again)
			}
		}
		l := NewLearner(LearnerSubnets)
		took := rapid.Int64Range(-1, int64(sampleTimeMax))
		for range rapid.IntRange(1, 8).Draw(rt, "downloads") {
			l.Observe("s", Sample{Connect: time.Duration(took.Draw(rt, "connect")),
				FirstByte: time.Duration(took.Draw(rt, "first")),
				Body:      time.Duration(took.Draw(rt, "body")),
				Bytes:     rapid.Int64().Draw(rt, "bytes")})
		}
		told := Proxy{At: Coordinate{Vec: []float64{1}}, Delay: number.Draw(rt, "delay"),
			Scale: number.Draw(rt, "scale"), PerKB: number.Draw(rt, "rate")}
		if told.Validate(1) == nil {
			l.ObserveServer("s", told)
		}
		if got := l.Traits(); got != nil && got.Validate() != nil {
			rt.Fatalf("%+v: %v", got, got.Validate())
		}
	})
}
