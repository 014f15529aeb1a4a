package lease

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/internal/clock"
	_ "peerd/internal/rapidtest"
	"peerd/overlay/record/recordtest"
	"peerd/store"
)

// passedOn returns the lease that old's owner grants to p.
func passedOn(t testing.TB, old Lease, from, to someone) Lease {
	t.Helper()
	l := after(old, to)
	var err error
	if l.Grant, err = old.GrantTo(to.id, old.Issued, from.key); err != nil {
		t.Fatal(err)
	}
	return l
}

// line returns leases of n epochs, of alice and bob in turn, as they are opened.
func line(t testing.TB, n int) []Lease {
	t.Helper()
	all := []Lease{first(alice)}
	by := []someone{alice, bob}
	for i := 1; i < n; i++ {
		l, err := OpenLease(seal(t, passedOn(t, all[i-1], by[(i-1)%2], by[i%2]), by[i%2]))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// A reader that missed some steps can follow, and a record does not grow for ever.
func TestFollows(t *testing.T) {
	t.Parallel()
	all := line(t, 3*MaxLinks)
	size := 0
	for i, a := range all {
		for j, b := range all {
			if got, want := b.Follows(a), i < j && j-i <= MaxLinks; got != want {
				t.Errorf("epoch %d follows epoch %d: %v, want %v", b.Epoch, a.Epoch, got, want)
			}
		}
		renewed := a
		renewed.Issued = a.Issued.Add(time.Hour)
		if renewed.Digest() != a.Digest() || renewed.Follows(a) {
			t.Error("a renewal is another step")
		}
		n := len(seal(t, a, []someone{alice, bob}[i%2]))
		if i > MaxLinks+1 && n > size+8 {
			t.Errorf("%d bytes at epoch %d, %d before", n, a.Epoch, size)
		}
		size = n
	}
	t.Logf("%d bytes with %d links", size, MaxLinks)
	short, err := Shorten(seal(t, all[9], bob))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := OpenLease(short); err != nil || len(l.Links) != 1 || !l.Follows(all[8]) ||
		l.Digest() != all[9].Digest() {
		t.Errorf("shortened to %+v, %v", l, err)
	}
}

func TestChainRefuses(t *testing.T) {
	t.Parallel()
	good := line(t, 4)[3]
	for name, edit := range map[string]func(*Lease){
		"no links":         func(l *Lease) { l.Links = nil },
		"a gap":            func(l *Lease) { l.Links = l.Links[:2] },
		"another owner":    func(l *Lease) { l.Links[1].Owner = carol.id },
		"another begin":    func(l *Lease) { l.Links[0].Owner = carol.id },
		"a missing grant":  func(l *Lease) { l.Links[2].Grant = nil },
		"another's grant":  func(l *Lease) { l.Links[2].Grant = l.Links[1].Grant },
		"claimed":          func(l *Lease) { l.Claimed = noon },
		"another subnet":   func(l *Lease) { l.Subnet = subnet6 },
		"another network":  func(l *Lease) { l.Network = "another" },
		"too long network": func(l *Lease) { l.Network = string(make([]byte, maxNetwork+1)) },
	} {
		l := good
		l.Links = append([]Link(nil), l.Links...)
		edit(&l)
		if _, err := OpenLease(forge(t, bodyOf(l), bob)); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	s, err := split(seal(t, good, bob))
	if err != nil {
		t.Fatal(err)
	}
	if s.Links, err = encodeLinks(line(t, 3)[2].Links); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLease(outer(t, s)); !errors.Is(err, ErrChain) {
		t.Errorf("links that were not signed: %v", err)
	}
}

// view is a Judge at noon that has seen a lease for some time.
func view(l Lease, seen time.Duration, silent, apart bool) *Judge {
	j := NewJudge(at(noon), &contacts{silent: silent, apart: apart})
	j.See(l, noon.Add(-seen))
	return j
}

func TestJudge(t *testing.T) {
	t.Parallel()
	all := line(t, 3*MaxLinks)
	known := all[1]
	known.Issued = noon.Add(-12 * time.Hour)
	known.Expires = noon.Add(time.Hour)
	rival, root := first(carol), first(alice)
	if Better(rival, root) < 0 {
		rival, root = root, rival
	}
	stolen := passedOn(t, passedOn(t, first(carol), carol, folk[3]), folk[3], carol)
	sibling := passedOn(t, passedOn(t, all[0], alice, carol), carol, folk[3])
	unheard := all[1].Next(carol.id)
	last, err := LastOf(forge(t, bodyOf(known), bob))
	if err != nil {
		t.Fatal(err)
	}
	unheard.Takeover = &Takeover{Last: last, At: noon}
	expired := known
	expired.Expires = noon.Add(-time.Second)
	old, fresh := time.Hour, time.Second
	for name, c := range map[string]struct {
		known, l      Lease
		seen          time.Duration
		silent, apart bool
		want          bool
	}{
		"the next":                  {known, all[2], old, false, false, true},
		"as far as it can follow":   {known, all[1+MaxLinks], old, false, false, true},
		"farther":                   {known, all[2+MaxLinks], old, true, false, false},
		"the one before":            {known, all[0], old, true, true, false},
		"a claim at the same time":  {root, rival, fresh, false, false, true},
		"a claim that loses":        {rival, root, fresh, false, true, false},
		"a late claim":              {root, rival, old, false, false, false},
		"a claim while apart":       {root, rival, old, false, true, true},
		"a late chain":              {known, stolen, old, false, false, false},
		"a chain while apart":       {known, stolen, old, false, true, true},
		"a sibling":                 {known, sibling, old, false, false, false},
		"a sibling of the same day": {known, sibling, 5 * time.Minute, false, false, true},
		"silence":                   {known, unheard, old, true, false, true},
		"no silence":                {known, unheard, old, false, false, false},
		"no silence, but expired":   {expired, unheard, old, false, false, true},
	} {
		if name == "a sibling of the same day" {
			c.known.Issued = noon.Add(-time.Minute)
		}
		if c.known.Epoch == 1 && c.seen == old {
			c.known.Issued, c.known.Claimed = noon.Add(-old), noon.Add(-old)
		}
		if got := view(c.known, c.seen, c.silent, c.apart).Replaces(c.known, c.l); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	// What was signed long ago was not made just now, though it is seen for the first time.
	if aged := known; view(aged, 0, false, false).Replaces(aged, stolen) {
		t.Error("after a restart a stranger's chain wins")
	}
}

// Of two leases never both replace the other, and one that does not descend from what has been
// known for long never does.
func TestJudgeIsConsistent(t *testing.T) {
	t.Parallel()
	pool := append(line(t, 7), passedOn(t, first(carol), carol, bob), first(carol), first(bob),
		passedOn(t, line(t, 2)[1], bob, carol))
	for i := range pool {
		pool[i].Issued, pool[i].Expires = noon.Add(-12*time.Hour), noon.Add(time.Hour)
	}
	one := rapid.SampledFrom(pool)
	rapid.Check(t, func(t *rapid.T) {
		a, b := one.Draw(t, "a"), one.Draw(t, "b")
		apart, seen := rapid.Bool().Draw(t, "apart"), rapid.IntRange(0, 1).Draw(t, "hours")
		j := view(a, time.Duration(seen)*time.Hour, true, apart)
		j.See(b, noon)
		if j.Replaces(a, b) && j.Replaces(b, a) {
			t.Fatalf("%+v and %+v replace each other", a, b)
		}
		if !apart && j.Replaces(a, b) && !b.Follows(a) && a.Owner != b.Owner {
			t.Fatalf("%+v replaces %+v", b, a)
		}
	})
}

// A record holder keeps what it has, whichever way round the DHT asks, and also if it has just
// been started.
func TestHolderKeepsItsLease(t *testing.T) {
	t.Parallel()
	now := noon
	mine := first(alice)
	mine.Issued, mine.Expires = noon.Add(-time.Hour), noon.Add(time.Hour)
	own, theft := seal(t, mine, alice), seal(t, passedOn(t, first(carol), carol, bob), bob)
	next := seal(t, passedOn(t, mine, alice, bob), bob)
	for _, restarted := range []bool{false, true} {
		v := Validator{Clock: at(now), Judge: view(first(folk[6]), 0, false, false)}
		if !restarted {
			v.Judge.See(mine, noon.Add(-time.Hour))
		}
		accepts := func(val []byte) bool {
			for _, b := range [][]byte{val, own} { // as kad-dht does
				if err := v.Validate(Key(subnet4), b); err != nil {
					t.Fatal(err)
				}
			}
			i, err := v.Select("", [][]byte{val, own})
			return err == nil && i == 0
		}
		if accepts(theft) {
			t.Errorf("restarted %v: a theft is stored", restarted)
		}
		if !accepts(next) || !accepts(own) {
			t.Errorf("restarted %v: a successor or the same lease is refused", restarted)
		}
	}
}

// A record holder keeps what it has also if others have made it forget when it was first seen, and
// remember that it has seen a theft before.
func TestHolderThatForgot(t *testing.T) {
	t.Parallel()
	mine := first(alice)
	mine.Issued, mine.Expires = noon.Add(-time.Hour), noon.Add(time.Hour)
	theft := first(bob)
	theft.Issued, theft.Claimed = noon.Add(-time.Minute), noon.Add(-time.Minute)
	v := Validator{Clock: at(noon), Judge: view(theft, time.Minute, false, false)}
	own, other := seal(t, mine, alice), seal(t, theft, bob)
	for _, b := range [][]byte{other, own} {
		if err := v.Validate(Key(subnet4), b); err != nil {
			t.Fatal(err)
		}
	}
	if v.Replaces(own, other) {
		t.Error("a theft is stored")
	}
	if !v.Replaces(own, seal(t, passedOn(t, mine, alice, bob), bob)) {
		t.Error("a successor is refused")
	}
}

// A claim that is seen again is not young for longer than clocks may differ, after as many others
// as make a Judge forget it.
func TestForgottenClaimIsNotYoung(t *testing.T) {
	t.Parallel()
	known, rival := first(alice), first(carol)
	if Better(rival, known) < 0 {
		known, rival = rival, known
	}
	now := noon.Add(-time.Hour)
	j := NewJudge(clock.Of(func() time.Time { return now }), &contacts{})
	known.Claimed, now = noon, noon.Add(time.Second)
	j.See(known, now)
	if !j.Replaces(known, rival) {
		t.Fatal("two claims at once are not contested")
	}
	forget := func() {
		for i := range maxSeen {
			l := first(bob)
			l.Subnet = store.SubnetOf(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}))
			j.See(l, now)
		}
	}
	now = noon.Add(Skew + young + 2*time.Second)
	forget()
	j.See(known, now)
	if j.Replaces(known, rival) {
		t.Error("a claim that was forgotten counts as new")
	}
}

// What a peer sent is hearsay: the DHT's lease replaces it, unless it descends from that.
func TestHearsay(t *testing.T) {
	t.Parallel()
	dht := recordtest.New(Validator{}, 3)
	mine := nowLease(alice)
	mine.Issued = mine.Issued.Add(-time.Hour)
	dht.Plant(Key(subnet4), seal(t, mine, alice))
	theft := seal(t, timed(passedOn(t, nowLease(carol), carol, bob)), bob)
	next := seal(t, timed(passedOn(t, mine, alice, bob)), bob)
	for name, c := range map[string]struct {
		sent []byte
		want someone
	}{"a theft": {theft, alice}, "the next": {next, bob}} {
		r := open(t, carol, dht.Peer())
		if l, err := r.Confirm(t.Context(), c.sent); err != nil || l.Owner != c.want.id {
			t.Errorf("%s: Confirm() = %v, %v", name, l.Owner, err)
		}
		r = open(t, carol, dht.Peer())
		if _, err := r.Learn(c.sent); err != nil {
			t.Fatal(err)
		}
		if l, _, err := r.Lookup(t.Context(), subnet4); err != nil || l.Owner != c.want.id {
			t.Errorf("%s: Lookup() = %v, %v", name, l.Owner, err)
		}
	}
	// What its owner denies gives way as well.
	r := open(t, carol, dht.Peer())
	if _, _, err := r.Lookup(t.Context(), subnet4); err != nil {
		t.Fatal(err)
	}
	dht.Plant(Key(subnet4), theft)
	if l, _, err := r.Refresh(t.Context(), subnet4); err != nil || l.Owner != alice.id {
		t.Errorf("Refresh() = %v, %v", l.Owner, err)
	}
	r.Doubt(subnet4)
	if l, _, err := r.Refresh(t.Context(), subnet4); err != nil || l.Owner != bob.id {
		t.Errorf("Refresh() after Doubt = %v, %v", l.Owner, err)
	}
}

func timed(l Lease) Lease {
	l.Issued = time.Now()
	l.Expires = l.Issued.Add(time.Minute)
	return l
}

// What is signed in one network is nothing in another.
func TestNetworksAreSeparate(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values, cfg.Clock = carol.id, carol.key, fixed{}, at(noon)
	cfg.Network = "one"
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	here, there := first(alice), first(alice)
	here.Network, there.Network = "one", "two"
	v := Validator{Network: "one", Clock: at(noon)}
	if _, err := r.Learn(seal(t, here, alice)); err != nil {
		t.Error(err)
	}
	if err := v.Validate(Key(subnet4), seal(t, here, alice)); err != nil {
		t.Error(err)
	}
	for _, l := range []Lease{there, passedOn(t, there, alice, alice)} {
		if _, err := r.Learn(seal(t, l, alice)); !errors.Is(err, ErrNetwork) {
			t.Errorf("learned: %v", err)
		}
		if err := v.Validate(Key(subnet4), seal(t, l, alice)); !errors.Is(err, ErrNetwork) {
			t.Errorf("stored: %v", err)
		}
	}
	l := passedOn(t, here, alice, bob)
	if l.Grant, err = there.GrantTo(bob.id, noon, alice.key); err != nil {
		t.Fatal(err)
	}
	if _, err := SealLease(l, bob.key); !errors.Is(err, ErrGrant) {
		t.Errorf("a grant of another network: %v", err)
	}
	l.Grant = nil
	set, err := SealWitnessSet(WitnessSet{Network: "two", Owner: alice.id, Seq: 7,
		Members: ids(folk[2:6]), Issued: noon}, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	b := sealedVote()
	b.Ended = here.Digest()
	l.Takeover = &Takeover{WitnessSet: set, Votes: votes(t, b, folk[2], folk[3], folk[4])}
	if _, err := SealLease(l, bob.key); !errors.Is(err, ErrTakeover) {
		t.Errorf("a witness set of another network: %v", err)
	}
}
