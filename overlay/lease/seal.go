package lease

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/lease/register"
)

// An Ed25519 lease with proxy and grant takes about 600 bytes; the limits leave
// room for RSA identities.
var (
	leaseKind = register.Kind{Domain: "peerd-lease", Codec: "/peerd/lease/1", Max: 4 << 10}
	grantKind = register.Kind{Domain: "peerd-grant", Codec: "/peerd/grant/1", Max: 2 << 10}
)

// leaseBody is the CBOR form of a Lease: a map from small integers; times are
// Unix milliseconds, names and prefixes their binary forms.
type leaseBody struct {
	Subnet  netip.Prefix  `cbor:"1,keyasint"`
	Owner   peer.ID       `cbor:"2,keyasint"`
	Epoch   uint64        `cbor:"3,keyasint"`
	Issued  int64         `cbor:"4,keyasint"`
	Expires int64         `cbor:"5,keyasint"`
	Proxy   *coords.Proxy `cbor:"6,keyasint,omitempty"`
	Grant   []byte        `cbor:"7,keyasint,omitempty"`
}

// grantBody is the CBOR form of a Grant.
type grantBody struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	From   peer.ID      `cbor:"2,keyasint"`
	To     peer.ID      `cbor:"3,keyasint"`
	Epoch  uint64       `cbor:"4,keyasint"`
	Issued int64        `cbor:"5,keyasint"`
}

func bodyOf(l Lease) leaseBody {
	return leaseBody{l.Subnet, l.Owner, l.Epoch, l.Issued.UnixMilli(), l.Expires.UnixMilli(), l.Proxy, l.Grant}
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
	return leaseKind.Seal(bodyOf(l), key)
}

// OpenLease returns the lease in sealed if it is signed by its owner, well formed,
// and (above epoch 1) carries the grant for just this step. It looks at no clock:
// see Lease.CheckTime.
func OpenLease(sealed []byte) (Lease, error) {
	var b leaseBody
	signer, err := leaseKind.Open(sealed, &b)
	if err != nil {
		return Lease{}, fmt.Errorf("lease: %w", err)
	}
	if signer != b.Owner {
		return Lease{}, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, b.Owner)
	}
	l := Lease{b.Subnet, b.Owner, b.Epoch, millis(b.Issued), millis(b.Expires), b.Proxy, b.Grant}
	if err := l.check(); err != nil {
		return Lease{}, err
	}
	return l, nil
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
