package lease

import (
	"errors"
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"peerd/coords"
	"peerd/overlay/record"
)

func TestLeaseRoundTrip(t *testing.T) {
	t.Parallel()
	six := first(alice)
	six.Subnet = subnet6
	placed := granted(t, alice, bob, 2)
	placed.Proxy = somewhere()
	for name, l := range map[string]Lease{"claim": first(alice), "IPv6": six, "transfer": placed,
		"takeover": taken(t), "slow takeover": inherited(t)} {
		by := alice
		if l.Owner == bob.id {
			by = bob
		}
		sealed := seal(t, l, by)
		got, err := OpenLease(sealed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, l) {
			t.Errorf("%s: got %+v, want %+v", name, got, l)
		}
		t.Logf("%s: %d bytes", name, len(sealed))
	}
}

func TestTimesAreMilliseconds(t *testing.T) {
	t.Parallel()
	l := first(alice)
	l.Issued = l.Issued.Add(1234567 * time.Nanosecond)
	got, err := OpenLease(seal(t, l, alice))
	if err != nil || !got.Issued.Equal(noon.Add(time.Millisecond)) {
		t.Errorf("got %v, %v", got.Issued, err)
	}
	l.Expires = l.Issued.Add(time.Microsecond)
	if _, err := SealLease(l, alice.key); !errors.Is(err, ErrTimes) {
		t.Errorf("a lease of less than a millisecond: %v", err)
	}
}

