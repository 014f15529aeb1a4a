package assign

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
)

// score hashes a key and a name to 64 uniform bits. It truncates a cryptographic hash,
// because peers can choose their names.
func score(key []byte, name string, node uint32) uint64 {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(key))))
	h.Write(key)
	h.Write(binary.BigEndian.AppendUint32(nil, node))
	h.Write([]byte(name))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// key returns the subnet as bytes, the same on every peer.
func (e Evidence) key() []byte {
	a := e.Subnet.Masked().Addr().As16()
	return append(a[:], byte(e.Subnet.Bits()))
}

// byScore returns the name with the highest score for the subnet. All names get equal
// shares, and every peer computes the same result.
func (e Evidence) byScore(names []string) string {
	key, best, most := e.key(), "", uint64(0)
	for _, name := range names {
		if s := score(key, name, 0); best == "" || s > most {
			best, most = name, s
		}
	}
	return best
}

// leastOwning returns those of names that own the fewest subnets, as far as is known; all of them
// if more than maxDelegations are known, as hashing gives equal shares of many.
func (e Evidence) leastOwning(names []string) []string {
	if len(names) < 2 || e.Delegations == nil {
		return names
	}
	owned, n := make(map[string]int, len(names)), 0
	for _, all := range everywhere {
		for d := range e.Delegations.Within(all) {
			if n++; n > maxDelegations {
				return names
			}
			owned[d.Owner]++
		}
	}
	fewest := owned[slices.MinFunc(names, func(a, b string) int { return owned[a] - owned[b] })]
	return slices.DeleteFunc(names, func(n string) bool { return owned[n] > fewest })
}

// everywhere are the prefixes that contain all addresses.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
