package lease

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/lease/register"
)

// With Ed25519 a lease with proxy takes about 400 bytes, a grant 280 more, a
// takeover by three votes 1,300 more; the limits leave room for RSA identities.
var (
	leaseKind = register.Kind{Domain: "peerd-lease", Codec: "/peerd/lease/2", Max: 3 << 10}
	grantKind = register.Kind{Domain: "peerd-grant", Codec: "/peerd/grant/1", Max: 2 << 10}
)

// MaxSealed is the largest sealed lease, evidence included. Bytes.
const MaxSealed = 8 << 10

// sealedLease is what SealLease makes: the signed lease and, next to it, the
// evidence, whose digest is signed. They are apart so that a later takeover
// can show the lease without the evidence, which would else grow from one to
// the next.
type sealedLease struct {
	Envelope []byte `cbor:"1,keyasint"`
	Evidence []byte `cbor:"2,keyasint,omitempty"` // an encoded evidenceBody
}

// leaseBody is the CBOR form of a Lease: a map from small integers; times are
// Unix milliseconds, names and prefixes their binary forms.
type leaseBody struct {
	Subnet   netip.Prefix  `cbor:"1,keyasint"`
	Owner    peer.ID       `cbor:"2,keyasint"`
	Epoch    uint64        `cbor:"3,keyasint"`
	Issued   int64         `cbor:"4,keyasint"`
	Expires  int64         `cbor:"5,keyasint"`
	Proxy    *coords.Proxy `cbor:"6,keyasint,omitempty"`
	Evidence []byte        `cbor:"7,keyasint,omitempty"` // SHA-256 of the encoded evidenceBody
}

// evidenceBody is the CBOR form of why an epoch above 1 is its owner's.
type evidenceBody struct {
	Grant []byte   `cbor:"1,keyasint,omitempty"`
	Panel []byte   `cbor:"2,keyasint,omitempty"`
	Votes [][]byte `cbor:"3,keyasint,omitempty"`
	Last  []byte   `cbor:"4,keyasint,omitempty"` // the envelope of a sealedLease
	At    int64    `cbor:"5,keyasint,omitempty"`
}

// grantBody is the CBOR form of a Grant.
type grantBody struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	From   peer.ID      `cbor:"2,keyasint"`
	To     peer.ID      `cbor:"3,keyasint"`
	Epoch  uint64       `cbor:"4,keyasint"`
	Issued int64        `cbor:"5,keyasint"`
}

// bodiesOf returns the two parts of l; the second is nil when there is no
// evidence.
func bodiesOf(l Lease) (leaseBody, []byte, error) {
	b := leaseBody{l.Subnet, l.Owner, l.Epoch, l.Issued.UnixMilli(), l.Expires.UnixMilli(), l.Proxy, nil}
	if len(l.Grant) == 0 && l.Takeover == nil {
		return b, nil, nil
	}
	e := evidenceBody{Grant: l.Grant}
	if t := l.Takeover; t != nil {
		e.Panel, e.Votes, e.Last = t.Panel, t.Votes, t.Last
		if !t.At.IsZero() {
			e.At = t.At.UnixMilli()
		}
	}
	raw, err := register.Encode(e)
	if err != nil {
		return leaseBody{}, nil, err
	}
	sum := sha256.Sum256(raw)
	b.Evidence = sum[:]
	return b, raw, nil
}

// evidence returns what e says as a Lease has it.
func (e evidenceBody) evidence() (grant []byte, t *Takeover) {
	if len(e.Panel) == 0 && len(e.Votes) == 0 && len(e.Last) == 0 && e.At == 0 {
		return e.Grant, nil
	}
	t = &Takeover{Panel: e.Panel, Votes: e.Votes, Last: e.Last}
	if e.At != 0 {
		t.At = millis(e.At)
	}
	return e.Grant, t
}

// millis returns the time ms milliseconds after 1970. What is out of bounds
// becomes a time that check refuses, rather than one that overflowed.
func millis(ms int64) time.Time {
	return time.UnixMilli(max(0, min(ms, maxMillis+1))).UTC()
}

