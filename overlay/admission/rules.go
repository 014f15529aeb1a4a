package admission

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/record"
)

var (
	// ErrNoMember is returned for a peer that has shown no membership.
	ErrNoMember = errors.New("admission: not a member of this network")
	// ErrMembership is returned for a membership that does not admit the peer that shows it.
	ErrMembership = errors.New("admission: invalid membership")
	// ErrMayNotInvite is returned if a peer may not issue an invitation.
	ErrMayNotInvite = errors.New("admission: this peer may not invite others")
)

// Mode says which peers belong to a network.
type Mode string

// The modes.
const (
	Open   Mode = "open"   // every peer
	Invite Mode = "invite" // founders, and peers that a founder has invited
	Closed Mode = "closed" // founders, and peers that a founder has named
)

// Modes are the valid modes, the default first.
var Modes = []string{string(Open), string(Invite), string(Closed)}

// Rules say which peers belong to a network. The zero value is an open network.
type Rules struct {
	// Network is the network's identifier; a certificate of another network is invalid.
	Network string
	Mode    Mode
	// Founders belong to the network without a certificate. Their keys are Ed25519.
	Founders []peer.ID
}

// Open reports whether every peer belongs to the network.
func (r Rules) Open() bool { return r.Mode == Open || r.Mode == "" }

// Membership is a sealed certificate. It is no secret: it is of no use to another peer. Nil is the
// membership of founders.
type Membership []byte

// certificate is a founder's statement that another peer belongs to the network.
type certificate struct {
	Network string
	// Issuer is the founder that signs.
	Issuer peer.ID
	// Subject is the peer that is admitted.
	Subject peer.ID
	// Issued is informative: certificates do not expire.
	Issued time.Time
}

// certificateBody is the CBOR form of a certificate. The issuer is the envelope's signer.
type certificateBody struct {
	Network string  `cbor:"1,keyasint"`
	Subject peer.ID `cbor:"2,keyasint"`
	Issued  int64   `cbor:"3,keyasint"`
}

// maxCertificate bounds a sealed certificate; it has about 300 bytes. Bytes.
const maxCertificate = 512

var certificates = record.Form[certificate, certificateBody]{
	Kind: record.Kind{Domain: "peerd-member", Codec: "/peerd/member/1", Max: maxCertificate},
}

// Body implements record.Signed.
func (c certificate) Body() (certificateBody, peer.ID) {
	return certificateBody{c.Network, c.Subject, c.Issued.UnixMilli()}, c.Issuer
}

// Record implements record.Body.
func (b certificateBody) Record(by peer.ID) (certificate, error) {
	return certificate{b.Network, by, b.Subject, record.Millis(b.Issued)}, nil
}

// Check implements record.Signed.
func (c certificate) Check() error {
	if err := c.Subject.Validate(); err != nil {
		return fmt.Errorf("%w: subject: %w", ErrMembership, err)
	}
	return record.CheckMillis(c.Issued)
}

// Check returns nil if a peer with membership m belongs to the network; else ErrNoMember or
// ErrMembership.
func (r Rules) Check(p peer.ID, m Membership) error {
	switch {
	case r.Open() || r.isFounder(p):
		return nil
	case len(m) == 0:
		return ErrNoMember
	}
	c, err := certificates.Open(m)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMembership, err)
	case c.Network != r.Network:
		return fmt.Errorf("%w: of another network", ErrMembership)
	case !r.isFounder(c.Issuer):
		return fmt.Errorf("%w: %s is not a founder", ErrMembership, c.Issuer)
	case c.Subject != p:
		return fmt.Errorf("%w: it is that of %s", ErrMembership, c.Subject)
	}
	return nil
}

func (r Rules) isFounder(p peer.ID) bool { return slices.Contains(r.Founders, p) }

// MayInvite returns nil if the peer may issue an invitation, bound to one peer or not; else an
// error that matches ErrMayNotInvite.
func (r Rules) MayInvite(p peer.ID, bound bool) error {
	switch {
	case r.Open():
		return nil
	case !r.isFounder(p):
		return fmt.Errorf("%w: it is not a founder of the network", ErrMayNotInvite)
	case r.Mode == Closed && !bound:
		return fmt.Errorf("%w without naming them: the network is closed", ErrMayNotInvite)
	}
	return nil
}

// admit returns the membership of a peer that the founder with the key admits.
func (r Rules) admit(key crypto.PrivKey, subject peer.ID, now time.Time) (Membership, error) {
	issuer, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	sealed, err := certificates.Seal(certificate{Network: r.Network, Issuer: issuer,
		Subject: subject, Issued: now}, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return sealed, nil
}
