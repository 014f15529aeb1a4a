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
	Visits  []store.Visit     `cbor:"7,keyasint,omitempty"`
	State   []byte            `cbor:"8,keyasint,omitempty"` // of the host; with its record
	// Rest is how long the host is to be left alone, with its record. A duration,
	// because clocks differ.
	Rest time.Duration `cbor:"9,keyasint,omitempty"`
}

// prepared is what has been sent, and what has been stored of it: the owner
// commits to nothing that is not all there.
type prepared struct {
	Hosts   int   `cbor:"1,keyasint"`
	Entries int64 `cbor:"2,keyasint"`
	Seen    int64 `cbor:"3,keyasint"`
	Visits  int64 `cbor:"4,keyasint,omitempty"`
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
	maxChunkVisits  = 300
	maxHistory      = 4 << 10  // bytes of one visit
	maxState        = 64 << 10 // bytes of one host
	maxRobots       = 16
	maxRobotsBytes  = 2 << 20 // of one frame; what is left out is fetched again
	maxEvidence     = 256 << 10
	maxName         = 253
	maxURL          = 2048 // bytes; canonical URLs are no longer
	maxDepth        = 1<<16 - 1
	maxTries        = 255
	maxHops         = 255
	maxReason       = 300 // bytes of another peer's words
)

// Limits of one handover.
const (
	maxHosts   = 1 << 18
	maxEntries = 1 << 26
	maxSeen    = 1 << 28
	// maxTime is the longest that one may take. A subnet of ten million URLs
	// needs some minutes.
	maxTime = 30 * time.Minute
	// maxWait bounds Offer.Wait: no server asks for longer gaps in earnest.
	maxWait = time.Hour
	// maxRest bounds the rest of one host: Retry-After, a day's budget.
	maxRest = 24 * time.Hour
)

// limits are those of every frame.
var limits = wire.Limits{MaxMsg: 4 << 20, Timeout: 20 * time.Second}
