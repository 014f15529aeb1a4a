package fetch

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"peerd/store"
)

// last returns the highest address of p.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestGuardRefusesSpecialRanges(t *testing.T) {
	g := NewGuard(nil)
	for _, p := range specialPrefixes {
		if p != p.Masked() {
			t.Errorf("%v has bits beyond its length", p)
		}
		for _, a := range []netip.Addr{p.Addr(), last(p)} {
			if err := g.Check(a); !errors.Is(err, ErrForbiddenAddr) {
				t.Errorf("Check(%v) of %v = %v", a, p, err)
			}
			if !a.Is4() {
				continue
			}
			mapped := netip.AddrFrom16(a.As16())
			if err := g.Check(mapped); !errors.Is(err, ErrForbiddenAddr) {
				t.Errorf("Check(%v) = %v", mapped, err)
			}
		}
	}
}

func TestGuardTable(t *testing.T) {
	allowing := func(ps ...string) *Guard { return NewGuard(prefixes(ps...)) }
	none := allowing()
	tests := []struct {
		g    *Guard
		addr string
		ok   bool
	}{
		// Neighbours of forbidden ranges are public.
		{none, "1.0.0.0", true},
		{none, "9.255.255.255", true},
		{none, "11.0.0.0", true},
		{none, "100.63.255.255", true},
		{none, "100.128.0.0", true},
		{none, "126.255.255.255", true},
		{none, "128.0.0.0", true},
		{none, "169.253.255.255", true},
		{none, "172.15.255.255", true},
		{none, "172.32.0.0", true},
		{none, "192.0.1.0", true},
		{none, "192.0.3.0", true},
		{none, "192.167.255.255", true},
		{none, "198.17.255.255", true},
		{none, "198.20.0.0", true},
		{none, "223.255.255.255", true},
		{none, "168.63.129.15", true},
		{none, "::ffff:93.184.215.14", true},
		{none, "2001:200::1", true},
		{none, "2606:4700::6810:84e5", true},
		{none, "2a00:1450:4001::1", true},
		// Machines near us, in every disguise.
		{none, "127.0.0.1", false},
		{none, "::ffff:127.0.0.1", false},
		{none, "64:ff9b::7f00:1", false},
		{none, "2002:7f00:1::", false},
		{none, "::127.0.0.1", false},
		{none, "169.254.169.254", false},
		{none, "fd00:ec2::254", false},
		{none, "100.100.100.200", false},
		{none, "192.0.0.192", false},
		{none, "168.63.129.16", false},
		{none, "fe80::1%eth0", false},
		{none, "2a00:1450:4001::1%eth0", false},
		// What IPv6 does not hand out.
		{none, "1::1", false},
		{none, "4000::1", false},
		{none, "e000::1", false},
		// Allowed by the operator, and no more than that.
		{allowing("127.1.0.0/16"), "127.1.2.3", true},
		{allowing("127.1.0.0/16"), "::ffff:127.1.2.3", true},
		{allowing("127.1.0.0/16"), "127.2.0.1", false},
		{allowing("::ffff:127.1.0.0/112"), "127.1.2.3", true},
		{allowing("::ffff:127.1.0.0/112"), "127.2.0.1", false},
		{allowing("fd00::/8"), "fd00::1", true},
		{allowing("fd00::/8"), "fc00::1", false},
		{allowing("fe80::/10"), "fe80::1%eth0", true},
		{allowing("0.0.0.0/0"), "10.0.0.1", true},
		{allowing("0.0.0.0/0"), "fd00::1", false},
	}
	for _, tt := range tests {
		if err := tt.g.Check(netip.MustParseAddr(tt.addr)); (err == nil) != tt.ok {
			t.Errorf("%v: Check(%s) = %v, want ok=%v", tt.g.allow, tt.addr, err, tt.ok)
		}
	}
	if err := none.Check(netip.Addr{}); !errors.Is(err, ErrForbiddenAddr) {
		t.Errorf("no address: %v", err)
	}
	if g := NewGuard([]netip.Prefix{{}}); len(g.allow) != 0 {
		t.Errorf("kept an invalid prefix: %v", g.allow)
	}
}

// TestGuardMapped verifies that both forms of an IPv4 address are treated alike.
func TestGuardMapped(t *testing.T) {
	g := NewGuard(prefixes("10.1.0.0/16"))
	rapid.Check(t, func(t *rapid.T) {
		a := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "addr")))
		plain, mapped := g.Check(a), g.Check(netip.AddrFrom16(a.As16()))
		if (plain == nil) != (mapped == nil) {
			t.Fatalf("%v: %v, mapped: %v", a, plain, mapped)
		}
	})
}

func TestDoAsksGuardFirst(t *testing.T) {
	f := newFetcher(t, func(c *Config) {
		c.Guard = nil
		c.Dial = func(context.Context, string, string) (net.Conn, error) {
			t.Error("dialled, want no connection")
			return nil, errors.New("dialled")
		}
	})
	for _, a := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.1"),
		netip.MustParseAddr("::ffff:10.0.0.1")} {
		res := f.Do(context.Background(), Request{URL: "http://site.example/", Addr: a})
		if res.Outcome != store.OutcomeRefused || !errors.Is(res.Err, ErrForbiddenAddr) {
			t.Errorf("Do(%v): outcome %v, error %v, want Refused, ErrForbiddenAddr",
				a, res.Outcome, res.Err)
		}
	}
}

// TestDoChecksAddressReached uses a dialer that connects to another address.
func TestDoChecksAddressReached(t *testing.T) {
	s := newRawSite(t, func(s *rawSite, _ net.Conn, r *bufio.Reader) { s.readRequest(r) })
	f := newFetcher(t, func(c *Config) {
		c.Guard = NewGuard(nil)
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.at.String())
		}
	})
	res := f.Do(context.Background(), Request{URL: "http://site.example/",
		Addr: netip.MustParseAddr("93.184.215.14")})
	if res.Outcome != store.OutcomeRefused || !errors.Is(res.Err, ErrForbiddenAddr) {
		t.Errorf("outcome %v, error %v, want Refused, ErrForbiddenAddr", res.Outcome, res.Err)
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests sent, want none", n)
	}
}
