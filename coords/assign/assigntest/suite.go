// Package assigntest is the conformance suite of assignment strategies. Each
// implementation runs it in a few lines:
//
//	func TestConformance(t *testing.T) {
//		assigntest.Run(t, func() assign.Strategy {
//			return assign.NewRandom(assign.RandomConfig{})
//		})
//	}
//
// It is imported by tests only.
package assigntest

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords"
	"peerd/coords/assign"
)

// MaxProbes is the default limit of probes per decision: every probe is a request by one
// more peer to the server.
const MaxProbes = 12

// AllCandidates is the limit for strategies that let each candidate probe once.
const AllCandidates = 0

// Run checks the promises of assign.Strategy on strategies from the constructor, with at
// most MaxProbes probes per decision.
func Run(t *testing.T, newStrategy func() assign.Strategy) {
	RunLimit(t, MaxProbes, newStrategy)
}

// RunLimit is Run with another limit of probes, or AllCandidates.
func RunLimit(t *testing.T, probesMax int, newStrategy func() assign.Strategy) {
	t.Run("name", func(t *testing.T) {
		name := newStrategy().Name()
		if name == "" || name != strings.ToLower(name) || strings.ContainsAny(name, " \t/") {
			t.Errorf("Name() = %q, want a lower-case word for a command line", name)
		}
	})
	t.Run("refuses bad evidence", func(t *testing.T) { refuses(t, newStrategy()) })
	t.Run("alone", func(t *testing.T) { alone(t, newStrategy()) })
	t.Run("chooses", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { decides(t, newStrategy(), probesMax) })
	})
	t.Run("deterministic", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { deterministic(t, newStrategy(), newStrategy()) })
	})
	t.Run("safe for concurrent use", func(t *testing.T) { concurrent(t, newStrategy()) })
}

// refuses passes evidence that contradicts itself.
func refuses(t *testing.T, s assign.Strategy) {
	at := coords.Coordinate{Vec: []float64{0, 0}}
	subnet := netip.MustParsePrefix("192.0.2.0/24")
	me, other := assign.Candidate{ID: "me", At: at}, assign.Candidate{ID: "other", At: at}
	for _, tc := range []struct {
		name string
		e    assign.Evidence
		want error
	}{
		{"nothing", assign.Evidence{}, assign.ErrEvidence},
		{"no subnet", assign.Evidence{Self: "me", Candidates: []assign.Candidate{me}},
			assign.ErrEvidence},
		{"no candidates", assign.Evidence{Subnet: subnet, Self: "me"}, assign.ErrEvidence},
		{"self missing", assign.Evidence{Subnet: subnet, Self: "me",
			Candidates: []assign.Candidate{other}}, assign.ErrEvidence},
		{"twice", assign.Evidence{Subnet: subnet, Self: "me",
			Candidates: []assign.Candidate{me, me}}, assign.ErrEvidence},
		{"nameless", assign.Evidence{Subnet: subnet, Self: "me",
			Candidates: []assign.Candidate{me, {At: at}}}, assign.ErrEvidence},
		{"other space", assign.Evidence{Subnet: subnet, Self: "me",
			Candidates: []assign.Candidate{me, {ID: "x"}}}, assign.ErrEvidence},
		{"negative wait", assign.Evidence{Subnet: subnet, Self: "me",
			Candidates: []assign.Candidate{{ID: "me", At: at, Wait: -1}}}, assign.ErrEvidence},
		{"negative capacity", assign.Evidence{Subnet: subnet, Self: "me",
			Candidates: []assign.Candidate{{ID: "me", At: at, Capacity: -1}}}, assign.ErrEvidence},
		{"all excluded", assign.Evidence{Subnet: subnet, Self: "me",
			Candidates: []assign.Candidate{me, other},
			Exclude:    map[string]bool{"me": true, "other": true}}, assign.ErrNoCandidate},
	} {
		if step, err := s.Next(tc.e); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %+v, %v, want %v", tc.name, step, err, tc.want)
		}
	}
}

