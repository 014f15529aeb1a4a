//go:build !wasip1

package record

import "golang.org/x/crypto/blake2b"

// Digest returns the digest of a page in summaries: BLAKE2b with 256 bits (RFC 7693).
func Digest(body []byte) []byte {
	sum := blake2b.Sum256(body)
	return sum[:]
}
