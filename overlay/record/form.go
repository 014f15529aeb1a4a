package record

import (
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

// Form seals and opens records R. B is what is encoded.
type Form[R, B any] struct {
	Kind
	// Signer returns the peer that signs a record.
	Signer func(R) peer.ID
	// Body returns what is encoded of a record. Record is the inverse, given the signer.
	Body   func(R) B
	Record func(B, peer.ID) (R, error)
	// Check reports whether a record could be valid at any time.
	Check func(R) error
}

// Seal checks r and signs it with the key of its Signer. It fails with the error of Check,
// ErrSigner or ErrTooLarge.
func (f Form[R, B]) Seal(r R, key crypto.PrivKey) ([]byte, error) {
	if err := f.Check(r); err != nil {
		return nil, err
	}
	if by := f.Signer(r); !by.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, by)
	}
	return f.Kind.Seal(f.Body(r), key)
}

// Open returns the record in sealed if its Signer signed it and it is well formed. It uses no
// clock. It fails like Kind.Open, and with ErrSigner and the error of Check.
func (f Form[R, B]) Open(sealed []byte) (R, error) {
	var b B
	var none R
	signer, err := f.Kind.Open(sealed, &b)
	if err != nil {
		return none, err
	}
	r, err := f.Record(b, signer)
	if err != nil {
		return none, err
	}
	if by := f.Signer(r); by != signer {
		return none, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, by)
	}
	if err := f.Check(r); err != nil {
		return none, err
	}
	return r, nil
}