// alone uses a network of one peer, which may measure and must choose itself.
func alone(t *testing.T, s assign.Strategy) {
	e := assign.Evidence{
		Subnet: netip.MustParsePrefix("2001:db8::/48"), Self: "me", CanProbe: true,
		Candidates: []assign.Candidate{{ID: "me", At: coords.Coordinate{Vec: []float64{0, 0}}}},
	}
	for range 3 {
		step, err := s.Next(e)
		if err != nil {
			t.Fatal(err)
		}
		if step.Choice == "me" {
			return
		}
		if step.Probe != "me" {
			t.Fatalf("got %+v", step)
		}
		e.Samples = append(e.Samples, coords.Sample{Peer: "me", At: e.Candidates[0].At, Connect: 1,
			FirstByte: 1, Body: 1})
	}
	t.Error("no choice after three probes of the only candidate")
}

// decides runs one decision in a random world until the choice.
func decides(t *rapid.T, s assign.Strategy, probesMax int) {
	e := evidence(t)
	if probesMax == AllCandidates {
		probesMax = len(e.Candidates)
	}
	probes := 0
	for range 200 {
		before := fmt.Sprintf("%+v", e)
		step, err := s.Next(e)
		if after := fmt.Sprintf("%+v", e); after != before {
			t.Fatalf("Next changed the evidence from %s to %s", before, after)
		}
		if len(e.Exclude) == len(e.Candidates) {
			if !errors.Is(err, assign.ErrNoCandidate) {
				t.Fatalf("Next() = %+v, %v with all candidates excluded, want %v", step, err,
					assign.ErrNoCandidate)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		id := step.Probe + step.Choice
		switch {
		case (step.Probe == "") == (step.Choice == ""):
			t.Fatalf("Next() = %+v, want exactly one of Probe and Choice", step)
		case !slices.ContainsFunc(e.Candidates, func(c assign.Candidate) bool {
			return c.ID == id
		}):
			t.Fatalf("Next() = %+v, but %q is not a candidate", step, id)
		case e.Exclude[id]:
			t.Fatalf("Next() = %+v, but %q is excluded", step, id)
		case step.Probe != "" && !e.CanProbe:
			t.Fatalf("Next() = %+v, want no probe without CanProbe", step)
		case step.Choice != "":
			return
		}
		probe(t, &e, step.Probe)
		if !e.Exclude[step.Probe] {
			probes++
		}
		if probes > probesMax {
			t.Fatalf("Next made %d probes, want at most %d", probes, probesMax)
		}
	}
	t.Fatal("Next made no choice in 200 steps")
}

// probe simulates a probe: the peer downloads, fails, or does not answer.
func probe(t *rapid.T, e *assign.Evidence, peer string) {
	outcome := rapid.IntRange(0, 9).Draw(t, "outcome")
	switch outcome {
	case 0:
		e.Exclude = maps.Clone(e.Exclude)
		if e.Exclude == nil {
			e.Exclude = make(map[string]bool)
		}
		e.Exclude[peer] = true
	case 1:
		e.CanProbe = false
		fallthrough
	default:
		e.Samples = append(e.Samples, download(t, *e, peer, outcome == 2))
	}
}

// download draws a sample of a peer.
func download(t *rapid.T, e assign.Evidence, peer string, failed bool) coords.Sample {
	i := slices.IndexFunc(e.Candidates, func(c assign.Candidate) bool { return c.ID == peer })
	ms := rapid.IntRange(0, 500)
	return coords.Sample{
		Peer: peer, At: e.Candidates[i].At, Failed: failed,
		Connect:   time.Duration(ms.Draw(t, "connect")) * time.Millisecond,
		FirstByte: time.Duration(ms.Draw(t, "first")) * time.Millisecond,
		Body:      time.Duration(ms.Draw(t, "body")) * time.Millisecond,
		Bytes:     rapid.Int64Range(0, 1<<20).Draw(t, "bytes"),
		Reused:    rapid.Bool().Draw(t, "reused"),
	}
}

// evidence draws the evidence of a new decision among up to 24 candidates.
func evidence(t *rapid.T) assign.Evidence {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "world"), 0))
	e := assign.Evidence{
		Subnet:   netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(rng.IntN(256)), 0}), 24),
		CanProbe: rapid.Bool().Draw(t, "can probe"),
	}
	address := func() netip.Addr {
		return netip.AddrFrom4([4]byte{198, byte(50 + rng.IntN(3)), byte(rng.IntN(256)), 1})
	}
	for i := range rapid.IntRange(1, 24).Draw(t, "candidates") {
		c := assign.Candidate{ID: fmt.Sprintf("peer%02d", i),
			Wait: time.Duration(rng.IntN(1000)) * time.Millisecond, Capacity: rng.Float64() * 4}
		c.At = coords.Coordinate{Vec: []float64{rng.NormFloat64() * 80, rng.NormFloat64() * 80},
			Height: rng.Float64() * 10, Error: rng.Float64()}
		if rng.IntN(3) > 0 {
			c.Addr = address()
		}
		e.Candidates = append(e.Candidates, c)
	}
	known := make(Delegations, 0)
	for range rapid.IntRange(0, 40).Draw(t, "delegations") {
		d := assign.Delegation{Subnet: netip.PrefixFrom(address(), 24).Masked(),
			Owner: fmt.Sprintf("peer%02d", rng.IntN(30))}
		if rng.IntN(2) > 0 {
			at := coords.Coordinate{Vec: []float64{rng.NormFloat64() * 80, rng.NormFloat64() * 80},
				Height: rng.Float64() * 10}
			d.Proxy = &coords.Proxy{At: at, Delay: rng.Float64() * 50, Scale: 1 + rng.Float64(),
				Samples: 3}
		}
		known = append(known, d)
	}
	known.Sort()
	e.Delegations = known
	e.Self = e.Candidates[rng.IntN(len(e.Candidates))].ID
	return e
}

