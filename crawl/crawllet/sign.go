package crawllet

import (
	"crypto/ed25519"
	"crypto/rand"
	"time"
)

// signDomain separates signed offers from everything else that a key signs.
const signDomain = "peerd-crawllet-offer-1\x00"

// signed is a signed message.
type signed struct {
	Body      []byte `cbor:"1,keyasint"` // an Offer in canonical CBOR
	Signature []byte `cbor:"2,keyasint"` // Ed25519, of signDomain and Body
}

// sign completes o with the key, a nonce and the time, and returns its signed form.
func (o Offer) sign(key ed25519.PrivateKey, now time.Time) ([]byte, error) {
	o.Version, o.Created = Version, now.Unix()
	o.Key = key.Public().(ed25519.PublicKey)
	o.Nonce = make([]byte, 16)
	_, _ = rand.Read(o.Nonce) // it never fails
	if err := o.check(); err != nil {
		return nil, err
	}
	body, err := encMode.Marshal(o)
	if err != nil {
		return nil, err
	}
	return encMode.Marshal(signed{body, ed25519.Sign(key, append([]byte(signDomain), body...))})
}

// openOffer returns the offer in b if its signature is valid. The caller checks whom it is for,
// its time, its nonce and its key.
func openOffer(b []byte) (*Offer, error) {
	var s signed
	if len(b) > maxOffer || decMode.Unmarshal(b, &s) != nil {
		return nil, fail(BadRequest, "not a signed offer")
	}
	o := new(Offer)
	if err := decMode.Unmarshal(s.Body, o); err != nil {
		return nil, fail(BadRequest, "not an offer")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if !ed25519.Verify(o.Key, append([]byte(signDomain), s.Body...), s.Signature) {
		return nil, fail(NotAllowed, "the signature is not valid")
	}
	return o, nil
}
