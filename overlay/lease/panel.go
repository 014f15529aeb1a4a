package lease

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease/register"
)

// MaxMembers is how many witnesses a panel may have besides its owner.
const MaxMembers = 4

// A Panel names the witnesses of an owner: the peers that together may say that
// the owner is silent. The owner signs it. There is one for all its subnets.
type Panel struct {
	// Owner signs the panel and is no member of it.
	Owner peer.ID
	// Seq grows with each panel of an owner: the highest counts. At least 1.
	Seq uint64
	// Members are sorted and distinct. At most MaxMembers, and none at all in a
	// network of one.
	Members []peer.ID
	Issued  time.Time
}

// Needed is how many votes of members take a subnet over: a majority of the
// members and the owner together, so never fewer than Keep leaves over. It is more
// than there are members when there are less than two: then nobody can.
func (p Panel) Needed() int { return (len(p.Members)+1)/2 + 1 }

// Keep is how many members must hear the owner for it to keep its right: as many
// as suffice that the others are too few for a takeover.
func (p Panel) Keep() int { return len(p.Members) + 1 - p.Needed() }

// Has reports whether id is a member.
func (p Panel) Has(id peer.ID) bool { return slices.Contains(p.Members, id) }

// A Vote is a member's word that it does not hear From, and consents that To owns
// Subnet at Epoch. It gives no other for the same step as long as To may use it.
type Vote struct {
	// Voter signs the vote.
	Voter  peer.ID
	Subnet netip.Prefix
	// Epoch is the one that To will own under. At least 2.
	Epoch uint64
	// From is the silent owner, To the candidate. They differ.
	From, To peer.ID
	// PanelSeq is that of From's panel that made Voter a witness.
	PanelSeq uint64
	Issued   time.Time
}

// A panel of five takes about 330 bytes with Ed25519, a vote 280.
var (
	panelKind = register.Kind{Domain: "peerd-panel", Codec: "/peerd/panel/1", Max: 2 << 10}
	voteKind  = register.Kind{Domain: "peerd-vote", Codec: "/peerd/vote/1", Max: 1 << 10}
)

// MaxPanel and MaxVote are the sizes of the largest sealed panel and vote. Bytes.
const (
	MaxPanel = 2 << 10
	MaxVote  = 1 << 10
)

// panelBody is the CBOR form of a Panel; its owner is who signed.
type panelBody struct {
	Seq     uint64    `cbor:"1,keyasint"`
	Members []peer.ID `cbor:"2,keyasint,omitempty"`
	Issued  int64     `cbor:"3,keyasint"`
}

// voteBody is the CBOR form of a Vote; its voter is who signed.
type voteBody struct {
	Subnet   netip.Prefix `cbor:"1,keyasint"`
	Epoch    uint64       `cbor:"2,keyasint"`
	From     peer.ID      `cbor:"3,keyasint"`
	To       peer.ID      `cbor:"4,keyasint"`
	PanelSeq uint64       `cbor:"5,keyasint"`
	Issued   int64        `cbor:"6,keyasint"`
}

// SealPanel checks p and signs it with the key of p.Owner.
func SealPanel(p Panel, key crypto.PrivKey) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if !p.Owner.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, p.Owner)
	}
	return panelKind.Seal(panelBody{p.Seq, p.Members, p.Issued.UnixMilli()}, key)
}

// OpenPanel returns the panel in sealed if it is well formed and signed: by its
// Owner, which is whoever signed it. It looks at no clock.
func OpenPanel(sealed []byte) (Panel, error) {
	var b panelBody
	signer, err := panelKind.Open(sealed, &b)
	if err != nil {
		return Panel{}, fmt.Errorf("lease: %w", err)
	}
	p := Panel{signer, b.Seq, b.Members, millis(b.Issued)}
	return p, p.check()
}

// SealVote checks v and signs it with the key of v.Voter.
func SealVote(v Vote, key crypto.PrivKey) ([]byte, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	if !v.Voter.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, v.Voter)
	}
	return voteKind.Seal(voteBody{v.Subnet, v.Epoch, v.From, v.To, v.PanelSeq, v.Issued.UnixMilli()}, key)
}

// OpenVote returns the vote in sealed if it is well formed and signed: by its
// Voter, which is whoever signed it. It looks at no clock.
func OpenVote(sealed []byte) (Vote, error) {
	var b voteBody
	signer, err := voteKind.Open(sealed, &b)
	if err != nil {
		return Vote{}, fmt.Errorf("lease: %w", err)
	}
	v := Vote{signer, b.Subnet, b.Epoch, b.From, b.To, b.PanelSeq, millis(b.Issued)}
	return v, v.check()
}

// check tells whether p could be a panel.
func (p Panel) check() error {
	if err := p.Owner.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSigner, err)
	}
	switch {
	case p.Seq == 0 || p.Seq > MaxEpoch:
		return fmt.Errorf("%w: number %d", ErrPanel, p.Seq)
	case len(p.Members) > MaxMembers:
		return fmt.Errorf("%w: %d members", ErrPanel, len(p.Members))
	case p.Has(p.Owner):
		return fmt.Errorf("%w: the owner is a member", ErrPanel)
	}
	for i, m := range p.Members {
		if m.Validate() != nil || i > 0 && p.Members[i-1] >= m {
			return fmt.Errorf("%w: member %d is empty or out of order", ErrPanel, i)
		}
	}
	return checkMillis(p.Issued)
}

// check tells whether v could be a vote.
func (v Vote) check() error {
	if err := checkNames(v.Subnet, v.Voter, v.Epoch); err != nil {
		return err
	}
	switch {
	case v.Epoch < 2:
		return fmt.Errorf("%w: a vote for epoch %d", ErrEpoch, v.Epoch)
	case v.From.Validate() != nil || v.To.Validate() != nil || v.From == v.To:
		return fmt.Errorf("%w: from %v to %v", ErrVote, v.From, v.To)
	case v.Voter == v.From:
		return fmt.Errorf("%w: by the silent owner", ErrVote)
	case v.PanelSeq == 0 || v.PanelSeq > MaxEpoch:
		return fmt.Errorf("%w: of panel %d", ErrVote, v.PanelSeq)
	}
	return checkMillis(v.Issued)
}
