package assign

import (
	"crypto/sha256"
	"encoding/binary"
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
