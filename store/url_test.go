package store

import (
	"net/netip"
	"testing"
	"time"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

func TestURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url          URL
		host, origin string
	}{
		{"http://a.example/", "a.example", "http://a.example"},
		{"https://a.example:8443/x?y=http://b.example/", "a.example", "https://a.example:8443"},
		{"http://a.example?q", "a.example", "http://a.example"},
		{"http://a.example", "a.example", "http://a.example"},
		{"http://127.0.0.1:80/", "127.0.0.1", "http://127.0.0.1:80"},
		{"http://[2001:db8::1]/", "2001:db8::1", "http://[2001:db8::1]"},
		{"http://[2001:db8::1]:8080/p", "2001:db8::1", "http://[2001:db8::1]:8080"},
		{"http://[2001:db8::1", "", "http://[2001:db8::1"},
		{"mailto:x", "", ""},
		{"", "", ""},
	} {
		if got := c.url.Host(); got != c.host {
			t.Errorf("URL(%q).Host() = %q, want %q", string(c.url), got, c.host)
		}
		if got := c.url.Origin(); got != c.origin {
			t.Errorf("URL(%q).Origin() = %q, want %q", string(c.url), got, c.origin)
		}
		if c.url.String() != string(c.url) {
			t.Errorf("URL(%q).String() = %q, want the same", string(c.url), c.url.String())
		}
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	if URL("http://a.example/").Digest() == URL("http://a.example/x").Digest() {
		t.Error("two URLs have the same digest, want different ones")
	}
	// SHA-256 of the empty string, from the examples of FIPS 180-4.
	want := Digest{0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99,
		0x6f, 0xb9, 0x24}
	if got := URL("").Digest(); got != want {
		t.Errorf("Digest() = %x, want %x", got, want)
	}
}

func TestSubnetOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.77": "192.0.2.0/24", "::ffff:192.0.2.77": "192.0.2.0/24",
		"2001:db8:1:2::3": "2001:db8:1::/48", "fe80::1%eth0": "fe80::/48",
	} {
		if got := SubnetOf(addr(in)); got != prefix(want) {
			t.Errorf("SubnetOf(%s) = %s, want %s", in, got, want)
		}
	}
	if got := SubnetOf(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("SubnetOf(zero) = %s, want the zero prefix", got)
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for o := range outcomeCount {
		if o.String() == "" || names[o.String()] {
			t.Errorf("Outcome(%d).String() = %q, want a name of its own", o, o)
		}
		names[o.String()] = true
	}
	if outcomeCount.String() != "unknown" {
		t.Errorf("Outcome(%d).String() = %q, want unknown", outcomeCount, outcomeCount)
	}
}

func TestTiming(t *testing.T) {
	t.Parallel()
	got := Timing{DNS: 100 * time.Second, Connect: 1, TLS: 2, FirstByte: 4, Body: 8}.Total()
	if got != 15 {
		t.Errorf("Total() = %d, want 15", got)
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	for p, want := range map[Phase]string{
		PhaseNone: "none", PhaseDeciding: "estimating", PhaseOwned: "owned",
		PhaseCommitting: "leaving", PhaseStaged: "staged", PhaseReplica: "replica", 99: "none",
	} {
		if p.String() != want {
			t.Errorf("Phase(%d).String() = %q, want %q", p, p, want)
		}
	}
}

// Only what Robots and RobotsOf find is an origin of a host.
func TestIsOriginOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		origin URL
		host   string
		want   bool
	}{
		{"http://a.test", "a.test", true},
		{"https://a.test:8443", "a.test", true},
		{"https://[2001:db8::1]", "2001:db8::1", true},
		{"http://[2001:db8::1]:81", "2001:db8::1", true},
		{"http://a.test", "b.test", false},
		{"http://a.test/", "a.test", false},
		{"http://a.test:", "a.test", false},
		{"http://a.test:80x", "a.test", false},
		{"http://a.test:65536", "a.test", false},
		{"http://a.test:000080", "a.test", false},
		{"http://", "", false},
		{"http://[a.test]", "a.test", false},
		{"http://[a.test]x:80", "a.test", false},
		{"ftp://a.test", "a.test", false},
		{"xhttp://a.test", "a.test", false},
		{"http://a.test.example", "a.test", false},
		{"a.test", "a.test", false},
		{"", "", false},
	} {
		if got := c.origin.IsOriginOf(c.host); got != c.want {
			t.Errorf("%q is an origin of %q: %v", c.origin, c.host, got)
		}
	}
}
