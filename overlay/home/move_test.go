package home

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/overlay/lease"
	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

var elsewhere = netip.MustParsePrefix("192.0.2.0/24")

// leaseOf is a lease of p from a time on, for an hour.
func leaseOf(t testing.TB, p netip.Prefix, by someone, from time.Time) []byte {
	t.Helper()
	b, err := lease.SealLease(lease.Lease{Subnet: p, Owner: by.id, Epoch: 1, Issued: from,
		Expires: from.Add(time.Hour)}, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// moved seals a move of prior's host by a peer at a time, with a lease.
func moved(
	t testing.TB, prior []byte, to netip.Prefix, by someone, at time.Time, sealedLease []byte,
) []byte {
	t.Helper()
	b, err := SealMove(Record{Host: host, Subnet: to, By: by.id, Issued: at}, prior, sealedLease,
		by.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMove(t *testing.T) {
	first := seal(t, Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1}, alice)
	second := moved(t, first, there, bob, noon, leaseOf(t, here, bob, noon))
	got, err := Open(second)
	if want := (Record{Host: host, Subnet: there, By: bob.id, Issued: noon, Epoch: 2, From: here,
		Proof: got.Proof}); err != nil || got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
	// A chain of moves does not grow.
	late := noon.Add(2*time.Hour + Silence)
	third := moved(t, second, elsewhere, alice, late, leaseOf(t, there, bob, noon))
	fourth := moved(t, third, here, alice, late, leaseOf(t, elsewhere, alice, late))
	r, err := Open(third)
	if err != nil || r.Epoch != 3 || !r.Rescue || r.From != there {
		t.Errorf("third: %+v, %v", r, err)
	}
	if d := len(fourth) - len(third); d > 64 {
		t.Errorf("the fourth record is %d bytes longer than the third", d)
	}
	v := Validator{Clock: at(late)}
	if err := v.Validate(Key(host), fourth); err != nil {
		t.Error(err)
	}
	if i, err := v.Select("", [][]byte{second, fourth, first, third}); err != nil || i != 1 {
		t.Errorf("selected %d, %v", i, err)
	}
}

// What is moved without the right to is refused, by who signs and by who opens.
func TestMoveRefused(t *testing.T) {
	first := seal(t, Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1}, alice)
	other := seal(t, Record{Host: "example.org", Subnet: here, By: alice.id, Issued: noon,
		Epoch: 1}, alice)
	for name, c := range map[string]struct {
		prior, lease []byte
		to           netip.Prefix
		at           time.Time
		want         error
	}{
		"owner": {first, leaseOf(t, here, bob, noon), there, noon, nil},
		"owner, much later": {first, leaseOf(t, here, bob, noon), there,
			noon.Add(time.Hour + lease.Grace), nil},
		"rescue": {first, leaseOf(t, here, alice, noon), there,
			noon.Add(time.Hour + Silence), nil},
		"to where it is":   {first, leaseOf(t, here, bob, noon), here, noon, ErrSubnet},
		"lease of another": {first, leaseOf(t, there, bob, noon), elsewhere, noon, ErrProof},
		"before the lease": {first, leaseOf(t, here, bob, noon), there,
			noon.Add(-record.Skew - time.Second), ErrProof},
		"after the grace": {first, leaseOf(t, here, bob, noon), there,
			noon.Add(time.Hour + lease.Grace + time.Second), ErrProof},
		"rescue too early": {first, leaseOf(t, here, alice, noon), there,
			noon.Add(time.Hour + Silence - time.Second), ErrProof},
		"another host's": {other, leaseOf(t, here, bob, noon), there, noon, ErrProof},
		"no lease":       {first, nil, there, noon, ErrProof},
		"to no subnet at all": {first, leaseOf(t, here, bob, noon), netip.Prefix{}, noon,
			ErrSubnet},
	} {
		r := Record{Host: host, Subnet: c.to, By: bob.id, Issued: c.at}
		if _, err := SealMove(r, c.prior, c.lease, bob.key); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	good := moved(t, first, there, bob, noon, leaseOf(t, here, bob, noon))
	_, p, err := openBundle(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*bundle){
		"no proof": func(p *bundle) { p.Prior, p.Lease = nil, nil },
		"another lease": func(p *bundle) {
			p.Lease = leaseOf(t, here, bob, noon.Add(time.Second))
		},
		"another before": func(p *bundle) { _, q, _ := openBundle(other); p.Prior = q.Sealed },
		"unsigned proof": func(p *bundle) { _, q, _ := openBundle(first); p.Sealed = q.Sealed },
	} {
		q := p
		edit(&q)
		if _, err := Open(wrap(t, q)); !errors.Is(err, ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Replicas that get sealed records in any order and grouping hold the same.
func TestSelectIsJoin(t *testing.T) {
	first := seal(t, Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1}, alice)
	fork := seal(t, Record{Host: host, Subnet: there, By: bob.id, Issued: noon, Epoch: 1}, bob)
	late := noon.Add(time.Hour + Silence)
	all := [][]byte{
		first, fork,
		moved(t, first, there, bob, late, leaseOf(t, here, bob, late)),
		moved(t, first, elsewhere, bob, late, leaseOf(t, here, alice, noon)),
		moved(t, fork, elsewhere, bob, late, leaseOf(t, there, bob, late)),
	}
	all = append(all, moved(t, all[2], elsewhere, alice, late, leaseOf(t, there, alice, late)))
	v := Validator{}
	merge := func(vs [][]byte) []byte {
		i, err := v.Select("", vs)
		if err != nil {
			t.Fatal(err)
		}
		return vs[i]
	}
	rapid.Check(t, func(rt *rapid.T) {
		vs := rapid.Permutation(all).Draw(rt, "order")
		n := rapid.IntRange(1, len(vs)).Draw(rt, "of")
		want := merge(vs[:n])
		got := vs[0]
		for _, x := range vs[:n] { // one by one, and each again
			got = merge([][]byte{x, merge([][]byte{got, x})})
		}
		if !bytes.Equal(got, want) {
			rt.Fatal("the order matters")
		}
	})
}

func TestRegistryMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 5)
		a, b := open(t, alice, dht.Peer()), open(t, bob, dht.Peer())
		if _, err := a.Draft(ctx, host, here, there,
			leaseOf(t, here, alice, time.Now())); !errors.Is(err, ErrUnsettled) {
			t.Errorf("moved from nowhere: %v", err)
		}
		for _, r := range []*Registry{a, b} {
			if p, err := r.Settle(ctx, host, here); err != nil || p != here {
				t.Fatal(p, err)
			}
		}
		value, err := a.Draft(ctx, host, here, there, leaseOf(t, here, alice, time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := b.Read(ctx, host); err != nil || r.Subnet != here {
			t.Errorf("a draft is known: %v, %v", r, err)
		}
		for range 2 { // twice is as once
			if r, err := a.Announce(ctx, value); err != nil || r.Subnet != there || r.Epoch != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if p, ok := a.Cached(host); !ok || p != there {
			t.Errorf("the mover remembers %v", p)
		}
		// Who knew the old home guesses by it, but does not crawl by it.
		if p, _ := b.Cached(host); p != here {
			t.Errorf("bob knows %v by itself", p)
		}
		<-time.After(recent)
		if p, err := b.Settle(ctx, host, here); err != nil || p != there {
			t.Errorf("bob settles %v, %v", p, err)
		}
		if _, err := b.Draft(ctx, host, here, elsewhere,
			leaseOf(t, here, bob, time.Now())); !errors.Is(err, ErrMoved) {
			t.Errorf("moved from an old home: %v", err)
		}
		// Once more, from a record that is too large to be kept in memory.
		value, err = b.Draft(ctx, host, there, elsewhere, leaseOf(t, there, bob, time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := b.Announce(ctx, value); err != nil || r.Epoch != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		dht.Plant(Key(host), nil) // lost: a peer that remembers does not start over
		if p, err := b.Settle(ctx, host, here); err != nil || p != elsewhere {
			t.Errorf("after the loss: %v, %v", p, err)
		}
	})
}

// FuzzOpenBundle sees to the form around what is signed, and the proof.
func FuzzOpenBundle(f *testing.F) {
	first := seal(f, Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1}, alice)
	second := moved(f, first, there, bob, noon, leaseOf(f, here, bob, noon))
	_, p, err := openBundle(second)
	if err != nil {
		f.Fatal(err)
	}
	start, err := statements.Open(p.Prior)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.Prior, p.Lease)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, prior, sealedLease []byte) {
		q := bundle{Prior: prior, Lease: sealedLease}
		r := Record{Host: host, Subnet: there, By: bob.id, Issued: noon, Epoch: 2, From: here,
			Proof: q.digest()}
		b, _ := r.Body()
		sealed, err := statements.Kind.Seal(b, bob.key)
		if err != nil {
			t.Fatal(err)
		}
		q.Sealed = sealed
		got, err := Open(wrap(t, q))
		if err != nil {
			return
		}
		// The form around what is signed may have more fields.
		if before, err := statements.Open(prior); err != nil || got != r || before != start {
			t.Fatalf("%+v is proved by something else: %+v, %v", got, before, err)
		}
	})
}