// Delegations is a list that implements assign.Delegations once it is sorted.
type Delegations []assign.Delegation

var _ assign.Delegations = Delegations(nil)

// Sort sorts the delegations by prefix and keeps the order of equal prefixes.
func (k Delegations) Sort() {
	slices.SortStableFunc(k, func(a, b assign.Delegation) int { return a.Subnet.Compare(b.Subnet) })
}

// Within implements assign.Delegations.
func (k Delegations) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		for _, d := range k {
			if d.Subnet.Bits() >= p.Bits() && p.Contains(d.Subnet.Addr()) && !yield(d) {
				return
			}
		}
	}
}

// deterministic compares two instances on the same and on reordered evidence.
func deterministic(t *rapid.T, a, b assign.Strategy) {
	e := evidence(t)
	for range rapid.IntRange(0, 12).Draw(t, "samples") {
		i := rapid.IntRange(0, len(e.Candidates)-1).Draw(t, "peer")
		e.Samples = append(e.Samples, download(t, e, e.Candidates[i].ID, false))
	}
	first, err := a.Next(e)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(e.Candidates)
	second, err := b.Next(e)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) {
		t.Fatalf("equal evidence, %+v and %+v", first, second)
	}
}

// concurrent is for the race detector.
func concurrent(t *testing.T, s assign.Strategy) {
	at := coords.Coordinate{Vec: []float64{0, 0}}
	e := assign.Evidence{Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: "a", CanProbe: true,
		Candidates: []assign.Candidate{{ID: "a", At: at}, {ID: "b", At: at}, {ID: "c", At: at}}}
	for _, id := range []string{"a", "b", "c"} {
		e.Samples = append(e.Samples, coords.Sample{Peer: id, At: at, Connect: time.Millisecond,
			FirstByte: time.Millisecond})
	}
	const callers = 4
	done := make(chan error)
	for range callers {
		go func() {
			var errs []error
			for range 20 {
				_, err := s.Next(e)
				errs = append(errs, err)
			}
			done <- errors.Join(errs...)
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
