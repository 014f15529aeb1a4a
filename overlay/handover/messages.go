package handover

import (
	"errors"
	"net/netip"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

var (
	// ErrRefused is returned when the heir does not take the subnet. It stays
	// with its owner.
	ErrRefused = errors.New("handover: refused")
	// ErrBroken is returned when the stream broke before the commit. The
	// subnet stays with its owner.
	ErrBroken = errors.New("handover: broken off before the commit")
	// ErrInDoubt is returned when the stream broke after the commit: the heir
	// may own the subnet. Send it again, to the same heir.
	ErrInDoubt = errors.New("handover: no answer to the commit")
)

// Offer opens a handover.
type Offer struct {
	Subnet      netip.Prefix `cbor:"1,keyasint"`
	Epoch       uint64       `cbor:"2,keyasint"` // the heir's
	Lease       []byte       `cbor:"3,keyasint"` // the present owner's
	Evidence    []byte       `cbor:"4,keyasint,omitempty"`
	Estimations int          `cbor:"5,keyasint,omitempty"`
	// Wait is the rest of the politeness gap: the heir asks none of the
	// servers for so long. A duration, because clocks differ.
	Wait time.Duration `cbor:"6,keyasint,omitempty"`
	// Pos is the end of the owner's log: the heir's copy is there before anything
	// is granted, and the heir's own log continues it. Send sets it.
	Pos store.TailPos `cbor:"7,keyasint"`
}

type verdict uint8

const (
	verdictPrepared verdict = iota + 1 // the heir has everything, on its disk
	verdictRefused
	verdictDone   // has happened before; Lease tells
	verdictBehind // willing, and its copy is not at Pos
)

type reply struct {
	Verdict verdict `cbor:"1,keyasint"`
	Why     string  `cbor:"2,keyasint,omitempty"`
	Lease   []byte  `cbor:"3,keyasint,omitempty"`
	// Pos is where the heir's copy is: its owner commits to nothing that is not all
	// there.
	Pos store.TailPos `cbor:"4,keyasint"`
}

type commit struct {
	Grant []byte `cbor:"1,keyasint"`
}

type done struct {
	Lease []byte `cbor:"1,keyasint"`
}

// Limits of what a frame may hold, and of one handover.
const (
	maxEvidence = 256 << 10
	maxReason   = 300 // bytes of another peer's words
	// maxTime is the longest that one may take once the subnet is paused. The
	// copying, which may take longer, is done before.
	maxTime = 10 * time.Minute
	// maxWait bounds Offer.Wait: no server asks for longer gaps in earnest.
	maxWait = time.Hour
	// tries is how often an heir that is behind is brought forward in one Send.
	tries = 3
)

// limits are those of every frame.
var limits = wire.Limits{MaxMsg: 1 << 20, Timeout: 20 * time.Second}
