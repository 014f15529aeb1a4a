package home

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/crypto"

	"peerd/overlay/lease"
	"peerd/overlay/lease/register"
)

// maxValue is the largest record that Open looks at, proof included.
const maxValue = 32 << 10

// parcel is a record as it is stored and travels: what was signed, and the proof
// that the signature names. The record before is there without its own
// proof, so a parcel does not grow with the number of moves.
type parcel struct {
	Sealed []byte `cbor:"1,keyasint"`
	Prior  []byte `cbor:"2,keyasint,omitempty"` // what was signed at the epoch before
	Lease  []byte `cbor:"3,keyasint,omitempty"` // of the home before; see Record.checkProof
}

// digest is what a signature says of a proof.
func (p parcel) digest() Digest {
	h := sha256.New()
	h.Write([]byte("peerd home proof\x00"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p.Prior))))
	h.Write(p.Prior)
	h.Write(p.Lease)
	return Digest(h.Sum(nil))
}

// Seal checks r, which is of epoch 1, and signs it with the key of r.By.
func Seal(r Record, key crypto.PrivKey) ([]byte, error) { return sealWith(r, parcel{}, key) }

// SealMove is Seal for a host that moves from its home prior, as sealed, to
// r.Subnet: r's Epoch, From, Rescue and Proof are filled in. sealedLease is a lease
// of the old home: r.By's own; or the last one of somebody else, ended for Silence.
func SealMove(r Record, prior, sealedLease []byte, key crypto.PrivKey) ([]byte, error) {
	before, inner, err := openParcel(prior)
	if err != nil {
		return nil, err
	}
	l, err := lease.OpenLease(sealedLease)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	p := parcel{Prior: inner.Sealed, Lease: sealedLease}
	r.Epoch, r.From, r.Rescue, r.Proof = before.Epoch+1, before.Subnet, l.Owner != r.By, p.digest()
	return sealWith(r, p, key)
}

func sealWith(r Record, p parcel, key crypto.PrivKey) (value []byte, err error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if !r.By.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, r.By)
	}
	if err := r.checkProof(p); err != nil {
		return nil, err
	}
	if p.Sealed, err = kind.Seal(r.body(), key); err != nil {
		return nil, err
	}
	if value, err = register.Encode(p); err == nil && len(value) > maxValue {
		err = fmt.Errorf("%w: %d bytes, at most %d", register.ErrTooLarge, len(value), maxValue)
	}
	return value, err
}

// Open returns the record in a sealed value if it is signed by its By, well formed
// and proved. It looks at no clock: see Record.CheckTime.
func Open(value []byte) (Record, error) {
	r, _, err := openParcel(value)
	return r, err
}

// parcels are three byte strings, in the one form that Encode gives them.
var parcels, _ = cbor.DecOptions{
	DupMapKey: cbor.DupMapKeyEnforcedAPF, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden, MaxNestedLevels: 4, MaxMapPairs: 16, MaxArrayElements: 16,
}.DecMode()

func openParcel(value []byte) (r Record, p parcel, err error) {
	if len(value) > maxValue {
		return r, p, fmt.Errorf("home: %w: %d bytes, at most %d", register.ErrTooLarge, len(value), maxValue)
	}
	if err := parcels.Unmarshal(value, &p); err != nil {
		return r, p, fmt.Errorf("home: %w: %w", register.ErrEnvelope, err)
	}
	if same, err := register.Encode(p); err != nil || !bytes.Equal(same, value) {
		return r, p, fmt.Errorf("home: %w: not in the one form", register.ErrEnvelope)
	}
	if r, err = openStatement(p.Sealed); err == nil {
		err = r.checkProof(p)
	}
	if err != nil {
		return Record{}, parcel{}, err
	}
	return r, p, nil
}

// openStatement opens what was signed, whatever proves it.
func openStatement(sealed []byte) (Record, error) {
	var b recordBody
	signer, err := kind.Open(sealed, &b)
	if err != nil {
		return Record{}, fmt.Errorf("home: %w", err)
	}
	if signer != b.By {
		return Record{}, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, b.By)
	}
	r, err := b.record()
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return Record{}, err
	}
	return r, nil
}

// checkProof tells whether p proves r: at epoch 1 there is nothing to prove. A
// move needs the record before it, and a lease of the home before: of r.By, held
// when the move was signed; or the last of a silent owner.
func (r Record) checkProof(p parcel) error {
	if r.Epoch == 1 {
		if p.Prior != nil || p.Lease != nil {
			return fmt.Errorf("%w: nothing is to be proved", ErrProof)
		}
		return nil
	}
	if p.digest() != r.Proof {
		return fmt.Errorf("%w: another one was signed", ErrProof)
	}
	before, err := openStatement(p.Prior)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	if before.Host != r.Host || before.Epoch+1 != r.Epoch || before.Subnet != r.From {
		return fmt.Errorf("%w: %s at %v, epoch %d, came before", ErrProof, before.Host, before.Subnet, before.Epoch)
	}
	l, err := lease.OpenLease(p.Lease)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	switch {
	case l.Subnet != r.From:
		return fmt.Errorf("%w: a lease of %v", ErrProof, l.Subnet)
	case r.Rescue != (l.Owner != r.By):
		return fmt.Errorf("%w: a lease of %v", ErrProof, l.Owner)
	case r.Rescue && r.Issued.Before(l.Expires.Add(Silence)):
		return fmt.Errorf("%w: its owner was not silent for %v", ErrProof, Silence)
	case !r.Rescue && (r.Issued.Before(l.Issued.Add(-Skew)) || r.Issued.After(l.Expires.Add(lease.Grace))):
		return fmt.Errorf("%w: the lease was not held then", ErrProof)
	}
	return nil
}
