package canon

import (
	"net/netip"
	neturl "net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/store"
)

// failer is the part of testing.TB that testing.T and rapid.T both implement.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkCanonical verifies what users of a store.URL rely on.
func checkCanonical(t failer, u store.URL) {
	t.Helper()
	s := string(u)
	if len(s) > MaxLength {
		t.Fatalf("%q has %d bytes, want at most %d", s, len(s), MaxLength)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' {
			t.Fatalf("%q contains the byte %#x", s, s[i])
		}
	}
	if again, err := parse(s); err != nil || again != u {
		t.Fatalf("parse(%q) = %q, %v, want it unchanged", s, again, err)
	}
	p, err := neturl.Parse(s)
	if err != nil || p.Host == "" || p.User != nil || !strings.HasPrefix(p.EscapedPath(), "/") {
		t.Fatalf("net/url parses %q as %+v, %v", s, p, err)
	}
	if p.Hostname() != u.Host() || p.Scheme+"://"+p.Host != u.Origin() {
		t.Fatalf("%q has host %q and origin %q, want those of net/url", s, u.Host(), u.Origin())
	}
	if _, err := netip.ParseAddr(u.Host()); err != nil && !isDNSName(u.Host()) {
		t.Fatalf("%q has host %q, want an address or a DNS name", s, u.Host())
	}
}

// same fails if the fast path and the parser have different results.
func same(t failer, what string, fast, slow store.URL, ferr, serr error) {
	t.Helper()
	if fast != slow || (ferr == nil) != (serr == nil) {
		t.Fatalf("%s: fast path %q, %v; parser %q, %v", what, fast, ferr, slow, serr)
	}
}

// pieces are parts of URLs. Combinations of them cover cases that random text does not.
var pieces = []string{
	"a", "b.html", "z", "A", "0", "9", ".", "..", "/", "//", "?", "&", "=", "#", ":", ";", "@", "%",
	"%2", "%2e", "%2E", "%2F", "%2f", "%7e", "%7E", "%C3%BC", "%25", "ü", " ", "\t", "\\", "'",
	"\"", "|", "^", "[", "]", "{", "~", "-", "_", "+", "*", "$", "!", "(", ",", "\x00", "\x7f",
	"\xff", "http:", "https:", "http://", "xn--", "example.org", "1.2.3.4", "0x7f", "08", "./",
	"../",
}

func text(label string, t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 10).Draw(t, label), "")
}

func rawURL(label string, t *rapid.T) string {
	scheme := rapid.SampledFrom([]string{
		"http://", "https://", "HTTP://", "http:", "ftp://", "",
	}).Draw(t, label+" scheme")
	host := rapid.SampledFrom([]string{
		"example.org", "a.b-c.example", "x_y.example", "1.2.3.4", "1.2.3", "01.2.3.4", "1.2.3.4.5",
		"a.1", "a.0x1", "a.b.", "a..b", "-a.example", "a-.example", "aa--b.example",
		"xn--bcher-kva.example", "xn--zz.example", "[::1]", "UP.example", "a", "",
	}).Draw(t, label+" host")
	port := rapid.SampledFrom([]string{
		"", ":80", ":443", ":8080", ":080", ":0", ":65535", ":65536", ":", ":x",
	}).Draw(t, label+" port")
	if rapid.Bool().Draw(t, label+" slash") {
		port += "/"
	}
	return scheme + host + port + text(label+" rest", t)
}

func TestParseProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rawURL("raw", t)
		fast, ferr := Parse(raw)
		slow, serr := parse(raw)
		same(t, raw, fast, slow, ferr, serr)
		if ferr == nil {
			checkCanonical(t, fast)
		}
	})
}

func TestJoinProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, err := Parse(rawURL("base", t))
		if err != nil {
			return
		}
		ref := rapid.OneOf(rapid.Custom(func(t *rapid.T) string { return text("rel", t) }),
			rapid.Custom(func(t *rapid.T) string { return rawURL("abs", t) })).Draw(t, "ref")
		fast, ferr := Join(base, ref)
		slow, serr := BaseOf(base).join(ref)
		same(t, string(base)+" + "+ref, fast, slow, ferr, serr)
		if ferr == nil {
			checkCanonical(t, fast)
		}
	})
}
