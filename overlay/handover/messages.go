package handover

import (
	"errors"
	"net/netip"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

var (
	// ErrRefused is returned if the successor does not take the subnet. The subnet stays
	// with its owner.
	ErrRefused = errors.New("handover: refused")
	// ErrBroken is returned if the stream broke before the commit. The subnet stays
	// with its owner.
	ErrBroken = errors.New("handover: broken off before the commit")
	// ErrOutcomeUnknown is returned if the stream broke after the commit was sent: the
	// successor may own the subnet. Call Send again, with the same successor.
	ErrOutcomeUnknown = errors.New("handover: no answer to the commit")
)

// Offer begins a handover.
type Offer struct {
	Subnet      netip.Prefix `cbor:"1,keyasint"`
	Epoch       uint64       `cbor:"2,keyasint"` // the successor's
	Lease       []byte       `cbor:"3,keyasint"` // the present owner's
	Evidence    []byte       `cbor:"4,keyasint,omitempty"`
	Estimations int          `cbor:"5,keyasint,omitempty"`
	// Wait is the rest of the crawl delay: the successor sends no request to the
	// subnet's servers for so long. A duration, because clocks differ.
	Wait time.Duration `cbor:"6,keyasint,omitempty"`
	// Pos is the end of the owner's log. The grant is given only if the successor's copy
	// is there, and the successor's own log continues it. Send sets it.
	Pos store.LogPos `cbor:"7,keyasint"`
	// Replica reports that the owner keeps its copy and may take over with it. A successor
	// that accepts must count the owner among its replicas from the beginning.
	Replica bool `cbor:"8,keyasint,omitempty"`
}

// replyStatus is the answer to an Offer.
type replyStatus uint8

const (
	statusPrepared replyStatus = iota + 1 // the successor has everything on its disk
	statusRefused
	statusDone   // the handover was completed before, by Lease
	statusBehind // willing, but the copy is not at Pos
)

// reply answers an Offer.
type reply struct {
	Status replyStatus `cbor:"1,keyasint"`
	Reason string      `cbor:"2,keyasint,omitempty"`
	Lease  []byte      `cbor:"3,keyasint,omitempty"`
	// Pos is the position of the successor's copy, which the owner checks before it
	// commits.
	Pos store.LogPos `cbor:"4,keyasint"`
}

// commit carries the grant.
type commit struct {
	Grant []byte `cbor:"1,keyasint"`
}

// done carries the successor's lease.
type done struct {
	Lease []byte `cbor:"1,keyasint"`
}

// Bounds of messages and of a handover.
const (
	maxEvidence = 256 << 10
	maxReason   = 300 // bytes of another peer's text
	// maxTime bounds a handover after the subnet is paused. Copying, which may take
	// longer, is done before.
	maxTime = 10 * time.Minute
	// maxTries is how many offers one Send makes to a successor that is behind.
	maxTries = 3
)

// limits apply to all messages.
var limits = wire.Limits{MaxMsg: 1 << 20, Timeout: 20 * time.Second}
