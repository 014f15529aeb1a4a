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
	// maxMsg bounds a message: an answer with MaxAsk votes of RSA identities is the
	// longest. Bytes.
	maxMsg = 4<<10 + MaxAsk*(lease.MaxVote+8)
)

// request is one message to a witness: one of the three.
type request struct {
	Beat *beat `cbor:"1,keyasint,omitempty"`
	Ask  *ask  `cbor:"2,keyasint,omitempty"`
	Show *show `cbor:"3,keyasint,omitempty"`
}

// reply is the answer, of the same kind.
type reply struct {
	Ack    *ack    `cbor:"1,keyasint,omitempty"`
	Answer *answer `cbor:"2,keyasint,omitempty"`
	Shown  *shown  `cbor:"3,keyasint,omitempty"`
}

// beat is an owner's heartbeat. Panel is there as long as the witness has not
// said that it has it. Boot and Seen say which notices arrived: those up to
// number Seen of the witness's life Boot.
type beat struct {
	Panel []byte `cbor:"1,keyasint,omitempty"`
	Boot  uint64 `cbor:"2,keyasint,omitempty"`
	Seen  uint64 `cbor:"3,keyasint,omitempty"`
}

// ack promises that the witness votes not against the owner for the network's
// Promise since the beat came. Known is the newest panel of the owner that is on the
// witness's disk. With More there are notices that did not fit.
type ack struct {
	Known   uint64   `cbor:"1,keyasint,omitempty"`
	Boot    uint64   `cbor:"2,keyasint"`
	Notices []notice `cbor:"3,keyasint,omitempty"`
	More    bool     `cbor:"4,keyasint,omitempty"`
}

// notice tells an owner of a vote against it.
type notice struct {
	Num    uint64       `cbor:"1,keyasint"`
	Subnet netip.Prefix `cbor:"2,keyasint"`
	Epoch  uint64       `cbor:"3,keyasint"`
	To     peer.ID      `cbor:"4,keyasint"`
}

// ask is a candidate's question; the candidate is who is at the other end.
// Try names this asking. With Drop the candidate says that it will not use the votes
// that it got when it asked by that name.
type ask struct {
	Panel []byte `cbor:"1,keyasint"`
	Steps []step `cbor:"2,keyasint"`
	Try   uint64 `cbor:"3,keyasint,omitempty"`
	Drop  bool   `cbor:"4,keyasint,omitempty"`
}

type step struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	Epoch  uint64       `cbor:"2,keyasint"`
}

type verdict uint8

const (
	votes    verdict = iota + 1 // but where another candidate has the vote
	hears                       // the owner
	young                       // was not up for long enough to know
	stranger                    // is no member of this panel
	newer                       // knows a newer panel
	full                        // keeps too many votes already
	dropped                     // the votes that the candidate does not want
)

// answer has a vote for each step, in order, empty where another has it.
type answer struct {
	Verdict verdict  `cbor:"1,keyasint"`
	Votes   [][]byte `cbor:"2,keyasint,omitempty"`
	Panel   []byte   `cbor:"3,keyasint,omitempty"` // the newer one
}

func (a ack) check() error {
	if len(a.Notices) > maxNotices || a.More && len(a.Notices) == 0 {
		return fmt.Errorf("%w: %d notices", ErrMessage, len(a.Notices))
	}
	last := uint64(0)
	for _, n := range a.Notices {
		if n.Num <= last || !isSubnet(n.Subnet) || n.Epoch < 2 || n.Epoch > lease.MaxEpoch || n.To.Validate() != nil {
			return fmt.Errorf("%w: notice %d", ErrMessage, n.Num)
		}
		last = n.Num
	}
	return nil
}

func checkSteps(steps []step) error {
	if len(steps) == 0 || len(steps) > MaxAsk {
		return fmt.Errorf("%w: %d steps", ErrMessage, len(steps))
	}
	once := make(map[netip.Prefix]bool, len(steps))
	for _, s := range steps {
		if !isSubnet(s.Subnet) || once[s.Subnet] || s.Epoch < 2 || s.Epoch > lease.MaxEpoch {
			return fmt.Errorf("%w: step %v at epoch %d", ErrMessage, s.Subnet, s.Epoch)
		}
		once[s.Subnet] = true
	}
	return nil
}

func isSubnet(p netip.Prefix) bool { return p.IsValid() && store.SubnetOf(p.Addr()) == p }