func TestOpenLeaseRefuses(t *testing.T) {
	t.Parallel()
	claim := func(edit func(*draft)) []byte {
		b := bodyOf(first(alice))
		edit(&b)
		return forge(t, b, alice)
	}
	transfer := func(edit func(*draft)) []byte {
		b := bodyOf(granted(t, alice, bob, 2))
		edit(&b)
		return forge(t, b, bob)
	}
	prefix := func(s string) []byte {
		return claim(func(b *draft) { b.Subnet = netip.MustParsePrefix(s) })
	}
	proxy := func(edit func(*coords.Proxy)) []byte {
		return claim(func(b *draft) { b.Proxy = somewhere(); edit(b.Proxy) })
	}
	otherKind := func(k record.Kind) []byte {
		envelope, err := k.Seal(bodyOf(first(alice)).leaseBody, alice.key)
		if err != nil {
			t.Fatal(err)
		}
		return outer(t, sealedLease{Envelope: envelope})
	}
	what, err := leaseKind.Seal("what?", alice.key)
	if err != nil {
		t.Fatal(err)
	}
	otherBody := outer(t, sealedLease{Envelope: what})
	good := seal(t, first(alice), alice)
	broken := append([]byte(nil), good...)
	broken[len(broken)-1] ^= 1
	later := granted(t, alice, bob, 2)
	later.Issued, later.Expires = noon.Add(-time.Hour), noon.Add(-time.Minute)

	parts := func(sealed []byte) sealedLease {
		s, err := split(sealed)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	proven, unproven := parts(transfer(func(*draft) {})), parts(transfer(func(b *draft) {
		b.Grant = nil
	}))

	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"nothing":   {nil, record.ErrBody},
		"noise":     {[]byte("\x0a\x02hello"), record.ErrBody},
		"too large": {make([]byte, MaxSealed+1), record.ErrTooLarge},
		"envelope too large": {outer(t, sealedLease{Envelope: make([]byte, leaseKind.Max+1)}),
			record.ErrTooLarge},
		"broken signature": {broken, record.ErrEnvelope},
		"cut short":        {good[:len(good)-9], record.ErrBody},
		"other domain": {otherKind(record.Kind{Domain: "x", Codec: leaseKind.Codec,
			Max: 4096}), record.ErrEnvelope},
		"other codec": {otherKind(record.Kind{Domain: leaseKind.Domain,
			Codec: "/peerd/lease/9", Max: 4096}), record.ErrEnvelope},
		"a grant":               {grant(t, alice, bob, 2), record.ErrBody},
		"other body":            {otherBody, record.ErrBody},
		"signed by another":     {forge(t, bodyOf(first(alice)), bob), ErrSigner},
		"no subnet":             {claim(func(b *draft) { b.Subnet = netip.Prefix{} }), ErrSubnet},
		"/23":                   {prefix("203.0.112.0/23"), ErrSubnet},
		"/32":                   {prefix("203.0.113.0/32"), ErrSubnet},
		"host bits":             {prefix("203.0.113.7/24"), ErrSubnet},
		"IPv6 /24":              {prefix("2001::/24"), ErrSubnet},
		"IPv6 host bits":        {prefix("2001:db8::1/48"), ErrSubnet},
		"IPv4 in IPv6":          {prefix("::ffff:203.0.113.0/120"), ErrSubnet},
		"epoch 0":               {claim(func(b *draft) { b.Epoch = 0 }), ErrEpoch},
		"epoch too high":        {claim(func(b *draft) { b.Epoch = MaxEpoch + 1 }), ErrEpoch},
		"issued before 1970":    {claim(func(b *draft) { b.Issued = -1 }), ErrTimes},
		"issued in the far":     {claim(func(b *draft) { b.Issued = math.MaxInt64 }), ErrTimes},
		"ends before it begins": {claim(func(b *draft) { b.Expires = b.Issued - 1 }), ErrTimes},
		"ends as it begins":     {claim(func(b *draft) { b.Expires = b.Issued }), ErrTimes},
		"lasts too long": {claim(func(b *draft) {
			b.Expires = b.Issued + MaxTTL.Milliseconds() + 1
		}), ErrTimes},
		"ends in the far": {claim(func(b *draft) { b.Expires = math.MaxInt64 }), ErrTimes},
		"ends before all": {claim(func(b *draft) { b.Expires = math.MinInt64 }), ErrTimes},
		"proxy at NaN": {proxy(func(p *coords.Proxy) {
			p.At.Vec[1] = math.NaN()
		}), ErrProxy},
		"proxy at infinity": {proxy(func(p *coords.Proxy) {
			p.At.Height = math.Inf(1)
		}), ErrProxy},
		"proxy delay": {proxy(func(p *coords.Proxy) { p.Delay = -1 }), ErrProxy},
		"proxy scale": {proxy(func(p *coords.Proxy) {
			p.Scale = math.NaN()
		}), ErrProxy},
		"proxy samples": {proxy(func(p *coords.Proxy) { p.Samples = -1 }), ErrProxy},
		"proxy of 17 dimensions": {proxy(func(p *coords.Proxy) {
			p.At.Vec = make([]float64, maxDims+1)
		}), ErrProxy},
		"proxy of 200 dimensions": {proxy(func(p *coords.Proxy) {
			p.At.Vec = make([]float64, 200)
		}), record.ErrBody},
		"grant at epoch 1": {claim(func(b *draft) {
			b.Grant = grant(t, bob, alice, 2)
		}), ErrEvidence},
		"no grant at epoch 2": {transfer(func(b *draft) { b.Grant = nil }), ErrEvidence},
		"noise for a grant": {transfer(func(b *draft) {
			b.Grant = []byte{1, 2, 3}
		}), ErrGrant},
		"a lease for a grant": {transfer(func(b *draft) { b.Grant = good }), ErrGrant},
		"grant to another": {transfer(func(b *draft) {
			b.Grant = grant(t, alice, carol, 2)
		}), ErrGrant},
		"grant for another epoch": {transfer(func(b *draft) { b.Epoch = 3 }), ErrChain},
		"grant of another subnet": {transfer(func(b *draft) { b.Subnet = subnet6 }), ErrChain},
		"both kinds": {transfer(func(b *draft) {
			b.Takeover = taken(t).Takeover
		}), ErrEvidence},
		"another's digest": {transfer(func(b *draft) {
			b.Evidence = make([]byte, 32)
		}), ErrEvidence},
		"evidence not signed": {outer(t, sealedLease{Envelope: unproven.Envelope,
			Evidence: proven.Evidence, Links: proven.Links}), ErrEvidence},
		"evidence cut off": {outer(t, sealedLease{Envelope: proven.Envelope,
			Links: proven.Links}), ErrEvidence},
		"grant after the lease": {forge(t, bodyOf(later), bob), ErrGrant},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := OpenLease(c.sealed); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// outer encodes the outer form of a lease.
func outer(t testing.TB, s sealedLease) []byte {
	t.Helper()
	b, err := record.Encode(s, MaxSealed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOpenGrantRefuses(t *testing.T) {
	t.Parallel()
	forged := func(by someone, edit func(*grantBody)) []byte {
		b := grantBody{subnet4, alice.id, bob.id, 2, make([]byte, 32), noon.UnixMilli()}
		edit(&b)
		sealed, err := grantKind.Kind.Seal(b, by.key)
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	if _, err := OpenGrant(forged(alice, func(*grantBody) {})); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"nothing":             {nil, record.ErrEnvelope},
		"a lease":             {seal(t, first(alice), alice), record.ErrEnvelope},
		"too large":           {make([]byte, grantKind.Max+1), record.ErrTooLarge},
		"signed by successor": {forged(bob, func(*grantBody) {}), ErrSigner},
		"to no peer":          {forged(alice, func(b *grantBody) { b.To = "" }), record.ErrBody},
		"subnet": {forged(alice, func(b *grantBody) {
			b.Subnet = netip.MustParsePrefix("10.0.0.0/8")
		}), ErrSubnet},
		"epoch 1": {forged(alice, func(b *grantBody) { b.Epoch = 1 }), ErrEpoch},
		"epoch 0": {forged(alice, func(b *grantBody) { b.Epoch = 0 }), ErrEpoch},
		"epoch too high": {forged(alice, func(b *grantBody) {
			b.Epoch = math.MaxUint64
		}), ErrEpoch},
		"issued at 0": {forged(alice, func(b *grantBody) { b.Issued = 0 }), ErrTimes},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := OpenGrant(c.sealed); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestSealRefuses(t *testing.T) {
	t.Parallel()
	if _, err := SealLease(first(alice), bob.key); !errors.Is(err, ErrSigner) {
		t.Errorf("lease with another's key: %v", err)
	}
	if _, err := SealLease(Lease{}, bob.key); !errors.Is(err, ErrSubnet) {
		t.Errorf("zero lease: %v", err)
	}
	g := Grant{Subnet: subnet4, From: alice.id, To: bob.id, Epoch: 2, Issued: noon}
	if _, err := SealGrant(g, bob.key); !errors.Is(err, ErrSigner) {
		t.Errorf("grant with another's key: %v", err)
	}
	g.To = ""
	if _, err := SealGrant(g, alice.key); !errors.Is(err, ErrGrant) {
		t.Errorf("grant to no peer: %v", err)
	}
}
