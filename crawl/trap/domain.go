package trap

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Domain is what is remembered of one registered domain by a peer that meets
// hosts below it. The zero Domain is one never seen; any values are sound. One
// goroutine at a time.
type Domain struct {
	Hosts     uint32 `cbor:"1,keyasint,omitempty"` // admitted
	Generated uint32 `cbor:"2,keyasint,omitempty"` // of them, with names that look generated
	Dropped   uint64 `cbor:"3,keyasint,omitempty"`
	// Wildcard is set by the caller who found that a made-up name below the
	// domain resolves (RFC 4592).
	Wildcard bool `cbor:"4,keyasint,omitempty"`
}

// maxLabels is the number of labels below a registered domain from which a name
// looks generated whatever they are.
const maxLabels = 8

// AdmitHost decides on a host that was never met before and is about to get its
// first URL; d is the record of its RegisteredDomain. It returns Subdomains if
// the host and all its URLs should be dropped, and None if it was counted. The
// registered domain itself always passes.
func (g *Guard) AdmitHost(d *Domain, host string) Heuristic {
	if !g.cfg.On.Has(Subdomains) {
		return None
	}
	below, ok := strings.CutSuffix(host, "."+RegisteredDomain(host))
	if !ok {
		return None
	}
	limit := g.cfg.MaxGenerated
	if d.Wildcard {
		limit = min(limit, g.cfg.MaxWildcard)
	}
	generated := strings.Count(below, ".") >= maxLabels
	for label := range strings.SplitSeq(below, ".") {
		generated = generated || looksGenerated(label)
	}
	if generated && uint64(d.Generated) >= uint64(limit) || uint64(d.Hosts) >= uint64(g.cfg.MaxHosts) {
		d.Dropped++
		return Subdomains
	}
	d.Hosts++
	if generated {
		d.Generated++
	}
	return None
}

// RegisteredDomain returns the part of host that somebody registered: one label
// more than its public suffix (publicsuffix.org, with the private section, so
// that the customers of a blog service are told apart). An IP address, or a
// public suffix, is returned as it is. About a microsecond.
func RegisteredDomain(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return host
	}
	return domain
}

// looksGenerated says whether a label is hardly one that a person chose: four
// digits or more, letters and digits by turns, or letters that nobody can say.
func looksGenerated(label string) bool {
	digits, changes, row, longest, letters, vowels := 0, 0, 0, 0, 0, 0
	for i := range len(label) {
		c := label[i]
		if i > 0 && classes[c]&classDigit != classes[label[i-1]]&classDigit {
			changes++
		}
		switch {
		case classes[c] == classDigit:
			digits++
			row = 0
		case strings.IndexByte("aeiouy", c) >= 0:
			letters++
			vowels++
			row = 0
		case classes[c] != classOther:
			letters++
			row++
			longest = max(longest, row)
		default:
			row = 0
		}
	}
	if strings.HasPrefix(label, "xn--") { // an encoding: digits and consonants mean nothing
		return false
	}
	return digits >= 4 || changes >= 4 || longest >= 7 || letters >= 8 && 6*vowels < letters
}
