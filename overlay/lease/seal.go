package lease

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/record"
)

// With Ed25519 a lease with proxy takes about 500 bytes, a grant 330 more, a
// takeover by three votes 1,500 more, and each link as much as its evidence; the limits leave
// space for RSA identities.
var (
	leaseKind = record.Kind{Domain: "peerd-lease", Codec: "/peerd/lease/3", Max: 3 << 10}
	grantKind = record.Form[Grant, grantBody]{Kind: record.Kind{
		Domain: "peerd-grant", Codec: "/peerd/grant/2", Max: 2 << 10}}
)

// MaxSealed is the largest sealed lease, evidence and links included. Bytes.
const MaxSealed = 16 << 10

// sealedLease is the result of SealLease: the signed lease and the evidence, of which
// only the digest is signed. They are separate so that a later takeover can show the
// lease without the evidence, which would otherwise grow from one to the next.
type sealedLease struct {
	Envelope []byte `cbor:"1,keyasint"`
	Evidence []byte `cbor:"2,keyasint,omitempty"` // an encoded evidenceBody
	// Links is an encoded historyBody. What is signed is the digest of the step before; links
	// prove themselves, and may be left out except the last one.
	Links []byte `cbor:"3,keyasint,omitempty"`
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
	Network  string        `cbor:"8,keyasint,omitempty"`
	Prev     []byte        `cbor:"9,keyasint,omitempty"` // the digest of the step before
	Claimed  int64         `cbor:"10,keyasint,omitempty"`
}

// evidenceBody is the CBOR form of why an epoch above 1 is its owner's.
type evidenceBody struct {
	Grant      []byte   `cbor:"1,keyasint,omitempty"`
	WitnessSet []byte   `cbor:"2,keyasint,omitempty"`
	Votes      [][]byte `cbor:"3,keyasint,omitempty"`
	Last       []byte   `cbor:"4,keyasint,omitempty"` // the envelope of a sealedLease
	At         int64    `cbor:"5,keyasint,omitempty"`
}

// grantBody is the CBOR form of a Grant.
type grantBody struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	From   peer.ID      `cbor:"2,keyasint"`
	To     peer.ID      `cbor:"3,keyasint"`
	Epoch  uint64       `cbor:"4,keyasint"`
	Ended  []byte       `cbor:"5,keyasint"`
	Issued int64        `cbor:"6,keyasint"`
}

// Body implements record.Signed.
func (g Grant) Body() (grantBody, peer.ID) {
	return grantBody{g.Subnet, g.From, g.To, g.Epoch, g.Ended[:], g.Issued.UnixMilli()}, g.From
}

// Record implements record.Body.
func (b grantBody) Record(peer.ID) (Grant, error) {
	d, err := digestOf(b.Ended)
	return Grant{b.Subnet, b.From, b.To, b.Epoch, d, record.Millis(b.Issued)}, err
}

// digestOf reads the digest of a step that has one before it.
func digestOf(raw []byte) (d Digest, err error) {
	if copy(d[:], raw) != len(d) || len(raw) != len(d) {
		return d, fmt.Errorf("%w: a digest of %d bytes", ErrChain, len(raw))
	}
	return d, nil
}

// bodiesOf returns the three parts of l; the second and third are nil if there is no evidence
// and no step before.
func bodiesOf(l Lease) (b leaseBody, evidence, links []byte, err error) {
	b = leaseBody{Subnet: l.Subnet, Owner: l.Owner, Epoch: l.Epoch, Issued: l.Issued.UnixMilli(),
		Expires: l.Expires.UnixMilli(), Proxy: l.Proxy, Network: l.Network,
		Claimed: millisOf(l.Claimed)}
	if prev := l.Prev(); prev != (Digest{}) {
		b.Prev = prev[:]
	}
	if evidence, err = encodeEvidence(l.Grant, l.Takeover); err != nil {
		return leaseBody{}, nil, nil, err
	}
	if evidence != nil {
		sum := sha256.Sum256(evidence)
		b.Evidence = sum[:]
	}
	links, err = encodeLinks(l.Links)
	return b, evidence, links, err
}

// encodeEvidence returns the encoded evidence; nil if there is none.
func encodeEvidence(grant []byte, t *Takeover) ([]byte, error) {
	if len(grant) == 0 && t == nil {
		return nil, nil
	}
	e := evidenceBody{Grant: grant}
	if t != nil {
		e.WitnessSet, e.Votes, e.Last = t.WitnessSet, t.Votes, t.Last
		if !t.At.IsZero() {
			e.At = t.At.UnixMilli()
		}
	}
	return record.Encode(e, MaxSealed)
}

// evidence returns what e says as a Lease has it.
func (e evidenceBody) evidence() (grant []byte, t *Takeover) {
	if len(e.WitnessSet) == 0 && len(e.Votes) == 0 && len(e.Last) == 0 && e.At == 0 {
		return e.Grant, nil
	}
	t = &Takeover{WitnessSet: e.WitnessSet, Votes: e.Votes, Last: e.Last}
	if e.At != 0 {
		t.At = record.Millis(e.At)
	}
	return e.Grant, t
}

