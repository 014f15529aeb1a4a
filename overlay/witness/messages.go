package witness

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/store"
)

// ErrMessage is returned for a message that no peer of this version sends.
var ErrMessage = errors.New("witness: malformed message")

const (
	maxNotices = 256
	// maxMsg bounds a message; the longest is a reply with MaxProposals votes of peers
	// with RSA keys. Bytes.
	maxMsg = 4<<10 + MaxProposals*(lease.MaxSealedVote+8)
)

// request is a message to a witness. Exactly one of its fields is set.
type request struct {
	Heartbeat *heartbeat   `cbor:"1,keyasint,omitempty"`
	Vote      *voteRequest `cbor:"2,keyasint,omitempty"`
	SetQuery  *setQuery    `cbor:"3,keyasint,omitempty"`
}

// reply answers a request in the field of the same kind.
type reply struct {
	Ack  *ack       `cbor:"1,keyasint,omitempty"`
	Vote *voteReply `cbor:"2,keyasint,omitempty"`
	Set  *setReply  `cbor:"3,keyasint,omitempty"`
}

// heartbeat is an owner's heartbeat. Set is its newest witness set, until the witness has
// acknowledged it. LastNotice is the last notice received from the witness in that
// Incarnation.
type heartbeat struct {
	Set         []byte `cbor:"1,keyasint,omitempty"`
	Incarnation uint64 `cbor:"2,keyasint,omitempty"`
	LastNotice  uint64 `cbor:"3,keyasint,omitempty"`
}

// ack promises that the witness does not vote against the owner for Config.Promise from
// when the heartbeat came. Known is the number of the owner's newest witness set that is
// on the witness's disk. More means that there are notices that did not fit.
type ack struct {
	Known       uint64   `cbor:"1,keyasint,omitempty"`
	Incarnation uint64   `cbor:"2,keyasint"`
	Notices     []notice `cbor:"3,keyasint,omitempty"`
	More        bool     `cbor:"4,keyasint,omitempty"`
}

// notice notifies an owner of a vote against it.
type notice struct {
	Num    uint64       `cbor:"1,keyasint"`
	Subnet netip.Prefix `cbor:"2,keyasint"`
	Epoch  uint64       `cbor:"3,keyasint"`
	To     peer.ID      `cbor:"4,keyasint"`
}

// voteRequest asks a witness for votes for the sender. Attempt numbers its requests in their order.
// With Release the candidate will not use the votes that it got by that Attempt.
type voteRequest struct {
	Set       []byte     `cbor:"1,keyasint"`
	Proposals []proposal `cbor:"2,keyasint"`
	Attempt   uint64     `cbor:"3,keyasint,omitempty"`
	Release   bool       `cbor:"4,keyasint,omitempty"`
}

// proposal is the wire form of a Proposal.
type proposal struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	Epoch  uint64       `cbor:"2,keyasint"`
	Ended  lease.Digest `cbor:"3,keyasint"`
}

// voteStatus is the result of a voteRequest.
type voteStatus uint8

const (
	statusVoted      voteStatus = iota + 1 // except where another candidate has the vote
	statusHeardOwner                       // the witness hears the owner
	statusTooEarly                         // the witness has not run for long enough
	statusNotMember                        // the witness is not in this set
	statusNewerSet                         // the witness knows a newer set
	statusTooMany                          // the witness keeps too many votes already
	statusReleased                         // the votes were released
	statusStranger                         // others may ask first: see StrangerAfter
)

// voteReply has a vote for each proposal, in order; empty where another candidate has it.
type voteReply struct {
	Status voteStatus `cbor:"1,keyasint"`
	Votes  [][]byte   `cbor:"2,keyasint,omitempty"`
	Set    []byte     `cbor:"3,keyasint,omitempty"` // the newer set
}

// check validates an ack.
func (a ack) check() error {
	if len(a.Notices) > maxNotices || a.More && len(a.Notices) == 0 {
		return fmt.Errorf("%w: %d notices", ErrMessage, len(a.Notices))
	}
	last := uint64(0)
	for _, n := range a.Notices {
		if n.Num <= last || !isSubnet(n.Subnet) || n.Epoch < 2 || n.Epoch > lease.MaxEpoch ||
			n.To.Validate() != nil {
			return fmt.Errorf("%w: notice %d", ErrMessage, n.Num)
		}
		last = n.Num
	}
	return nil
}

// checkProposals validates the proposals of a voteRequest.
func checkProposals(proposals []proposal) error {
	if len(proposals) == 0 || len(proposals) > MaxProposals {
		return fmt.Errorf("%w: %d proposals", ErrMessage, len(proposals))
	}
	once := make(map[netip.Prefix]bool, len(proposals))
	for _, s := range proposals {
		if !isSubnet(s.Subnet) || once[s.Subnet] || s.Epoch < 2 || s.Epoch > lease.MaxEpoch {
			return fmt.Errorf("%w: proposal %v at epoch %d", ErrMessage, s.Subnet, s.Epoch)
		}
		once[s.Subnet] = true
	}
	return nil
}

func isSubnet(p netip.Prefix) bool { return p.IsValid() && store.SubnetOf(p.Addr()) == p }
