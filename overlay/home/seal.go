package home

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"

	"peerd/overlay/lease"
	"peerd/overlay/record"
)

// maxValue is the largest record that Open looks at, proof included.
const maxValue = 32 << 10

// bundle is a record as it is stored and sent: the signed statement, and the proof that
// it names. The previous record is included without its own proof, so that a bundle does
// not grow with the number of moves.
type bundle struct {
	Sealed []byte `cbor:"1,keyasint"`
	Prior  []byte `cbor:"2,keyasint,omitempty"` // what was signed at the epoch before
	Lease  []byte `cbor:"3,keyasint,omitempty"` // of the home before; see Record.checkProof
}

// digest is what a signature says of a proof.
func (p bundle) digest() Digest {
	h := sha256.New()
	h.Write([]byte("peerd home proof\x00"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p.Prior))))
	h.Write(p.Prior)
	h.Write(p.Lease)
	return Digest(h.Sum(nil))
}

// Seal checks r, which is of epoch 1, and signs it with the key of r.By.
func Seal(r Record, key crypto.PrivKey) ([]byte, error) { return sealWith(r, bundle{}, key) }

// SealMove is Seal for a host that moves from its home prior, as sealed, to r.Subnet: it
// fills in r's Network, Epoch, From, Rescue and Proof. sealedLease is a lease of the old home:
// r.By's own, or the last one of another peer, which ended at least Silence ago.
func SealMove(r Record, prior, sealedLease []byte, key crypto.PrivKey) ([]byte, error) {
	before, inner, err := openBundle(prior)
	if err != nil {
		return nil, err
	}
	l, err := lease.OpenLease(sealedLease)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	p := bundle{Prior: inner.Sealed, Lease: sealedLease}
	r.Network = before.Network
	r.Epoch, r.From, r.Rescue, r.Proof = before.Epoch+1, before.Subnet, l.Owner != r.By, p.digest()
	return sealWith(r, p, key)
}

func sealWith(r Record, p bundle, key crypto.PrivKey) (value []byte, err error) {
	if p.Sealed, err = statements.Seal(r, key); err != nil {
		return nil, err
	}
	if err := r.checkProof(p); err != nil {
		return nil, err
	}
	return record.Encode(p, maxValue)
}

// Open returns the record in a sealed value if it is signed by its By, well formed
// and proved. It looks at no clock: see Record.CheckTime.
func Open(value []byte) (Record, error) {
	r, _, err := openBundle(value)
	return r, err
}

func openBundle(value []byte) (r Record, p bundle, err error) {
	if err := record.Decode(value, maxValue, &p); err != nil {
		return Record{}, bundle{}, fmt.Errorf("home: %w", err)
	}
	if same, err := record.Encode(p, maxValue); err != nil || !bytes.Equal(same, value) {
		return Record{}, bundle{}, fmt.Errorf("home: %w: not in the one form", record.ErrBody)
	}
	if r, err = statements.Open(p.Sealed); err == nil {
		err = r.checkProof(p)
	}
	if err != nil {
		return Record{}, bundle{}, err
	}
	return r, p, nil
}

// checkProof tells whether p proves r: at epoch 1 there is nothing to prove. A
// move needs the record before it, and a lease of the home before: of r.By, held
// when the move was signed; or the last of a silent owner.
func (r Record) checkProof(p bundle) error {
	if r.Epoch == 1 {
		if p.Prior != nil || p.Lease != nil {
			return fmt.Errorf("%w: nothing is to be proved", ErrProof)
		}
		return nil
	}
	if p.digest() != r.Proof {
		return fmt.Errorf("%w: another one was signed", ErrProof)
	}
	before, err := statements.Open(p.Prior)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	if before.Network != r.Network || before.Host != r.Host || before.Epoch+1 != r.Epoch ||
		before.Subnet != r.From {
		return fmt.Errorf("%w: %s at %v, epoch %d, came before", ErrProof, before.Host,
			before.Subnet, before.Epoch)
	}
	l, err := lease.OpenLease(p.Lease)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	switch {
	case l.Network != r.Network || l.Subnet != r.From:
		return fmt.Errorf("%w: a lease of %v", ErrProof, l.Subnet)
	case r.Rescue != (l.Owner != r.By):
		return fmt.Errorf("%w: a lease of %v", ErrProof, l.Owner)
	case r.Rescue && r.Issued.Before(l.Expires.Add(Silence)):
		return fmt.Errorf("%w: its owner was not silent for %v", ErrProof, Silence)
	case !r.Rescue && (r.Issued.Before(l.Issued.Add(-record.Skew)) ||
		r.Issued.After(l.Expires.Add(lease.Grace))):
		return fmt.Errorf("%w: the lease was not held then", ErrProof)
	}
	return nil
}
