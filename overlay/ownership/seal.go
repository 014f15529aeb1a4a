package ownership

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/crypto"

	"peerd/overlay/wire"
)

// Bounds of a record. MaxRecord is in bytes.
const (
	MaxRecord    = 16 << 10
	MaxWitnesses = 4
	MaxReplicas  = 8
	MaxName      = 255 // of a network or unit, in bytes
	maxNear      = 8   // signatures of a certificate
	maxEpoch     = 1 << 48
)

// ErrRecord says that a record is malformed, or that a signature in it is not genuine.
var ErrRecord = errors.New("ownership: invalid record")

// statement is what an elector signs.
type statement struct {
	Network string `cbor:"1,keyasint"`
	Unit    string `cbor:"2,keyasint"`
	Lease   Digest `cbor:"3,keyasint"`
	Ballot  Ballot `cbor:"4,keyasint"`
	Store   uint64 `cbor:"5,keyasint"`
}

// signed returns the bytes that an elector signs. The prefix keeps them apart from all else
// that its key signs.
func signed(l *Lease, b Ballot, store uint64) ([]byte, error) {
	raw, err := wire.Marshal(statement{l.Network, l.Unit, l.ID(), b, store})
	return append([]byte("peerd ownership signature\x00"), raw...), err
}

// Seal returns the signature of an elector with that key and store.
func Seal(l *Lease, b Ballot, self Member, key crypto.PrivKey) (Signature, error) {
	if !self.ID.MatchesPrivateKey(key) {
		return Signature{}, fmt.Errorf("%w: not the key of %v", ErrRecord, self.ID)
	}
	raw, err := signed(l, b, self.Store)
	if err == nil {
		raw, err = key.Sign(raw)
	}
	if err != nil {
		return Signature{}, fmt.Errorf("ownership: sign lease of %s: %w", l.Unit, err)
	}
	return Signature{self, raw}, nil
}

// Verify reports whether s is the signature of s.By. Keys that a peer ID does not contain
// are refused.
func (s Signature) Verify(l *Lease, b Ballot) error {
	key, err := s.By.ID.ExtractPublicKey()
	if err != nil {
		return fmt.Errorf("%w: key of %v: %w", ErrRecord, s.By.ID, err)
	}
	raw, err := signed(l, b, s.By.Store)
	if err != nil {
		return err
	}
	if ok, err := key.Verify(raw, s.Bytes); err != nil || !ok {
		return fmt.Errorf("%w: signature of %v", ErrRecord, s.By.ID)
	}
	return nil
}

// Encode returns the bytes of a record.
func Encode(r Record) ([]byte, error) {
	raw, err := wire.Marshal(r)
	if err == nil && len(raw) > MaxRecord {
		err = fmt.Errorf("%w: %d bytes, want at most %d", ErrRecord, len(raw), MaxRecord)
	}
	return raw, err
}

// Decode returns the record in raw if it is well formed and its signatures are genuine. It
// does not show that the signers were entitled to sign; see [Rules.Read].
func Decode(raw []byte) (Record, error) {
	if len(raw) > MaxRecord {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrRecord, len(raw), MaxRecord)
	}
	var r Record
	if err := wire.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if len(r) == 0 || len(r) > maxLinks {
		return nil, fmt.Errorf("%w: %d links", ErrRecord, len(r))
	}
	if again, err := wire.Marshal(r); err != nil || !bytes.Equal(again, raw) {
		return nil, fmt.Errorf("%w: not the canonical encoding", ErrRecord)
	}
	for i := range r {
		if err := r[i].open(); err != nil {
			return nil, fmt.Errorf("link %d: %w", i, err)
		}
		if i > 0 && !r[i].Lease.after(r[i-1].Lease) {
			return nil, fmt.Errorf("%w: link %d does not follow", ErrRecord, i)
		}
	}
	return r, nil
}

// after reports whether l says that it follows prev.
func (l *Lease) after(prev *Lease) bool {
	return l.Prev == prev.ID() && l.Epoch == prev.Epoch+1 && l.Unit == prev.Unit &&
		l.Network == prev.Network
}

// open checks a decoded link and computes the lease's ID.
func (l *Link) open() error {
	if l.Lease == nil {
		return fmt.Errorf("%w: no lease", ErrRecord)
	}
	x := *l.Lease
	switch {
	case len(x.Network) > MaxName, x.Unit == "", len(x.Unit) > MaxName:
		return fmt.Errorf("%w: name", ErrRecord)
	case x.Epoch == 0, x.Epoch > maxEpoch, (x.Epoch == 1) != (x.Kind == Claim),
		(x.Epoch == 1) != (x.Prev == Digest{}), x.Kind == 0, x.Kind > Recreate:
		return fmt.Errorf("%w: epoch %d", ErrRecord, x.Epoch)
	case len(x.Witnesses) > MaxWitnesses, len(x.Replicas) > MaxReplicas,
		len(l.Cert.Signatures) > maxNear:
		return fmt.Errorf("%w: too many peers", ErrRecord)
	}
	if slices.ContainsFunc(x.Witnesses, func(w Member) bool { return w.ID == x.Owner.ID }) ||
		!ascending(x.Witnesses) {
		return fmt.Errorf("%w: witnesses", ErrRecord)
	}
	lease, err := NewLease(x)
	if err != nil {
		return err
	}
	l.Lease = lease
	var signers []Member
	for _, s := range l.Cert.Signatures {
		if err := s.Verify(lease, l.Cert.Ballot); err != nil {
			return err
		}
		signers = append(signers, s.By)
	}
	if !ascending(signers) {
		return fmt.Errorf("%w: signatures out of order", ErrRecord)
	}
	return nil
}

// ascending reports whether the IDs ascend, so that none occurs twice.
func ascending(all []Member) bool {
	for i := range all {
		if i > 0 && all[i].ID <= all[i-1].ID {
			return false
		}
	}
	return true
}
