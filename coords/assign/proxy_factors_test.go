package assign_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// traitScene is a decision among peers without places, all with fresh traits
// but of the biases given.
func traitScene(names string, bias ...float64) assign.Evidence {
	e := scene(names, names[:1])
	for i := range e.Candidates {
		c := &e.Candidates[i]
		c.At = coords.Coordinate{Error: 1}
		c.Traits = coords.InitialTraits(c.ID)
		for f := 2; f <= coords.Factors; f++ {
			c.Traits[f] = 0
		}
		c.Traits[0] += bias[i]
	}
	return e
}

// total is a download of which only the whole time is known.
func total(id string, ms float64) coords.Sample {
	return coords.Sample{
		Peer: id, At: coords.Coordinate{Error: 1}, Reused: true,
		FirstByte: time.Duration(ms * float64(time.Millisecond)),
	}
}

// Peers that are quick everywhere are asked next, those that are slow are not
// asked at all.
func TestProxyAsksByTraits(t *testing.T) {
	t.Parallel()
	e := traitScene("abcdefghij", 0, 2, -1.5, 2, 2, 2, 2, 2, 2, 2)
	probes, choice := play(t, e, func(_ assign.Evidence, id string, _ int) coords.Sample {
		if id == "c" {
			return total(id, 90)
		}
		return total(id, 500)
	})
	if !strings.HasPrefix(probes, "ac") || choice != "c" {
		t.Errorf("probes %s, choice %s, want a, then c, and c", probes, choice)
	}
	if len(probes) > 4 {
		t.Errorf("probes %s: the others are far slower", probes)
	}
}

// A failed peer gets its second chance after the others had their first.
func TestProxyWithTraitsRetriesLast(t *testing.T) {
	t.Parallel()
	e := traitScene("abcd", 0, -1, 0, 0)
	probes, choice := play(t, e, func(e assign.Evidence, id string, _ int) coords.Sample {
		if id == "b" {
			s := total(id, 1)
			s.Failed = true
			return s
		}
		return total(id, 300)
	})
	if !strings.HasPrefix(probes, "ab") || strings.HasPrefix(probes, "abb") || choice == "b" {
		t.Errorf("probes %s, choice %s, want b second, not twice running, and not chosen", probes,
			choice)
	}
}

// The proxy that the owner publishes carries what peers learn from, and follows
// what they publish.
func TestProxyPublishesTraits(t *testing.T) {
	t.Parallel()
	e := traitScene("abc", 0, 0, 0)
	e.Samples = []coords.Sample{total("a", 100), total("b", 300)}
	s := newProxy(t)
	step, err := s.Next(e)
	if err != nil {
		t.Fatal(err)
	}
	if step.Proxy == nil || step.Proxy.Validate(0) != nil {
		t.Fatalf("proxy %+v", step.Proxy)
	}
	before, ok := e.Candidates[2].Traits.Predict(step.Proxy.Traits)
	if !ok {
		t.Fatalf("published %v", step.Proxy.Traits)
	}
	e.Candidates[0].Traits[0]-- // a turns out to be quick everywhere
	if step, err = s.Next(e); err != nil {
		t.Fatal(err)
	}
	after, _ := e.Candidates[2].Traits.Predict(step.Proxy.Traits)
	if !(after.Mean > before.Mean+0.1) {
		t.Errorf("c is expected to take e^%.2f ms, then e^%.2f: want more", before.Mean, after.Mean)
	}
}

// Where candidates have coordinates, what they publish of themselves beyond their
// place changes neither predictions nor decisions.
func TestProxyIgnoresTraitsWhereThereAreCoordinates(t *testing.T) {
	t.Parallel()
	plain := scene("abcdefghijkl", "a")
	for _, id := range []string{"a", "b", "f"} {
		plain.Samples = append(plain.Samples, at(plain, id, 100, 20))
	}
	with := plain
	with.Candidates = slices.Clone(plain.Candidates)
	for i := range with.Candidates {
		c := &with.Candidates[i]
		c.Traits = coords.InitialTraits(c.ID)
		c.Traits[0] += float64(i%4) - 2
	}
	s := newProxy(t)
	for len(plain.Samples) < 10 {
		want, err := s.Next(plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Next(with)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Next() with traits = %+v, want %+v as without", got, want)
		}
		if want.Probe == "" {
			return
		}
		sample := at(plain, want.Probe, 150, 20)
		plain.Samples, with.Samples = append(plain.Samples, sample), append(with.Samples, sample)
	}
	t.Error("Next() never came to a choice")
}

// BenchmarkProxyNextTraits decides among 64 candidates with traits.
func BenchmarkProxyNextTraits(b *testing.B) {
	var e assign.Evidence
	e.CanProbe = true
	e.Subnet = scene("a", "a").Subnet
	for i := range 64 {
		id := "p" + string(rune('A'+i))
		e.Candidates = append(e.Candidates,
			assign.Candidate{ID: id, At: coords.Coordinate{Error: 1},
				Traits: coords.InitialTraits(id)})
		if i < 7 {
			e.Samples = append(e.Samples, total(id, float64(100+50*i)))
		}
	}
	e.Self = e.Candidates[0].ID
	s, err := assign.NewProxy(assign.DefaultProxyConfig())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Next(e); err != nil {
			b.Fatal(err)
		}
	}
}
