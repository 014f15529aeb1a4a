package lease

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// leases draws leases of one subnet from so small a world that ties happen.
var leases = rapid.Custom(func(t *rapid.T) Lease {
	p := folk[rapid.IntRange(0, 3).Draw(t, "owner")]
	l := first(p)
	l.Epoch = rapid.Uint64Range(1, 3).Draw(t, "epoch")
	l.Issued = noon.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "issued")) * time.Second)
	l.Expires = l.Issued.Add(time.Duration(rapid.IntRange(1, 2).Draw(t, "ttl")) * time.Minute)
	if rapid.Bool().Draw(t, "proxy") {
		l.Proxy = somewhere()
		l.Proxy.Samples = rapid.IntRange(1, 2).Draw(t, "samples")
	}
	return l
})

func join(a, b Lease) Lease {
	if Better(b, a) > 0 {
		return b
	}
	return a
}

func TestBetterIsATotalOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := leases.Draw(t, "a"), leases.Draw(t, "b"), leases.Draw(t, "c")
		if x, y := Better(a, b), Better(b, a); x != -y {
			t.Fatalf("antisymmetry: %d and %d", x, y)
		}
		if (Better(a, b) == 0) != reflect.DeepEqual(a, b) {
			t.Fatalf("%+v and %+v compare as %d", a, b, Better(a, b))
		}
		if Better(a, b) >= 0 && Better(b, c) >= 0 && Better(a, c) < 0 {
			t.Fatal("not transitive")
		}
	})
}

func TestBetterJoins(t *testing.T) {
	t.Parallel()
	same := func(t *rapid.T, law string, a, b Lease) {
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%s: %+v and %+v", law, a, b)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := leases.Draw(t, "a"), leases.Draw(t, "b"), leases.Draw(t, "c")
		same(t, "idempotent", join(a, a), a)
		same(t, "commutative", join(a, b), join(b, a))
		same(t, "associative", join(a, join(b, c)), join(join(a, b), c))
	})
}

func TestBetterRanks(t *testing.T) {
	t.Parallel()
	early, late := first(alice), first(alice)
	late.Issued = late.Issued.Add(time.Millisecond)
	longer := first(alice)
	longer.Expires = longer.Expires.Add(time.Second)
	second := first(bob)
	second.Epoch, second.Issued = 2, noon.Add(-time.Hour)
	for name, pair := range map[string][2]Lease{
		"the later renewal":              {late, early},
		"the longer of equal issue":      {longer, early},
		"the higher epoch, though older": {second, late},
	} {
		if Better(pair[0], pair[1]) <= 0 {
			t.Errorf("%s does not win", name)
		}
	}
	// Between owners no time counts.
	winner, loser := first(alice), first(bob)
	if Better(winner, loser) < 0 {
		winner, loser = loser, winner
	}
	loser.Issued, loser.Expires = noon.Add(time.Hour), noon.Add(2*time.Hour)
	if Better(winner, loser) <= 0 {
		t.Error("the later of two owners at one epoch wins")
	}
}

// No name may win everywhere, or at every epoch.
func TestTieBreakIsFair(t *testing.T) {
	t.Parallel()
	wins := 0
	for epoch := uint64(1); epoch <= 1000; epoch++ {
		a, b := first(alice), first(bob)
		a.Epoch, b.Epoch = epoch, epoch
		if Better(a, b) > 0 {
			wins++
		}
	}
	if wins < 400 || wins > 600 {
		t.Errorf("alice wins %d of 1000 ties", wins)
	}
}

func TestRivals(t *testing.T) {
	t.Parallel()
	renewed := first(alice)
	renewed.Issued = renewed.Issued.Add(time.Second)
	if leaseType.Rivals(renewed, first(alice)) {
		t.Error("a renewal rivals what it renews")
	}
	next := first(alice)
	next.Epoch = 2
	if !leaseType.Rivals(next, renewed) || leaseType.Rivals(renewed, next) {
		t.Error("a later epoch must rival the earlier, and only so")
	}
}

func TestSelectMerges(t *testing.T) {
	t.Parallel()
	// Replicas that see the same records in any order hold the same one.
	var sealed [][]byte
	for _, p := range folk[:3] {
		l := first(p)
		sealed = append(sealed, seal(t, l, p))
		l.Issued = l.Issued.Add(time.Second)
		sealed = append(sealed, seal(t, l, p))
	}
	v := Validator{Clock: at(noon)}
	want, err := v.Select("", sealed)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var held []byte
		for _, val := range rapid.Permutation(sealed).Draw(t, "order") {
			if held == nil {
				held = val
				continue
			}
			i, err := v.Select("", [][]byte{val, held})
			if err != nil {
				t.Fatal(err)
			}
			held = [][]byte{val, held}[i]
		}
		if !slices.Equal(held, sealed[want]) {
			t.Fatal("another record is held")
		}
	})
}
