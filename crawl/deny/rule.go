package deny

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"peerd/crawl/canon"
)

// ErrRule means that a text is no rule.
var ErrRule = errors.New("no host, .domain or range of addresses")

// Rule denies a host, a domain with all hosts below it, or a network. It is comparable.
type Rule struct {
	host    string // in the form of store.URL.Host; "" if it is a network
	domain  bool   // hosts below it as well
	network netip.Prefix
}

// Parse parses a rule: a host (example.org), a domain (.example.org, which denies example.org and
// all hosts below it), an address or a range of addresses (192.0.2.0/24). The error
// matches ErrRule.
func Parse(text string) (Rule, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return Rule{network: unmap(p)}, nil
	}
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && a.Zone() == "" {
		return single(a), nil
	}
	name, domain := strings.CutPrefix(text, ".")
	if name == "" || strings.ContainsAny(name, ":/\\?#@[]* \t\r\n") {
		return Rule{}, fmt.Errorf("%q is %w", text, ErrRule)
	}
	u, err := canon.Parse("http://" + name + "/")
	if err != nil {
		return Rule{}, fmt.Errorf("%q is %w", text, ErrRule)
	}
	if a, err := netip.ParseAddr(u.Host()); err == nil { // an unusual form of an address
		return single(a), nil
	}
	return Rule{host: u.Host(), domain: domain}, nil
}

// single returns the rule for an address.
func single(a netip.Addr) Rule {
	a = a.Unmap()
	return Rule{network: netip.PrefixFrom(a, a.BitLen())}
}

// unmap returns the IPv4 range of an IPv4-mapped one.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// String returns the textual form that Parse accepts.
func (r Rule) String() string {
	switch {
	case r.host == "" && r.network.IsSingleIP():
		return r.network.Addr().String()
	case r.host == "":
		return r.network.String()
	case r.domain:
		return "." + r.host
	}
	return r.host
}
