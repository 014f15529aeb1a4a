package assign

import (
	"crypto/sha256"
	"encoding/binary"
)

// score hashes a key and a name to 64 even bits. It is a cryptographic hash
// cut short because names of peers are chosen by their owners.
func score(key []byte, name string, replica uint32) uint64 {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(key))))
	h.Write(key)
	h.Write(binary.BigEndian.AppendUint32(nil, replica))
	h.Write([]byte(name))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// key is the subnet as bytes, the same on every peer.
func (e Evidence) key() []byte {
	a := e.Subnet.Masked().Addr().As16()
	return append(a[:], byte(e.Subnet.Bits()))
}

// byScore returns the name with the highest score for the subnet: a share for
// everybody, and the same answer everywhere.
func (e Evidence) byScore(names []string) string {
	key, best, most := e.key(), "", uint64(0)
	for _, name := range names {
		if s := score(key, name, 0); best == "" || s > most {
			best, most = name, s
		}
	}
	return best
}