// SealLease checks l and signs it with the owner's key. The error is one of this
// package's reasons.
func SealLease(l Lease, key crypto.PrivKey) ([]byte, error) {
	l.Issued, l.Expires = record.Millis(l.Issued.UnixMilli()), record.Millis(l.Expires.UnixMilli())
	if err := l.check(); err != nil {
		return nil, err
	}
	if !l.Owner.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, l.Owner)
	}
	b, evidence, links, err := bodiesOf(l)
	if err != nil {
		return nil, err
	}
	return sealBodies(b, evidence, links, l.Receipts, key)
}

// sealBodies signs b, whatever it says, and puts the evidence, the links and the receipts next to
// it.
func sealBodies(
	b leaseBody, evidence, links, receipts []byte, key crypto.PrivKey,
) ([]byte, error) {
	envelope, err := leaseKind.Seal(b, key)
	if err != nil {
		return nil, err
	}
	envelope = record.Attach(envelope, receipts)
	return record.Encode(sealedLease{envelope, evidence, links}, MaxSealed)
}

// OpenLease returns the lease in sealed if it is signed by its owner, well formed,
// and (above epoch 1) shows steps of which each is proven by the one before. Whether the
// first of them was taken by right is not known from it: see [Judge]. It looks at no
// clock: see Lease.CheckTime.
func OpenLease(sealed []byte) (Lease, error) {
	l, err := readLease(sealed, leaseKind.Open)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return Lease{}, err
	}
	return l, nil
}

// PeekLease is OpenLease without the check of any signature: anybody can have written what it
// returns. It tells which leases are worth to be opened, which costs ten times as much or more.
func PeekLease(sealed []byte) (Lease, error) { return readLease(sealed, leaseKind.Peek) }

// readLease parses a sealed lease of which open reads the envelope.
func readLease(sealed []byte, open opener) (Lease, error) {
	s, err := split(sealed)
	if err != nil {
		return Lease{}, err
	}
	l, b, err := openEnvelope(s.Envelope, open)
	if err != nil {
		return Lease{}, err
	}
	if _, l.Receipts, err = record.Attached(s.Envelope); err != nil {
		return Lease{}, fmt.Errorf("lease: %w", err)
	}
	if l.Links, err = decodeLinks(s.Links, l.Network, l.Subnet); err != nil {
		return Lease{}, err
	}
	if prev := l.Prev(); len(l.Links) > 0 && !bytes.Equal(prev[:], b.Prev) ||
		len(l.Links) == 0 && len(b.Prev) > 0 {
		return Lease{}, fmt.Errorf("%w: not the step that was signed", ErrChain)
	}
	if len(s.Evidence) > 0 || len(b.Evidence) > 0 {
		if sum := sha256.Sum256(s.Evidence); !bytes.Equal(sum[:], b.Evidence) {
			return Lease{}, fmt.Errorf("%w: not the one that was signed", ErrEvidence)
		}
		var e evidenceBody
		if err := record.Decode(s.Evidence, MaxSealed, &e); err != nil {
			return Lease{}, fmt.Errorf("%w: %w", ErrEvidence, err)
		}
		l.Grant, l.Takeover = e.evidence()
	}
	return l, nil
}

// split parses the outer form.
func split(sealed []byte) (s sealedLease, err error) {
	if err := record.Decode(sealed, MaxSealed, &s); err != nil {
		return sealedLease{}, fmt.Errorf("lease: %w", err)
	}
	return s, nil
}

// opener is a method of a record.Kind.
type opener = func(sealed []byte, v any) (signer peer.ID, err error)

// openEnvelope returns the signed part of a lease, also as it is encoded. It does not look at
// the evidence and the links.
func openEnvelope(envelope []byte, open opener) (l Lease, b leaseBody, err error) {
	signer, err := open(envelope, &b)
	if err != nil {
		return Lease{}, b, fmt.Errorf("lease: %w", err)
	}
	if signer != b.Owner {
		return Lease{}, b, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, b.Owner)
	}
	l = Lease{Network: b.Network, Subnet: b.Subnet, Owner: b.Owner, Epoch: b.Epoch,
		Issued: record.Millis(b.Issued), Expires: record.Millis(b.Expires),
		Claimed: timeOf(b.Claimed), Proxy: b.Proxy}
	return l, b, l.checkBody()
}

// SealGrant checks g and signs it with the key of g.From.
func SealGrant(g Grant, key crypto.PrivKey) ([]byte, error) { return grantKind.Seal(g, key) }

// OpenGrant returns the grant in sealed if it is signed by its From and well
// formed. Whether From was the owner is not known from it.
func OpenGrant(sealed []byte) (Grant, error) { return grantKind.Open(sealed) }