// SealLease checks l and signs it with the owner's key. The error is one of this
// package's reasons.
func SealLease(l Lease, key crypto.PrivKey) ([]byte, error) {
	l.Issued, l.Expires = millis(l.Issued.UnixMilli()), millis(l.Expires.UnixMilli())
	if err := l.check(); err != nil {
		return nil, err
	}
	if !l.Owner.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, l.Owner)
	}
	b, evidence, err := bodiesOf(l)
	if err != nil {
		return nil, err
	}
	return sealBodies(b, evidence, key)
}

// sealBodies signs b, whatever it says, and puts the evidence next to it.
func sealBodies(b leaseBody, evidence []byte, key crypto.PrivKey) ([]byte, error) {
	envelope, err := leaseKind.Seal(b, key)
	if err != nil {
		return nil, err
	}
	sealed, err := register.Encode(sealedLease{envelope, evidence})
	if err != nil {
		return nil, err
	}
	if len(sealed) > MaxSealed {
		return nil, fmt.Errorf("lease: %w: %d bytes, at most %d", register.ErrTooLarge, len(sealed), MaxSealed)
	}
	return sealed, nil
}

// OpenLease returns the lease in sealed if it is signed by its owner, well formed,
// and (above epoch 1) carries the evidence for just this step. It looks at no
// clock: see Lease.CheckTime.
func OpenLease(sealed []byte) (Lease, error) {
	s, err := split(sealed)
	if err != nil {
		return Lease{}, err
	}
	l, digest, err := openEnvelope(s.Envelope)
	if err != nil {
		return Lease{}, err
	}
	if len(s.Evidence) > 0 || len(digest) > 0 {
		if sum := sha256.Sum256(s.Evidence); !bytes.Equal(sum[:], digest) {
			return Lease{}, fmt.Errorf("%w: not the one that was signed", ErrEvidence)
		}
		var e evidenceBody
		if err := register.Decode(s.Evidence, &e); err != nil {
			return Lease{}, fmt.Errorf("%w: %w", ErrEvidence, err)
		}
		l.Grant, l.Takeover = e.evidence()
	}
	if err := l.checkEvidence(); err != nil {
		return Lease{}, err
	}
	return l, nil
}

// split parses the outer form.
func split(sealed []byte) (sealedLease, error) {
	if len(sealed) > MaxSealed {
		return sealedLease{}, fmt.Errorf("lease: %w: %d bytes, at most %d", register.ErrTooLarge, len(sealed), MaxSealed)
	}
	var s sealedLease
	if err := register.Decode(sealed, &s); err != nil {
		return sealedLease{}, fmt.Errorf("lease: %w: %w", register.ErrEnvelope, err)
	}
	return s, nil
}

// openEnvelope returns the signed part of a lease and the digest of its evidence,
// which is not looked at.
func openEnvelope(envelope []byte) (l Lease, evidence []byte, err error) {
	var b leaseBody
	signer, err := leaseKind.Open(envelope, &b)
	if err != nil {
		return Lease{}, nil, fmt.Errorf("lease: %w", err)
	}
	if signer != b.Owner {
		return Lease{}, nil, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, b.Owner)
	}
	l = Lease{Subnet: b.Subnet, Owner: b.Owner, Epoch: b.Epoch, Issued: millis(b.Issued), Expires: millis(b.Expires), Proxy: b.Proxy}
	return l, b.Evidence, l.checkBody()
}

// SealGrant checks g and signs it with the key of g.From.
func SealGrant(g Grant, key crypto.PrivKey) ([]byte, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	if !g.From.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, g.From)
	}
	return grantKind.Seal(grantBody{g.Subnet, g.From, g.To, g.Epoch, g.Issued.UnixMilli()}, key)
}

// OpenGrant returns the grant in sealed if it is signed by its From and well
// formed. Whether From was the owner is not known from it.
func OpenGrant(sealed []byte) (Grant, error) {
	var b grantBody
	signer, err := grantKind.Open(sealed, &b)
	if err != nil {
		return Grant{}, fmt.Errorf("lease: %w", err)
	}
	if signer != b.From {
		return Grant{}, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, b.From)
	}
	g := Grant{b.Subnet, b.From, b.To, b.Epoch, millis(b.Issued)}
	if err := g.check(); err != nil {
		return Grant{}, err
	}
	return g, nil
}
