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
	Invite Mode = "invite" // founders, and peers that a member has invited
	Closed Mode = "closed" // founders, and peers that a founder has named
)

// Modes are the valid modes, the default first.
var Modes = []string{string(Open), string(Invite), string(Closed)}

// MaxChain is the largest number of certificates in a membership.
const MaxChain = 4

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

// Membership is a chain of sealed certificates, the founder's first. It is no secret: it is of no
// use to another peer. Nil is the membership of founders.
type Membership [][]byte

// certificate is a member's statement that another peer belongs to the network.
type certificate struct {
	Network string
	// Issuer is the member that signs.
	Issuer peer.ID
	// Subject is the peer that is admitted.
	Subject peer.ID
	// Depth is how many generations of peers the subject may admit in turn; 0: none.
	Depth int
	// Issued is informative: certificates do not expire.
	Issued time.Time
}

// certificateBody is the CBOR form of a certificate. The issuer is the envelope's signer.
type certificateBody struct {
	Network string  `cbor:"1,keyasint"`
	Subject peer.ID `cbor:"2,keyasint"`
	Depth   int     `cbor:"3,keyasint"`
	Issued  int64   `cbor:"4,keyasint"`
}

// maxCertificate bounds a sealed certificate; it has about 300 bytes. Bytes.
const maxCertificate = 512

var certificates = record.Form[certificate, certificateBody]{
	Kind: record.Kind{Domain: "peerd-member", Codec: "/peerd/member/1", Max: maxCertificate},
}

// Body implements record.Signed.
func (c certificate) Body() (certificateBody, peer.ID) {
	return certificateBody{c.Network, c.Subject, c.Depth, c.Issued.UnixMilli()}, c.Issuer
}

// Record implements record.Body.
func (b certificateBody) Record(by peer.ID) (certificate, error) {
	return certificate{b.Network, by, b.Subject, b.Depth, record.Millis(b.Issued)}, nil
}

// Check implements record.Signed.
func (c certificate) Check() error {
	if c.Depth < 0 || c.Depth >= MaxChain {
		return fmt.Errorf("%w: depth %d", ErrMembership, c.Depth)
	}
	if err := c.Subject.Validate(); err != nil {
		return fmt.Errorf("%w: subject: %w", ErrMembership, err)
	}
	return record.CheckMillis(c.Issued)
}

// Check returns nil if a peer with membership m belongs to the network; else ErrNoMember or
// ErrMembership. It verifies at most MaxChain signatures.
func (r Rules) Check(p peer.ID, m Membership) error {
	_, err := r.depth(p, m)
	return err
}

// depth returns how many generations of peers p may admit.
func (r Rules) depth(p peer.ID, m Membership) (int, error) {
	longest := MaxChain
	if r.Mode == Closed {
		longest = 1
	}
	switch {
	case r.Open():
		return 0, nil
	case slices.Contains(r.Founders, p):
		return longest, nil
	case len(m) == 0:
		return 0, ErrNoMember
	case len(m) > longest:
		return 0, fmt.Errorf("%w: %d certificates, at most %d", ErrMembership, len(m), longest)
	}
	var last certificate
	for i, sealed := range m {
		c, err := certificates.Open(sealed)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%w: %w", ErrMembership, err)
		case c.Network != r.Network:
			return 0, fmt.Errorf("%w: of another network", ErrMembership)
		case i == 0 && !slices.Contains(r.Founders, c.Issuer):
			return 0, fmt.Errorf("%w: %s is not a founder", ErrMembership, c.Issuer)
		case i > 0 && (c.Issuer != last.Subject || c.Depth >= last.Depth):
			return 0, fmt.Errorf("%w: %s may not admit peers", ErrMembership, c.Issuer)
		}
		last = c
	}
	if last.Subject != p {
		return 0, fmt.Errorf("%w: it is that of %s", ErrMembership, last.Subject)
	}
	return last.Depth, nil
}

// MayInvite returns nil if the peer may issue an invitation of that depth, bound to one peer or
// not; else an error that matches ErrMayNotInvite, or that of Check.
func (r Rules) MayInvite(p peer.ID, m Membership, bound bool, depth int) error {
	if r.Open() {
		return nil
	}
	own, err := r.depth(p, m)
	switch {
	case err != nil:
		return err
	case own == 0:
		return fmt.Errorf("%w: its own invitation does not permit it", ErrMayNotInvite)
	case depth >= own:
		return fmt.Errorf("%w for %d generations, at most %d", ErrMayNotInvite, depth, own-1)
	case r.Mode == Closed && !bound:
		return fmt.Errorf("%w without naming them: the network is closed", ErrMayNotInvite)
	}
	return nil
}

// extend returns the membership of a peer that the holder of m admits.
func (r Rules) extend(
	key crypto.PrivKey, m Membership, subject peer.ID, depth int, now time.Time,
) (Membership, error) {
	issuer, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	sealed, err := certificates.Seal(certificate{Network: r.Network, Issuer: issuer,
		Subject: subject, Depth: depth, Issued: now}, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return append(slices.Clone(m), sealed), nil
}
