package home

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"peerd/internal/clock"
	"peerd/overlay/overlaytest"
	"peerd/overlay/record"
)

// someone is a peer with its key.
type someone struct {
	id  peer.ID
	key crypto.PrivKey
}

// folk are the same peers in every run.
var folk = overlaytest.Identities(2, 8, func(id peer.ID, key crypto.PrivKey) someone {
	return someone{id, key}
})

var (
	alice, bob = folk[0], folk[1]

	here  = netip.MustParsePrefix("203.0.113.0/24")
	there = netip.MustParsePrefix("2001:db8:7::/48")
	noon  = time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
)

const host = "www.example.org"

func seal(t testing.TB, r Record, by someone) []byte {
	t.Helper()
	b, err := Seal(r, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wrap makes a value of what was signed.
func wrap(t testing.TB, p bundle) []byte {
	t.Helper()
	b, err := record.Encode(p, maxValue)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func at(t time.Time) clock.Clock { return clock.Of(func() time.Time { return t }) }

func TestRoundTrip(t *testing.T) {
	for _, r := range []Record{
		{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1},
		{Host: "x", Subnet: there, By: alice.id, Issued: noon, Epoch: 1},
		{Host: "203.0.113.9", Subnet: here, By: alice.id, Issued: noon, Epoch: 1},
		{Host: "2001:db8:7::1", Subnet: there, By: alice.id, Issued: noon, Epoch: 1},
		{Host: strings.Repeat("a23456789.", 25) + "org", Subnet: here, By: alice.id, Issued: noon,
			Epoch: 1},
	} {
		if got, err := Open(seal(t, r, alice)); err != nil || got != r {
			t.Errorf("%+v: got %+v, %v", r, got, err)
		}
	}
}

func TestHostNames(t *testing.T) {
	for _, c := range []struct {
		host string
		ok   bool
	}{
		{"example.org", true}, {"localhost", true}, {"a_b.example.org", true},
		{"xn--bcher-kva.example", true},
		{"1.2.3.4", true}, {"2001:db8::1", true}, {"::ffff:102:304", true}, {"1a.org", true},
		{strings.Repeat("a", 63) + ".org", true},
		{"", false}, {".", false}, {"example.org.", false}, {".org", false}, {"a..org", false},
		{"Example.org", false}, {"bücher.example", false}, {"a b.org", false}, {"a/b", false},
		{"a:80", false},
		{"[2001:db8::1]", false}, {"2001:DB8::1", false}, {"2001:db8:0::1", false},
		{"::ffff:1.2.3.4", false},
		{"fe80::1%eth0", false}, {"example.org\x00", false}, {"a%2eb", false}, {"user@host", false},
		{strings.Repeat("a", 64) + ".org", false}, {strings.Repeat("a.", 126) + "ab", false},
	} {
		if err := checkHost(c.host); (err == nil) != c.ok || err != nil &&
			!errors.Is(err, ErrHost) {
			t.Errorf("%q: %v", c.host, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	forged := func(edit func(*recordBody)) []byte {
		b := recordBody{Host: host, Subnet: here, By: alice.id, Issued: noon.UnixMilli(), Epoch: 1}
		edit(&b)
		sealed, err := statements.Kind.Seal(b, alice.key)
		if err != nil {
			t.Fatal(err)
		}
		return wrap(t, bundle{Sealed: sealed})
	}
	subnet := func(s string) []byte {
		return forged(func(b *recordBody) { b.Subnet = netip.MustParsePrefix(s) })
	}
	otherKind, err := record.Kind{Domain: statements.Domain, Codec: "/peerd/home/9",
		Max: 999}.Seal(1, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	otherBody, err := statements.Kind.Seal([]int{1}, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	otherKind, otherBody = wrap(t, bundle{Sealed: otherKind}), wrap(t, bundle{Sealed: otherBody})
	broken := bytes.Clone(forged(func(*recordBody) {}))
	broken[len(broken)-1] ^= 1
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"nothing":   {nil, record.ErrBody},
		"too large": {make([]byte, maxValue+1), record.ErrTooLarge},
		"statement too large": {wrap(t, bundle{Sealed: make([]byte, statements.Max+1)}),
			record.ErrTooLarge},
		"bytes left over": {append(forged(func(*recordBody) {}), 0), record.ErrBody},
		"epoch 0":         {forged(func(b *recordBody) { b.Epoch = 0 }), ErrEpoch},
		"epoch beyond":    {forged(func(b *recordBody) { b.Epoch = MaxEpoch + 1 }), ErrEpoch},
		"epoch 1 from":    {forged(func(b *recordBody) { b.From = there }), ErrProof},
		"epoch 1 rescue":  {forged(func(b *recordBody) { b.Rescue = true }), ErrProof},
		"epoch 2 bare": {forged(func(b *recordBody) {
			b.Epoch, b.From = 2, there
		}), ErrProof},
		"odd digest": {forged(func(b *recordBody) {
			b.Epoch, b.From, b.Proof = 2, there, []byte{1}
		}), ErrProof},
		"broken signature": {broken, record.ErrEnvelope},
		"other codec":      {otherKind, record.ErrEnvelope},
		"other body":       {otherBody, record.ErrBody},
		"no host":          {forged(func(b *recordBody) { b.Host = "" }), ErrHost},
		"host with a port": {forged(func(b *recordBody) { b.Host = "a.org:80" }), ErrHost},
		"no subnet": {forged(func(b *recordBody) {
			b.Subnet = netip.Prefix{}
		}), ErrSubnet},
		"/16":                {subnet("203.0.0.0/16"), ErrSubnet},
		"host bits":          {subnet("203.0.113.1/24"), ErrSubnet},
		"literal elsewhere":  {forged(func(b *recordBody) { b.Host = "192.0.2.1" }), ErrSubnet},
		"signed for another": {forged(func(b *recordBody) { b.By = bob.id }), ErrSigner},
		"before 1970":        {forged(func(b *recordBody) { b.Issued = math.MinInt64 }), ErrTime},
		"far future":         {forged(func(b *recordBody) { b.Issued = math.MaxInt64 }), ErrTime},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(c.sealed); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if _, err := Seal(Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1},
		bob.key); !errors.Is(err, ErrSigner) {
		t.Errorf("sealed with another's key: %v", err)
	}
	if _, err := Seal(Record{}, bob.key); !errors.Is(err, ErrHost) {
		t.Errorf("sealed nothing: %v", err)
	}
}

// records draws records of one host from so small a world that ties happen.
var records = rapid.Custom(func(t *rapid.T) Record {
	subnets := []netip.Prefix{here, there, netip.MustParsePrefix("192.0.2.0/24")}
	r := Record{
		Host:   host,
		Subnet: rapid.SampledFrom(subnets).Draw(t, "subnet"),
		By:     rapid.SampledFrom(folk[:3]).Draw(t, "by").id,
		Issued: noon.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "issued")) * time.Second),
		Epoch:  rapid.Uint64Range(1, 3).Draw(t, "epoch"),
	}
	if r.Epoch > 1 {
		r.From = rapid.SampledFrom(subnets).Draw(t, "from")
		r.Rescue = rapid.Bool().Draw(t, "rescue")
		r.Proof[0] = byte(rapid.IntRange(1, 2).Draw(t, "proof"))
	}
	return r
})

func join(a, b Record) Record {
	if Better(b, a) > 0 {
		return b
	}
	return a
}

func TestBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := records.Draw(t, "a"), records.Draw(t, "b"), records.Draw(t, "c")
		if x, y := Better(a, b), Better(b, a); x != -y || (x == 0) != (a == b) {
			t.Fatalf("no total order: %d and %d", x, y)
		}
		if Better(a, b) >= 0 && Better(b, c) >= 0 && Better(a, c) < 0 {
			t.Fatal("not transitive")
		}
		if join(a, a) != a || join(a, b) != join(b, a) || join(a, join(b, c)) != join(join(a, b),
			c) {
			t.Fatal("no join")
		}
	})
}

func TestValidator(t *testing.T) {
	r := Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1}
	sealed := seal(t, r, alice)
	for name, c := range map[string]struct {
		key  string
		now  time.Time
		want error
	}{
		"now":          {"/peerd-home/www.example.org", noon, nil},
		"years later":  {Key(host), noon.AddDate(9, 0, 0), nil},
		"clock behind": {Key(host), noon.Add(-record.Skew), nil},
		"future":       {Key(host), noon.Add(-record.Skew - time.Millisecond), ErrTime},
		"other host":   {Key("example.org"), noon, record.ErrKey},
		"other space":  {"/peerd-lease/" + host, noon, record.ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			err := (Validator{Clock: at(c.now)}).Validate(c.key, sealed)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	v := Validator{}
	if err := v.Validate(Key(host), []byte("noise")); err == nil {
		t.Error("noise is valid")
	}
	other := r
	other.Issued = noon.Add(time.Second)
	worse := seal(t, other, alice)
	for name, c := range map[string]struct {
		values [][]byte
		want   int
	}{
		"identical":     {[][]byte{sealed, sealed}, 0},
		"earlier":       {[][]byte{worse, sealed}, 1},
		"earlier first": {[][]byte{sealed, worse}, 0},
		"noise loses":   {[][]byte{nil, worse}, 1},
	} {
		if i, err := v.Select("", c.values); err != nil || i != c.want {
			t.Errorf("%s: got %d, %v", name, i, err)
		}
	}
	if _, err := v.Select("", [][]byte{nil}); err == nil {
		t.Error("selected from noise")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{})
	f.Add(seal(f, Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1}, alice))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Open(b); err == nil && r.Check() != nil {
			t.Fatalf("opened %+v, but %v", r, r.Check())
		}
	})
}

// The signature hides the body from a fuzzer: sign what it makes.
func FuzzOpenBody(f *testing.F) {
	for _, h := range []string{host, "203.0.113.9"} {
		body, err := record.Encode(recordBody{Host: h, Subnet: here, By: alice.id,
			Issued: noon.UnixMilli(), Epoch: 1}, maxValue)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sealed, err := statements.SealRaw(body, alice.key)
		if err != nil {
			return
		}
		if s, err := statements.Open(sealed); err == nil && s.Check() != nil {
			t.Fatalf("opened %+v, but %v", s, s.Check())
		}
		r, err := Open(wrap(t, bundle{Sealed: sealed}))
		if err != nil {
			return
		}
		if again, err := Open(seal(t, r, alice)); err != nil || again != r {
			t.Fatalf("%+v does not survive sealing: %+v, %v", r, again, err)
		}
	})
}
