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
}

type verdict uint8

const (
	verdictOK verdict = iota + 1
	verdictRefused
	verdictDone // has happened before; Lease tells
)

type reply struct {
	Verdict verdict `cbor:"1,keyasint"`
	Why     string  `cbor:"2,keyasint,omitempty"`
	Lease   []byte  `cbor:"3,keyasint,omitempty"`
}

// chunk is a part of one host's state. The first one of a host carries its
// record. End marks the last chunk of all and carries nothing.
type chunk struct {
	Host    string            `cbor:"1,keyasint"`
	Record  *store.Host       `cbor:"2,keyasint,omitempty"`
	Robots  map[string][]byte `cbor:"3,keyasint,omitempty"` // by origin
	Entries []store.Entry     `cbor:"4,keyasint,omitempty"`
	Seen    []store.Digest    `cbor:"5,keyasint,omitempty"`
	End     bool              `cbor:"6,keyasint,omitempty"`
}

type prepared struct {
	Hosts   int   `cbor:"1,keyasint"`
	Entries int64 `cbor:"2,keyasint"`
}

type commit struct {
	Grant []byte `cbor:"1,keyasint"`
}

type done struct {
	Lease []byte `cbor:"1,keyasint"`
}

// Limits of what a frame may hold.
const (
	maxChunkEntries = 500
	maxChunkSeen    = 8192
	maxRobots       = 16
	maxHosts        = 1 << 20
)

// limits are those of every frame.
var limits = wire.Limits{MaxMsg: 4 << 20, Timeout: 20 * time.Second}
