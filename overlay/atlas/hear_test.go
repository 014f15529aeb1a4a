package atlas

import (
	"errors"
	"testing"
	"time"

	"peerd/overlay/lease"
)

func TestTake(t *testing.T) {
	now := time.Now()
	l := func(p someone, n int, at time.Duration) []byte {
		return seal(t, p, owned(p, subnet(n), now.Add(at), nil))
	}
	long := make([][]byte, maxLeases+1)
	for i := range long {
		long[i] = l(bob, i, 0)
	}
	forged := l(bob, 1, 0)
	forged[len(forged)-1] ^= 1
	a := alone(t, alice, nil)
	heard := 0 // valid ones, old or new
	a.cfg.Heard = func(l lease.Lease) {
		if heard++; l.Owner == alice.id {
			t.Error("told of what is ours")
		}
	}
	for _, c := range []struct {
		name string
		raw  []byte
		news int
		bad  bool
	}{
		{"empty", nil, 0, true},
		{"too long", make([]byte, maxMessage+1), 0, true},
		{"not CBOR", []byte("hello"), 0, true},
		{"no lease", message(t), 0, true},
		{"too many leases", message(t, long...), 0, true},
		{"forged", message(t, forged), 0, true},
		{"one good, one forged", message(t, l(bob, 2, 0), forged), 0, true},
		{"two owners", message(t, l(bob, 3, 0), l(carol, 4, 0)), 0, true},
		{"two", message(t, l(bob, 5, 0), l(bob, 6, 0)), 2, false},
		{"the same again", message(t, l(bob, 5, 0)), 0, false},
		{"a little later, the same", message(t, l(bob, 5, time.Minute)), 0, false},
		{"earlier", message(t, l(bob, 5, -time.Minute)), 0, false},
		{"one of them new", message(t, l(bob, 5, 0), l(bob, 7, 0)), 1, false},
		{"from the future", message(t, l(bob, 8, 2*lease.Skew)), 0, false},
		{"long gone", message(t, l(bob, 9, -2*lease.Grace)), 0, false},
		{"mine", message(t, l(alice, 10, 0)), 0, false},
		{"moved", message(t, seal(t, carol, granted(t, bob, carol, subnet(5), now))), 1, false},
		{"the old owner's", message(t, l(bob, 5, time.Minute)), 0, false},
		{"with a place now", message(t, seal(t, bob, owned(bob, subnet(6), now.Add(time.Second), somewhere(1)))), 1, false},
		{"a slightly other place", message(t, seal(t, bob, owned(bob, subnet(6), now.Add(2*time.Second), somewhere(1.5)))), 0, false},
		{"quite another place", message(t, seal(t, bob, owned(bob, subnet(6), now.Add(3*time.Second), somewhere(90)))), 1, false},
	} {
		news, err := a.take(c.raw, now)
		if news != c.news || errors.Is(err, ErrMessage) != c.bad || (err != nil) != c.bad {
			t.Errorf("%s: %d news, %v; want %d", c.name, news, err, c.news)
		}
	}
	if heard != 12 {
		t.Errorf("told of %d leases, want 12", heard)
	}
	if s := a.Stats(); s.Subnets != 3 || s.Received != 6 {
		t.Errorf("%+v", s)
	}
	// Half the pause between repetitions later, a repetition counts.
	later := now.Add(a.cfg.RepeatAfter)
	if news, err := a.take(message(t, l(bob, 7, time.Hour)), later); news != 1 || err != nil {
		t.Errorf("repeated: %d, %v", news, err)
	}
}

// One owner cannot have everybody pass on more than owners say.
func TestQuota(t *testing.T) {
	a := alone(t, alice, nil)
	now := time.Now()
	flood := func(n, from int, now time.Time) (news int) {
		for i := range n {
			m, err := a.take(message(t, seal(t, bob, owned(bob, subnet(from+i), now, nil))), now)
			if err != nil {
				t.Fatal(err)
			}
			news += m
		}
		return news
	}
	first := flood(1000, 0, now)
	if first < 4*maxLeases || first > 40*maxLeases {
		t.Errorf("%d at once", first)
	}
	if more := flood(10, 2000, now); more != 0 {
		t.Errorf("%d more", more)
	}
	if more := flood(200, 3000, now.Add(a.cfg.Gap)); more < maxLeases || more > 3*maxLeases {
		t.Errorf("%d within the next %v", more, a.cfg.Gap)
	}
	if news, err := a.take(message(t, seal(t, carol, owned(carol, subnet(9000), now, nil))), now); news != 1 || err != nil {
		t.Errorf("another pays for it: %d, %v", news, err)
	}
}

func FuzzParse(f *testing.F) {
	now := time.Unix(2e9, 0)
	one := seal(f, bob, owned(bob, subnet(1), now, somewhere(1)))
	two := seal(f, bob, owned(bob, subnet(2), now, nil))
	f.Add(message(f, one, two))
	f.Add(message(f))
	f.Add(message(f, one[:40]))
	f.Fuzz(func(t *testing.T, raw []byte) {
		owner, leases, err := parse(raw)
		if err != nil {
			if !errors.Is(err, ErrMessage) || leases != nil {
				t.Fatalf("%v, %d leases", err, len(leases))
			}
			return
		}
		if len(leases) == 0 || len(leases) > maxLeases {
			t.Fatalf("%d leases", len(leases))
		}
		for _, l := range leases {
			if l.Owner != owner {
				t.Fatalf("%v among those of %v", l.Owner, owner)
			}
		}
	})
}
