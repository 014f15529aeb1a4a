package similar

import (
	"crypto/sha256"

	"peerd/store"
)

// Digest returns the first 16 bytes of the SHA-256 of a body, as store.URL.Digest does for
// a URL. Pages with equal digests are copies.
func Digest(body []byte) store.Digest {
	sum := sha256.Sum256(body)
	return store.Digest(sum[:16])
}
