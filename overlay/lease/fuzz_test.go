package lease

import (
	"bytes"
	"testing"
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

// The signature hides the body from a fuzzer: sign what it makes.
func FuzzOpenLeaseBody(f *testing.F) {
	f.Add(fingerprint(first(alice)))
	f.Add(fingerprint(granted(f, bob, alice, 2)))
	placed := first(alice)
	placed.Proxy = somewhere()
	f.Add(fingerprint(placed))
	f.Fuzz(func(t *testing.T, body []byte) {
		sealed, err := leaseKind.SealRaw(body, alice.key)
		if err != nil {
			return
		}
		l, err := OpenLease(sealed)
		if err != nil {
			return
		}
		again, err := OpenLease(seal(t, l, alice))
		if err != nil || Better(l, again) != 0 || !bytes.Equal(fingerprint(l), fingerprint(again)) {
			t.Fatalf("%+v does not survive sealing: %+v, %v", l, again, err)
		}
	})
}

func FuzzOpenGrant(f *testing.F) {
	f.Add([]byte{})
	f.Add(grant(f, alice, bob, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := OpenGrant(b); err == nil && g.check() != nil {
			t.Fatalf("opened %+v, but %v", g, g.check())
		}
	})
}
