package replica

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// OpenRequest asks a peer to keep a copy of a subnet.
type OpenRequest struct {
	Subnet      netip.Prefix `cbor:"1,keyasint"`
	Epoch       uint64       `cbor:"2,keyasint"`           // of the owner's lease
	Lease       []byte       `cbor:"3,keyasint,omitempty"` // sealed by the owner
	WitnessSet  []byte       `cbor:"-"`                    // sealed by the owner; once per link
	Evidence    []byte       `cbor:"5,keyasint,omitempty"`
	Estimations int          `cbor:"6,keyasint,omitempty"`

	// ID numbers the requests of a link, so that late replies are recognized.
	ID uint64 `cbor:"7,keyasint"`
	// Log identifies the owner's log; Base is the position in another log at which the
	// owner's log began.
	Log  uint64       `cbor:"8,keyasint"`
	Base store.LogPos `cbor:"9,keyasint"`
}

// check validates the form of a request.
func (o OpenRequest) check() error {
	switch {
	case !o.Subnet.IsValid() || store.SubnetOf(o.Subnet.Addr()) != o.Subnet:
		return fmt.Errorf("%v is not a subnet", o.Subnet)
	case o.Epoch == 0:
		return errors.New("epoch is 0, want 1 or more")
	case len(o.Lease) > maxLease || len(o.Evidence) > maxEvidence || o.Estimations < 0:
		return errors.New("lease or evidence out of range")
	case o.Log == 0 || o.Base.Log == o.Log:
		return errors.New("the log is out of range")
	}
	return nil
}

// ownerFrame is a frame from owner to replica. At most one field besides Heard is set.
type ownerFrame struct {
	WitnessSet []byte         `cbor:"1,keyasint,omitempty"` // of the owner, for all its subnets
	Open       *OpenRequest   `cbor:"2,keyasint,omitempty"`
	Piece      *snapshotPiece `cbor:"3,keyasint,omitempty"`
	Records    *logRecords    `cbor:"4,keyasint,omitempty"`
	Close      *closeRequest  `cbor:"5,keyasint,omitempty"`
	// A frame with none of them is a heartbeat.

	// Heard is the number of replies that had come on this stream when the replica had
	// last taken all frames, or more of them than before.
	Heard uint64 `cbor:"6,keyasint,omitempty"`
}

// isHeartbeat reports whether the frame carries nothing that the replica has to apply.
func (d ownerFrame) isHeartbeat() bool {
	return d.Open == nil && d.Piece == nil && d.Records == nil && d.Close == nil
}

// snapshotPiece is a piece of a snapshot. The pieces are read at different moments, but
// none is older than Start.
type snapshotPiece struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	Start  store.LogPos `cbor:"2,keyasint"` // end of the log when the snapshot began
	// After is the cursor at which the piece begins, empty for the first piece; Next is
	// the cursor at which the next one begins, empty after the last.
	After []byte `cbor:"3,keyasint,omitempty"`
	Next  []byte `cbor:"4,keyasint,omitempty"`
	Ops   []byte `cbor:"5,keyasint"` // for store.DecodeOps
	// Until is the end of the log when the last piece was read. The copy is consistent
	// once it has the log records up to there.
	Until uint64 `cbor:"6,keyasint,omitempty"`
}

// logRecords is a sequence of log records.
type logRecords struct {
	Subnet  netip.Prefix `cbor:"1,keyasint"`
	Log     uint64       `cbor:"2,keyasint"`
	First   uint64       `cbor:"3,keyasint"` // number of the first record
	Records [][]byte     `cbor:"4,keyasint"`
	Urgent  bool         `cbor:"5,keyasint,omitempty"` // a caller waits for the acknowledgement
	// Evidence and Estimations replace those of the OpenRequest, if there is any.
	Evidence    []byte `cbor:"6,keyasint,omitempty"`
	Estimations int    `cbor:"7,keyasint,omitempty"`
}

// closeRequest ends a copy on a link.
type closeRequest struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	Drop   bool         `cbor:"2,keyasint,omitempty"` // the copy is not needed any more
}

// openStatus is the result of an OpenRequest.
type openStatus uint8

const (
	statusOK      openStatus = iota + 1
	statusRefused            // not wanted; asked again after Config.Retry
	statusLater              // not possible at this moment; asked again soon
	statusStale              // a later epoch is known
	statusReopen             // the copy has a gap: send the request again
)

// openReply answers an OpenRequest, or ends the copy that one began.
type openReply struct {
	Subnet netip.Prefix `cbor:"1,keyasint"`
	ID     uint64       `cbor:"2,keyasint"`
	Status openStatus   `cbor:"3,keyasint"`
	Reason string       `cbor:"4,keyasint,omitempty"`
	// Pos and Cursor are the position of the copy; Pos.Log is 0 if there is none.
	Pos    store.LogPos `cbor:"5,keyasint"`
	Cursor []byte       `cbor:"6,keyasint,omitempty"`
}

// ack tells how much of a copy is on the replica's disk.
type ack struct {
	Subnet   netip.Prefix `cbor:"1,keyasint"`
	Pos      store.LogPos `cbor:"2,keyasint"`
	Complete bool         `cbor:"3,keyasint,omitempty"` // the copy has no gap
}

// replicaFrame is a frame from replica to owner.
type replicaFrame struct {
	Taken   uint64      `cbor:"1,keyasint"` // frames taken so far, without heartbeats
	Replies []openReply `cbor:"2,keyasint,omitempty"`
	Acks    []ack       `cbor:"3,keyasint,omitempty"`
}

// Bounds of messages.
const (
	maxLease      = 16 << 10
	maxWitnessSet = 4 << 10
	maxEvidence   = 256 << 10
	maxCursor     = 1 << 10
	maxReason     = 300     // bytes of another peer's text
	maxSeq        = 1 << 56 // positions in a log
	maxName       = 253
	maxURL        = 2048
	maxState      = 64 << 10
	maxHistory    = 4 << 10
	maxRobots     = 1 << 20
	// pieceBytes is the target size of a frame, counted by its records; a single record
	// may be larger. maxFrame is the limit.
	pieceBytes = 256 << 10
	maxRecords = 4096
	maxFrame   = store.MaxLogRecord + 1<<20
	maxAnswer  = 1 << 20
	// maxAcks is how many replies, and how many acks, a frame carries.
	maxAcks = 512
)

// silence is the time without a frame after which either side ends a link.
const silence = 20 * time.Second

// idleTime is how long a replica keeps a link on which no copy is open.
const idleTime = 2 * time.Minute

var (
	ownerLimits   = wire.Limits{MaxMsg: maxFrame, Timeout: silence}
	replicaLimits = wire.Limits{MaxMsg: maxAnswer, Timeout: silence}
)

// clip shortens a text for, or of, another peer. It does not cut a character, because a message
// with a part of one cannot be decoded.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxReason)], "") }
