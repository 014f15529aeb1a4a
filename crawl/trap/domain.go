package trap

import (
	"strings"

	"peerd/crawl/canon"
)

// Domain is what a peer remembers about a registered domain when it finds hosts below it.
// The zero Domain has no hosts; all values are valid. It is not safe for concurrent use.
type Domain struct {
	Hosts     uint32 // admitted hosts
	Generated uint32 // those with generated names
	Dropped   uint64
}

// maxLabels is the number of labels below a registered domain from which a name counts as
// generated.
const maxLabels = 8

// AdmitHost decides about a host that was never seen before and is about to get its first
// URL; d is the record of its registered domain. It returns Subdomains if the host and all
// its URLs should be dropped, and None if the host was counted. The registered domain
// itself is always admitted.
func (g *Guard) AdmitHost(d *Domain, host string) Heuristic {
	if !g.cfg.On.Has(Subdomains) {
		return None
	}
	below, ok := strings.CutSuffix(host, "."+canon.RegisteredDomain(host))
	if !ok {
		return None
	}
	generated := strings.Count(below, ".") >= maxLabels
	for label := range strings.SplitSeq(below, ".") {
		generated = generated || looksGenerated(label)
	}
	if generated && uint64(d.Generated) >= uint64(g.cfg.MaxGenerated) ||
		uint64(d.Hosts) >= uint64(g.cfg.MaxHosts) {
		d.Dropped++
		return Subdomains
	}
	d.Hosts++
	if generated {
		d.Generated++
	}
	return None
}

// looksGenerated reports whether a label is unlikely to be chosen by a person: four or more
// digits, alternating letters and digits, or unpronounceable letters.
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
	if strings.HasPrefix(label, "xn--") { // Punycode: digits and consonants have no meaning
		return false
	}
	return digits >= 4 || changes >= 4 || longest >= 7 || letters >= 8 && 6*vowels < letters
}
