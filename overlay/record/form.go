package record

import (
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

// Signed is a record of which B is what is encoded.
type Signed[B any] interface {
	// Body returns what is encoded, and the peer that signs it.
	Body() (B, peer.ID)
	// Check reports whether the record could be valid at any time.
	Check() error
}

// Body is what is encoded of a record R.
type Body[R any] interface {
	// Record is the inverse of Signed.Body.
	Record(signer peer.ID) (R, error)
}

// Form seals and opens records R.
type Form[R Signed[B], B Body[R]] struct{ Kind }

// Seal checks r and signs it with the key of its signer. It fails with the error of Check,
// ErrSigner or ErrTooLarge.
func (f Form[R, B]) Seal(r R, key crypto.PrivKey) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	b, by := r.Body()
	if !by.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, by)
	}
	return f.Kind.Seal(b, key)
}

// Open returns the record in sealed if its signer signed it and it is well formed. It uses no
// clock. It fails like Kind.Open, and with ErrSigner and the error of Check.
func (f Form[R, B]) Open(sealed []byte) (R, error) {
	var b B
	var none R
	signer, err := f.Kind.Open(sealed, &b)
	if err != nil {
		return none, err
	}
	r, err := b.Record(signer)
	if err != nil {
		return none, err
	}
	if _, by := r.Body(); by != signer {
		return none, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, by)
	}
	if err := r.Check(); err != nil {
		return none, err
	}
	return r, nil
}
