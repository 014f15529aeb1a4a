package shadow

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// Open says what of a subnet its owner wants another peer to keep a copy of.
// Lease, Evidence and Estimations that are left zero are taken from the
// owner's record of the subnet when the link opens it, so that they need not be
// held in memory for each of many subnets.
type Open struct {
	Subnet      netip.Prefix `cbor:"1,keyasint"`
	Epoch       uint64       `cbor:"2,keyasint"`           // of the owner's lease
	Lease       []byte       `cbor:"3,keyasint,omitempty"` // sealed, by the owner
	Panel       []byte       `cbor:"-"`                    // sealed, by the owner; told once a link
	Evidence    []byte       `cbor:"5,keyasint,omitempty"`
	Estimations int          `cbor:"6,keyasint,omitempty"`

	// Turn numbers the Opens of a link, so that a late answer is known as one.
	Turn uint64 `cbor:"7,keyasint"`
	// Log is the identity of the owner's log, and Base the position of another log
	// that equals its beginning.
	Log  uint64        `cbor:"8,keyasint"`
	Base store.TailPos `cbor:"9,keyasint"`
}

// check looks at the form of an Open.
func (o Open) check() error {
	switch {
	case !o.Subnet.IsValid() || store.SubnetOf(o.Subnet.Addr()) != o.Subnet:
		return fmt.Errorf("%v is no subnet", o.Subnet)
	case o.Epoch == 0:
		return errors.New("epoch 0 is nobody's")
	case len(o.Lease) > maxLease || len(o.Evidence) > maxEvidence || o.Estimations < 0:
		return errors.New("lease or evidence out of range")
	case o.Log == 0 || o.Base.Log == o.Log:
		return errors.New("the log is out of range")
	}
	return nil
}

// down is one frame from owner to replica: one of its fields is set, besides Heard.
type down struct {
	Panel []byte   `cbor:"1,keyasint,omitempty"` // of the owner, for all its subnets
	Open  *Open    `cbor:"2,keyasint,omitempty"`
	Snap  *snap    `cbor:"3,keyasint,omitempty"`
	Tail  *tail    `cbor:"4,keyasint,omitempty"`
	Close *closing `cbor:"5,keyasint,omitempty"`
	// A frame without any is a beat.

	// Heard is how many answers had come on this stream when everything sent before
	// was taken in, or more of it than before.
	Heard uint64 `cbor:"6,keyasint,omitempty"`
}

// beat says that a frame carries nothing that has to be taken in.
func (d down) beat() bool { return d.Open == nil && d.Snap == nil && d.Tail == nil && d.Close == nil }

// snap is a piece of a snapshot: of no one moment, but no part of it is older
// than Start.
type snap struct {
	Subnet netip.Prefix  `cbor:"1,keyasint"`
	Start  store.TailPos `cbor:"2,keyasint"` // the log when the snapshot was begun
	// After is the place where the piece begins, empty for the first, and Next where
	// the next one does, empty after the last.
	After []byte `cbor:"3,keyasint,omitempty"`
	Next  []byte `cbor:"4,keyasint,omitempty"`
	Ops   []byte `cbor:"5,keyasint"` // as store.DecodeOps has it
	// Until is the log when the last piece was read: without what was logged
	// up to there the copy is of no one moment.
	Until uint64 `cbor:"6,keyasint,omitempty"`
}

// tail is a run of records of the log.
type tail struct {
	Subnet  netip.Prefix `cbor:"1,keyasint"`
	Log     uint64       `cbor:"2,keyasint"`
	First   uint64       `cbor:"3,keyasint"` // number of the first record
	Records [][]byte     `cbor:"4,keyasint"`
	Now     bool         `cbor:"5,keyasint,omitempty"` // somebody waits for the acknowledgement
}

type closing struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	Drop   bool         `cbor:"2,keyasint,omitempty"` // the copy is of no use any more
}

type verdict uint8

const (
	verdictOK      verdict = iota + 1
	verdictRefused         // not wanted; asked again after a long while
	verdictLater           // a fault of its own; asked again soon
	verdictStale           // a later epoch is known
	verdictAgain           // something is missing between what was and what came: open again
)

// have answers an Open, or ends what one began.
type have struct {
	Subnet  netip.Prefix `cbor:"1,keyasint"`
	Turn    uint64       `cbor:"2,keyasint"`
	Verdict verdict      `cbor:"3,keyasint"`
	Why     string       `cbor:"4,keyasint,omitempty"`
	// Pos and Cursor are those of the copy; Pos.Log is 0 if there is none.
	Pos    store.TailPos `cbor:"5,keyasint"`
	Cursor []byte        `cbor:"6,keyasint,omitempty"`
}

// ack says how far a copy is on the replica's disk. Whole: it has no gap.
type ack struct {
	Subnet netip.Prefix  `cbor:"1,keyasint"`
	Pos    store.TailPos `cbor:"2,keyasint"`
	Whole  bool          `cbor:"3,keyasint,omitempty"`
}

// up is one frame from replica to owner.
type up struct {
	Took  uint64 `cbor:"1,keyasint"` // frames taken in so far, beats not counted
	Haves []have `cbor:"2,keyasint,omitempty"`
	Acks  []ack  `cbor:"3,keyasint,omitempty"`
}

// Bounds of what travels.
const (
	maxLease    = 16 << 10
	maxPanel    = 4 << 10
	maxEvidence = 256 << 10
	maxCursor   = 1 << 10
	maxReason   = 300     // bytes of another peer's words
	maxSeq      = 1 << 56 // places in a log
	maxName     = 253
	maxURL      = 2048
	maxState    = 64 << 10
	maxHistory  = 4 << 10
	maxRobots   = 1 << 20
	// partBytes is how much a frame carries, counted by its records; one record
	// may be larger. maxFrame bounds it.
	partBytes  = 256 << 10
	maxRecords = 4096
	maxFrame   = store.MaxTailRecord + 1<<20
	maxAnswer  = 1 << 20
	// maxAcks is how many of each sort an answer carries.
	maxAcks = 512
)

// Bounds of a conversation: the silence after which either side ends it.
const silence = 20 * time.Second

// idleTime is how long a replica holds a link on which no copy is open.
const idleTime = 2 * time.Minute

var (
	downLimits = wire.Limits{MaxMsg: maxFrame, Timeout: silence}
	upLimits   = wire.Limits{MaxMsg: maxAnswer, Timeout: silence}
)

// clip shortens another peer's words.
func clip(why string) string { return why[:min(len(why), maxReason)] }
