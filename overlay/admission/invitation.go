package admission

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/record"
)

var (
	// ErrInvitation is returned for an invitation that the issuer has not signed, or that is not
	// for the peer or the network.
	ErrInvitation = errors.New("admission: invalid invitation")
	// ErrExpired is returned for an invitation after its time.
	ErrExpired = errors.New("admission: the invitation has expired")
	// ErrUsedUp is returned if as many peers as an invitation permits have joined with it.
	ErrUsedUp = errors.New("admission: the invitation has been used up")
)

// Bounds of invitations.
const (
	// MaxUses is the largest number of peers that may join with one invitation.
	MaxUses = 1000
	// MaxValid is the longest time for which an invitation is valid.
	MaxValid = 366 * 24 * time.Hour
	// MaxInvitation bounds a sealed invitation. Bytes.
	MaxInvitation = 512
)

// An Invitation permits peers to become members. Only the issuer, which counts its uses, can
// redeem it.
type Invitation struct {
	ID      [16]byte // random
	Network string
	Issuer  peer.ID
	Expires time.Time
	// Uses is how many peers may join with it: 1 to MaxUses.
	Uses int
	// Peer is the only peer that may use it; "": any.
	Peer peer.ID
}

// invitationBody is the CBOR form of an Invitation. The issuer is the envelope's signer.
type invitationBody struct {
	ID      []byte `cbor:"1,keyasint"`
	Network string `cbor:"2,keyasint"`
	Expires int64  `cbor:"3,keyasint"`
	Uses    int    `cbor:"4,keyasint"`
	Peer    string `cbor:"5,keyasint,omitempty"` // as text
}

var invitations = record.Form[Invitation, invitationBody]{
	Kind: record.Kind{Domain: "peerd-invitation", Codec: "/peerd/invitation/1",
		Max: MaxInvitation},
}

// Body implements record.Signed.
func (v Invitation) Body() (invitationBody, peer.ID) {
	b := invitationBody{ID: v.ID[:], Network: v.Network, Expires: v.Expires.UnixMilli(),
		Uses: v.Uses}
	if v.Peer != "" {
		b.Peer = v.Peer.String()
	}
	return b, v.Issuer
}

// Record implements record.Body.
func (b invitationBody) Record(by peer.ID) (Invitation, error) {
	v := Invitation{Network: b.Network, Issuer: by, Expires: record.Millis(b.Expires),
		Uses: b.Uses}
	if len(b.ID) != len(v.ID) {
		return v, fmt.Errorf("%w: ID of %d bytes", ErrInvitation, len(b.ID))
	}
	v.ID = [16]byte(b.ID)
	if b.Peer == "" {
		return v, nil
	}
	var err error
	if v.Peer, err = peer.Decode(b.Peer); err != nil {
		return v, fmt.Errorf("%w: peer: %w", ErrInvitation, err)
	}
	return v, nil
}

// Check implements record.Signed.
func (v Invitation) Check() error {
	if v.Uses < 1 || v.Uses > MaxUses {
		return fmt.Errorf("%w: %d uses, want 1 to %d", ErrInvitation, v.Uses, MaxUses)
	}
	return record.CheckMillis(v.Expires)
}

// NewInvitation signs an invitation with a new ID. v lacks ID and Issuer. It fails with
// ErrInvitation if a field is out of bounds; Rules.MayInvite tells whether it is of use.
func NewInvitation(key crypto.PrivKey, v Invitation) (sealed []byte, err error) {
	if v.Issuer, err = peer.IDFromPrivateKey(key); err != nil {
		return nil, err
	}
	if _, err := rand.Read(v.ID[:]); err != nil {
		return nil, err
	}
	return invitations.Seal(v, key)
}

// OpenInvitation returns a sealed invitation if its issuer has signed it. It does not check the
// time. It fails with an error of package record or ErrInvitation.
func OpenInvitation(sealed []byte) (Invitation, error) { return invitations.Open(sealed) }
