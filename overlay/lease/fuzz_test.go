package lease

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"testing"

	"peerd/overlay/record"
)

func FuzzOpenLease(f *testing.F) {
	f.Add([]byte{})
	f.Add(seal(f, first(alice), alice))
	placed := granted(f, alice, bob, 2)
	placed.Proxy = somewhere()
	f.Add(seal(f, placed, bob))
	f.Add(grant(f, alice, bob, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := OpenLease(b)
		if err != nil {
			return
		}
		if err := l.check(); err != nil {
			t.Fatalf("opened, but %v", err)
		}
		if Better(l, l) != 0 {
			t.Fatal("better than itself")
		}
	})
}

// The signature hides body and evidence from a fuzzer: sign what it makes.
func FuzzOpenLeaseBody(f *testing.F) {
	add := func(l Lease) {
		b, evidence, links, err := bodiesOf(l)
		if err != nil {
			f.Fatal(err)
		}
		b.Evidence = nil
		raw, err := record.Encode(b, MaxSealed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, evidence, links)
	}
	add(first(alice))
	add(granted(f, alice, bob, 2))
	add(taken(f))
	add(inherited(f))
	placed := first(bob)
	placed.Proxy = somewhere()
	add(placed)
	f.Fuzz(func(t *testing.T, body, evidence, links []byte) {
		var b leaseBody
		if record.Decode(body, MaxSealed, &b) != nil {
			return
		}
		b.Evidence = nil
		if len(evidence) > 0 {
			sum := sha256.Sum256(evidence)
			b.Evidence = sum[:]
		}
		sealed, err := sealBodies(b, evidence, links, nil, bob.key)
		if err != nil {
			return
		}
		l, err := OpenLease(sealed)
		if err != nil {
			return
		}
		again, err := OpenLease(seal(t, l, bob))
		if err != nil || Better(l, again) != 0 || !bytes.Equal(fingerprint(l), fingerprint(again)) {
			t.Fatalf("%+v does not survive sealing: %+v, %v", l, again, err)
		}
	})
}

func FuzzOpenWitnessSetBody(f *testing.F) {
	for _, p := range []WitnessSet{{Seq: 1}, {Seq: 9, Members: ids(folk[1:5])}} {
		raw, err := record.Encode(witnessSetBody{p.Seq, p.Members, noon.UnixMilli(), "n"},
			MaxSealed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sealed, err := witnessSetKind.SealRaw(body, alice.key)
		if err != nil {
			return
		}
		p, err := OpenWitnessSet(sealed)
		if err != nil {
			return
		}
		if len(p.Members) > MaxWitnesses || p.Has(alice.id) || !p.Pair() && p.TakeoverQuorum()+
			p.HoldQuorum() != len(p.Members)+1 {
			t.Fatalf("opened %+v", p)
		}
		again, err := SealWitnessSet(p, alice.key)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := OpenWitnessSet(again); err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v does not survive sealing: %+v, %v", p, q, err)
		}
	})
}

func FuzzOpenVoteBody(f *testing.F) {
	v := sealedVote()
	raw, err := record.Encode(voteBody{v.Subnet, v.Epoch, v.From, v.To, v.SetSeq,
		v.Ended[:], noon.UnixMilli()}, MaxSealed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, body []byte) {
		sealed, err := voteKind.SealRaw(body, carol.key)
		if err != nil {
			return
		}
		v, err := OpenVote(sealed)
		if err != nil {
			return
		}
		again, err := SealVote(v, carol.key)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := OpenVote(again); err != nil || v != w || v.Voter != carol.id {
			t.Fatalf("%+v does not survive sealing: %+v, %v", v, w, err)
		}
	})
}

func FuzzOpenGrant(f *testing.F) {
	f.Add([]byte{})
	f.Add(grant(f, alice, bob, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := OpenGrant(b); err == nil && g.Check() != nil {
			t.Fatalf("opened %+v, but %v", g, g.Check())
		}
	})
}
