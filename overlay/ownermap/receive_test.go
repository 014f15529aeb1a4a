package ownermap

import (
	"errors"
	"testing"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
)

func TestReceive(t *testing.T) {
	now := time.Now()
	l := func(p overlaytest.Peer, n int, at time.Duration) []byte {
		return seal(t, p, owned(p, subnet(n), now.Add(at), nil))
	}
	long := make([][]byte, maxLeases+1)
	for i := range long {
		long[i] = l(bob, i, 0)
	}
	foreign := func(of string) []byte {
		l := owned(bob, subnet(11), now, nil)
		l.Network = of
		return seal(t, bob, l)
	}
	forged := l(bob, 1, 0)
	forged[len(forged)-1] ^= 1
	a := newMap(t, alice, nil)
	heard := 0 // valid leases, new or not
	a.cfg.Node.(*fakeNode).onLease = func(l lease.Lease) {
		if heard++; l.Owner == alice.ID {
			t.Error("ObserveLease was called with an own lease")
		}
	}
	for _, c := range []struct {
		name  string
		raw   []byte
		added int
		bad   bool
	}{
		{"empty", nil, 0, true},
		{"too long", make([]byte, maxMessage+1), 0, true},
		{"not CBOR", []byte("hello"), 0, true},
		{"no lease", message(t), 0, true},
		{"too many leases", message(t, long...), 0, true},
		{"forged", message(t, forged), 0, true},
		{"one good, one forged", message(t, l(bob, 2, 0), forged), 0, true},
		{"two owners", message(t, l(bob, 3, 0), l(carol, 4, 0)), 0, true},
		{"of another network", message(t, foreign("other")), 0, true},
		{"one of another network", message(t, l(bob, 12, 0), foreign("other")), 0, true},
		{"of no network", message(t, foreign("")), 0, true},
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
		{"with a place now", message(t,
			seal(t, bob, owned(bob, subnet(6), now.Add(time.Second), somewhere(1)))), 1, false},
		{"a slightly other place",
			message(t, seal(t, bob, owned(bob, subnet(6), now.Add(2*time.Second), somewhere(1.5)))),
			0, false},
		{"quite another place",
			message(t, seal(t, bob, owned(bob, subnet(6), now.Add(3*time.Second), somewhere(90)))),
			1, false},
	} {
		added, err := a.receive(c.raw, dave.ID, now)
		if added != c.added || errors.Is(err, ErrMessage) != c.bad || (err != nil) != c.bad {
			t.Errorf("receive %s = %d, %v; want %d", c.name, added, err, c.added)
		}
	}
	if heard != 7 {
		t.Errorf("ObserveLease was called %d times, want 7", heard)
	}
	// Which lease of an own subnet stands is decided by more than the map knows.
	a.table.put(newEntry(owned(alice, subnet(20), now.Add(time.Second), nil)), true, now, 0)
	if _, err := a.receive(message(t, l(bob, 20, 0)), dave.ID, now); err != nil || heard != 8 {
		t.Errorf("a rival's lease of an own subnet was not observed: %v", err)
	}
	// That a better one was announced, by whomever, changes nothing about that.
	best := granted(t, carol, dave, subnet(20), now)
	for i, raw := range [][]byte{seal(t, dave, best), l(bob, 20, 0)} {
		if _, err := a.receive(message(t, raw), dave.ID, now); err != nil || heard != 9+i {
			t.Errorf("rival %d of an own subnet was not observed: %v", i, err)
		}
	}
	if s := a.Stats(); s.Subnets != 4 || s.Received != 7 {
		t.Errorf("Stats() = %+v, want 4 subnets and 7 received", s)
	}
	// A repetition counts as new after half of RepeatAfter.
	later := now.Add(a.cfg.RepeatAfter)
	if added, err := a.receive(message(t, l(bob, 7, time.Hour)), dave.ID,
		later); added != 1 || err != nil {
		t.Errorf("receive of a repetition = %d, %v, want 1", added, err)
	}
}

// An owner cannot make others relay more than an honest owner announces.
func TestQuota(t *testing.T) {
	a := newMap(t, alice, nil)
	now := time.Now()
	flood := func(n, from int, now time.Time) (added int) {
		for i := range n {
			m, err := a.receive(message(t, seal(t, bob, owned(bob, subnet(from+i), now, nil))),
				dave.ID, now)
			if err != nil {
				t.Fatal(err)
			}
			added += m
		}
		return added
	}
	first := flood(1000, 0, now)
	if first < 4*maxLeases || first > 40*maxLeases {
		t.Errorf("accepted %d announcements at once, want 4 to 40 messages' worth", first)
	}
	if more := flood(10, 2000, now); more != 0 {
		t.Errorf("accepted %d more announcements, want 0", more)
	}
	if more := flood(200, 3000, now.Add(a.cfg.Gap)); more < maxLeases || more > 3*maxLeases {
		t.Errorf("accepted %d announcements in the next %v, want one to three messages' worth",
			more, a.cfg.Gap)
	}
	if added, err := a.receive(message(t, seal(t, carol, owned(carol, subnet(9000), now, nil))),
		dave.ID, now); added != 1 || err != nil {
		t.Errorf("receive from another owner = %d, %v, want 1", added, err)
	}
}

// The signatures of a message without news are not checked. Of those with news they are within a
// budget of who forwards them, whoever has made them.
func TestSignaturesChecked(t *testing.T) {
	a := newMap(t, alice, nil)
	now := time.Now()
	one := func(p overlaytest.Peer, n int) []byte {
		return message(t, seal(t, p, owned(p, subnet(n), now, nil)))
	}
	raw := one(bob, 1)
	if added, err := a.receive(raw, dave.ID, now); added != 1 || err != nil {
		t.Fatalf("receive = %d, %v, want 1", added, err)
	}
	raw[len(raw)-1] ^= 1
	if added, err := a.receive(raw, dave.ID, now); added != 0 || err != nil {
		t.Errorf("receive of a known lease with another signature = %d, %v, want 0, ignored",
			added, err)
	}
	var forwarded int
	for i := range 1500 {
		p := testPeers[1+i%3]
		added, err := a.receive(one(p, 100+i), dave.ID, now)
		if err != nil {
			t.Fatal(err)
		}
		forwarded += added
	}
	if forwarded != verifyRate.Burst-1 {
		t.Errorf("%d new leases forwarded by one peer were accepted, want %d", forwarded,
			verifyRate.Burst-1)
	}
	if added, err := a.receive(one(bob, 2), carol.ID, now); added != 1 || err != nil {
		t.Errorf("receive from another peer = %d, %v, want 1", added, err)
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
		owner, leases, err := parse(raw, network, lease.OpenLease)
		if err != nil {
			if !errors.Is(err, ErrMessage) || leases != nil {
				t.Fatalf("parse: %v with %d leases, want ErrMessage and none", err, len(leases))
			}
			return
		}
		if len(leases) == 0 || len(leases) > maxLeases {
			t.Fatalf("parse accepted %d leases", len(leases))
		}
		for _, l := range leases {
			if l.Owner != owner {
				t.Fatalf("parse accepted a lease of %v among those of %v", l.Owner, owner)
			}
		}
	})
}
