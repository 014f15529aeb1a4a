package lease

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/record"
)

// MaxWitnesses is the maximum number of members of a witness set.
const MaxWitnesses = 4

// A WitnessSet names the witnesses of an owner: the peers that together may declare the
// owner silent. The owner signs it. There is one for all its subnets.
type WitnessSet struct {
	// Network identifies the network in which the members are witnesses.
	Network string
	// Owner signs the witness set and is not a member of it.
	Owner peer.ID
	// Seq increases with each witness set of an owner: the highest is valid. At least 1.
	Seq uint64
	// Members are sorted and distinct. At most MaxWitnesses; none in a network of one peer.
	Members []peer.ID
	Issued  time.Time
}

// Pair reports whether the set has one member: the other peer of a network of two. There is
// no majority then, as neither peer can know which of them has failed.
func (p WitnessSet) Pair() bool { return len(p.Members) == 1 }

// TakeoverQuorum returns the number of votes that take a subnet over: a majority of the
// members and the owner together, so that fewer members than that remain when HoldQuorum
// hear the owner. The member of a Pair votes alone. Without members it exceeds their
// number, and no takeover is possible.
func (p WitnessSet) TakeoverQuorum() int {
	if p.Pair() {
		return 1
	}
	return (len(p.Members)+1)/2 + 1
}

// HoldQuorum returns the number of members that must hear the owner for it to keep its
// quorum lease: enough that the others are too few for a takeover. The owner of a Pair
// keeps it in any case, so that after a cut both may act.
func (p WitnessSet) HoldQuorum() int {
	if p.Pair() {
		return 0
	}
	return len(p.Members) + 1 - p.TakeoverQuorum()
}

// Has reports whether id is a member.
func (p WitnessSet) Has(id peer.ID) bool { return slices.Contains(p.Members, id) }

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
	// SetSeq is the Seq of From's witness set that made Voter a witness.
	SetSeq uint64
	// Ended is the digest of the step that the vote ends.
	Ended  Digest
	Issued time.Time
}

// A witness set of five takes about 430 bytes with Ed25519, a vote 320.
var (
	witnessSetKind = record.Form[WitnessSet, witnessSetBody]{Kind: record.Kind{
		Domain: "peerd-witness-set", Codec: "/peerd/witness-set/2", Max: MaxSealedWitnessSet}}
	voteKind = record.Form[Vote, voteBody]{Kind: record.Kind{
		Domain: "peerd-vote", Codec: "/peerd/vote/2", Max: MaxSealedVote}}
)

// MaxSealedWitnessSet and MaxSealedVote are the maximum sizes of a sealed witness set
// and vote, in bytes.
const (
	MaxSealedWitnessSet = 2 << 10
	MaxSealedVote       = 1 << 10
)

// witnessSetBody is the CBOR form of a WitnessSet; its owner is the signer.
type witnessSetBody struct {
	Seq     uint64    `cbor:"1,keyasint"`
	Members []peer.ID `cbor:"2,keyasint,omitempty"`
	Issued  int64     `cbor:"3,keyasint"`
	Network string    `cbor:"4,keyasint,omitempty"`
}

// Body implements record.Signed.
func (p WitnessSet) Body() (witnessSetBody, peer.ID) {
	return witnessSetBody{p.Seq, p.Members, p.Issued.UnixMilli(), p.Network}, p.Owner
}

// Record implements record.Body.
func (b witnessSetBody) Record(signer peer.ID) (WitnessSet, error) {
	return WitnessSet{b.Network, signer, b.Seq, b.Members, record.Millis(b.Issued)}, nil
}

// voteBody is the CBOR form of a Vote; its voter is who signed.
type voteBody struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	Epoch  uint64       `cbor:"2,keyasint"`
	From   peer.ID      `cbor:"3,keyasint"`
	To     peer.ID      `cbor:"4,keyasint"`
	SetSeq uint64       `cbor:"5,keyasint"`
	Ended  []byte       `cbor:"6,keyasint"`
	Issued int64        `cbor:"7,keyasint"`
}

// Body implements record.Signed.
func (v Vote) Body() (voteBody, peer.ID) {
	return voteBody{v.Subnet, v.Epoch, v.From, v.To, v.SetSeq, v.Ended[:],
		v.Issued.UnixMilli()}, v.Voter
}

// Record implements record.Body.
func (b voteBody) Record(signer peer.ID) (Vote, error) {
	d, err := digestOf(b.Ended)
	return Vote{signer, b.Subnet, b.Epoch, b.From, b.To, b.SetSeq, d, record.Millis(b.Issued)}, err
}

// SealWitnessSet checks p and signs it with the key of p.Owner.
func SealWitnessSet(p WitnessSet, key crypto.PrivKey) ([]byte, error) {
	return witnessSetKind.Seal(p, key)
}

// OpenWitnessSet returns the witness set in sealed if it is well formed and signed; its
// Owner is the signer. It uses no clock.
func OpenWitnessSet(sealed []byte) (WitnessSet, error) { return witnessSetKind.Open(sealed) }

// SealVote checks v and signs it with the key of v.Voter.
func SealVote(v Vote, key crypto.PrivKey) ([]byte, error) { return voteKind.Seal(v, key) }

// OpenVote returns the vote in sealed if it is well formed and signed: by its
// Voter, which is whoever signed it. It looks at no clock.
func OpenVote(sealed []byte) (Vote, error) { return voteKind.Open(sealed) }

// Check reports whether p is a valid witness set.
func (p WitnessSet) Check() error {
	if err := p.Owner.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSigner, err)
	}
	switch {
	case p.Seq == 0 || p.Seq > MaxEpoch:
		return fmt.Errorf("%w: number %d", ErrWitnessSet, p.Seq)
	case len(p.Network) > maxNetwork:
		return fmt.Errorf("%w: %d bytes", ErrNetwork, len(p.Network))
	case len(p.Members) > MaxWitnesses:
		return fmt.Errorf("%w: %d members", ErrWitnessSet, len(p.Members))
	case p.Has(p.Owner):
		return fmt.Errorf("%w: the owner is a member", ErrWitnessSet)
	}
	for i, m := range p.Members {
		if m.Validate() != nil || i > 0 && p.Members[i-1] >= m {
			return fmt.Errorf("%w: member %d is empty or out of order", ErrWitnessSet, i)
		}
	}
	return record.CheckMillis(p.Issued)
}

// Check tells whether v could be a vote.
func (v Vote) Check() error {
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
	case v.SetSeq == 0 || v.SetSeq > MaxEpoch:
		return fmt.Errorf("%w: for witness set %d", ErrVote, v.SetSeq)
	}
	return record.CheckMillis(v.Issued)
}
