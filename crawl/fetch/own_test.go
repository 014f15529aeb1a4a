package fetch

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// cidrs are addresses of interfaces.
func cidrs(texts ...string) (all []net.Addr) {
	for _, s := range texts {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			panic(err)
		}
		all = append(all, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	return all
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, s := range texts {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

func TestGuardRefusesOwnNetworks(t *testing.T) {
	o := NewOwnNetworks(func() []netip.Addr {
		return addrs("198.20.3.1", "2a03:1:2:3::9", "fe80::1%eth0", "::ffff:198.20.4.1")
	})
	o.interfaces = func() ([]net.Addr, error) {
		return cidrs("2a02:1:2:3:4:5:6:7/64", "5.6.7.8/24", "7.1.2.3/32", "9.1.2.3/8",
			"2a04:1:2:3::1/128", "2a05:1:2:3::1/32", "127.0.0.1/8"), nil
	}
	g := NewGuard(prefixes("5.6.7.128/25"))
	g.Refuse(o)
	g.RefuseNAT64(NAT64Prefixes(addrs("2a06:1:2:3:4:5:c000:aa", "192.0.0.170")))
	for text, ok := range map[string]bool{
		"2a02:1:2:3::1": false, "2a02:1:2:4::1": true,
		"5.6.7.1": false, "::ffff:5.6.7.1": false, "5.6.7.200": true, "5.6.8.1": true, // allowed
		"7.1.2.3": false, "7.1.2.4": true,
		"9.1.2.3": false, "9.1.2.4": true, // a tunnel
		"2a04:1:2:3::1": false, "2a04:1:2:4::1": true,
		"2a05:1:2:3::5": false, "2a05:1:2:4::5": true,
		"198.20.3.1": false, "198.20.3.2": true, "198.20.4.1": false,
		"2a03:1:2:3::1": false, "2a03:1:2:4::1": true,
		"2a06:1:2:3:4:5:0a00:1": false, "2a06:1:2:3:4:6:0a00:1": true,
		"2a07::5efe:a00:1": false, "2a07::200:5efe:a00:1": false, "2a07::5eff:a00:1": true,
	} {
		if err := g.Check(netip.MustParseAddr(text)); ok != (err == nil) || err != nil &&
			!errors.Is(err, ErrForbiddenAddr) {
			t.Errorf("Check(%s) = %v, want ok=%v", text, err, ok)
		}
	}
}

// A change of the interfaces is noticed, and an error changes nothing.
func TestOwnNetworksChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOwnNetworks(nil)
		have, failure := cidrs("5.6.7.8/24"), error(nil)
		o.interfaces = func() ([]net.Addr, error) { return have, failure }
		g := NewGuard(nil)
		g.Refuse(o)
		old, now := netip.MustParseAddr("5.6.7.1"), netip.MustParseAddr("6.7.8.1")
		if g.Check(old) == nil || g.Check(now) != nil {
			t.Error("the network of the interface may be dialled")
		}
		have = cidrs("6.7.8.8/24")
		time.Sleep(ownLifetime)
		if g.Check(old) != nil || g.Check(now) == nil {
			t.Error("the change of the interface was not noticed")
		}
		have, failure = nil, errors.New("no permission")
		time.Sleep(ownLifetime)
		if g.Check(now) == nil {
			t.Error("an error made the guard forget")
		}
	})
}

func TestNAT64Prefixes(t *testing.T) {
	for addr, want := range map[string]string{ // RFC 6052, section 2.2
		"64:ff9b::192.0.0.170":        "64:ff9b::/96",
		"2a00:1::c000:00aa":           "2a00:1::/96",
		"2a00:1:c000:aa::":            "2a00:1::/32",
		"2a00:1:1c0:0:aa::":           "2a00:1:100::/40",
		"2a00:1:122:c000:0:aa00::":    "2a00:1:122::/48",
		"2a00:1:122:3c0:0:aa::":       "2a00:1:122:300::/56",
		"2a00:1:122:344:c0:0:aa00::":  "2a00:1:122:344::/64",
		"2a00:1:122:344::192.0.0.171": "2a00:1:122:344::/96",
		"2a00:1:122:344::192.0.0.172": "",
		"192.0.0.170":                 "",
		"::ffff:192.0.0.170":          "",
	} {
		got := NAT64Prefixes(addrs(addr))
		if want == "" && len(got) > 0 || want != "" && !slices.Equal(got, prefixes(want)) {
			t.Errorf("NAT64Prefixes(%s) = %v, want %s", addr, got, want)
		}
	}
}
