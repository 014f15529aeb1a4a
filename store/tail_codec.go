package store

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"
)

// Bounds of one record, before compression.
const (
	recordBytes = 256 << 10 // one that is full; a single change may be longer
	recordOps   = 1 << 13
	maxRecord   = 4 << 20
)

// MaxTailRecord bounds the bytes of a record of the log, or of a piece of a
// snapshot, as it is stored and sent.
const MaxTailRecord = maxRecord + 1

// The first byte of a record says how the rest is packed.
const (
	packedPlain = 0
	packedZstd  = 1
	packFrom    = 200 // bytes: what is shorter is not worth it
)

var (
	tailDec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord))
	opDec, _   = cbor.DecOptions{MaxArrayElements: recordOps + 16, MaxMapPairs: 64, MaxNestedLevels: 8}.DecMode()
)

// wireOp is an Op as it is stored and sent: what a key holds behind the host,
// and the value. An empty Name is that of the op before.
type wireOp struct {
	_    struct{} `cbor:",toarray"`
	Kind OpKind
	Name string
	Key  []byte
	Val  []byte
}

// size is about what o takes in a record.
func (o *wireOp) size() int { return 8 + len(o.Name) + len(o.Key) + len(o.Val) }

// Marks in the last byte of the key of an OpEntry.
const (
	markSeen  = 1
	markAgain = 2
)

// encodeOps packs ops into one record.
func encodeOps(ops []wireOp) ([]byte, error) {
	last := ""
	for i := range ops {
		name := ops[i].Name
		if name == last {
			ops[i].Name = ""
		}
		last = name
	}
	b, err := encMode.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("store: encode: %w", err)
	}
	if len(b) < packFrom {
		return append([]byte{packedPlain}, b...), nil
	}
	return pageEnc.EncodeAll(b, append(make([]byte, 0, len(b)/2), packedZstd)), nil
}

// DecodeOps unpacks a record of the log, or a piece of a snapshot. It takes
// foreign bytes: they are bounded in memory, and what it returns is well formed
// and consistent in itself: a host, a key and a URL that belong together.
// Whether they belong to the subnet is Apply's to check, whether a URL may be
// crawled, and what a host's record, state and times may hold, the caller's.
// Errors wrap ErrBadOps.
func DecodeOps(raw []byte) ([]Op, error) {
	if len(raw) == 0 || len(raw) > MaxTailRecord {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadOps, len(raw))
	}
	b := raw[1:]
	switch raw[0] {
	case packedPlain:
	case packedZstd:
		var err error
		if b, err = tailDec.DecodeAll(b, nil); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrBadOps, err)
		}
	default:
		return nil, fmt.Errorf("%w: packed as %d", ErrBadOps, raw[0])
	}
	var ws []wireOp
	if err := opDec.Unmarshal(b, &ws); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBadOps, err)
	}
	ops := make([]Op, len(ws))
	name := ""
	for i := range ws {
		if ws[i].Name == "" {
			ws[i].Name = name
		}
		name = ws[i].Name
		if err := ws[i].open(&ops[i]); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// open reads w into o.
func (w *wireOp) open(o *Op) (err error) {
	o.Kind, o.Name = w.Kind, w.Name
	n := w.keyLen()
	if n < 0 || n != len(w.Key) && n != anyLen {
		return fmt.Errorf("%w: kind %d with a key of %d bytes", ErrBadOps, w.Kind, len(w.Key))
	}
	switch w.Kind {
	case OpHost:
		o.Rec = &Host{}
		err = opDec.Unmarshal(w.Val, o.Rec)
	case OpEntry, OpUnqueue:
		o.Depth, o.Seq = int(binary.BigEndian.Uint16(w.Key)), binary.BigEndian.Uint64(w.Key[2:])
		if w.Kind == OpEntry {
			o.Entry = &Entry{}
			o.Seen, o.Again = w.Key[10]&markSeen != 0, w.Key[10]&markAgain != 0
			err = opDec.Unmarshal(w.Val, o.Entry)
		}
	case OpVisit:
		o.Visit = &Visit{}
		err = opDec.Unmarshal(w.Val, o.Visit)
	case OpOutlink:
		o.Pending = &Pending{}
		err = opDec.Unmarshal(w.Val, o.Pending)
		o.Name = o.Pending.From
	case OpDue, OpUndue:
		o.Due = int64(min(binary.BigEndian.Uint64(w.Key), maxDue))
		o.Digest = Digest(w.Key[8:])
	case OpSeen, OpUnseen, OpAgain, OpUnagain, OpUnvisit, OpNoOutlink:
		if o.Digest = Digest(w.Key); w.Kind == OpNoOutlink {
			o.Name = ""
		}
	case OpState:
		o.Raw = w.Val
	case OpRobots:
		o.Origin, o.Raw = string(w.Key), w.Val
	case OpClear, OpClearHosts, OpClearLinks:
		err = w.openClear(o)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", ErrBadOps, err)
	}
	return o.check()
}

func (w *wireOp) openClear(o *Op) error {
	if w.Kind == OpClear {
		o.Space = w.Key[0]
	} else {
		o.Name = ""
	}
	var r clearRange
	if err := opDec.Unmarshal(w.Val, &r); err != nil {
		return err
	}
	o.Lo, o.Hi = string(r.Lo), string(r.Hi)
	return nil
}

// clearRange is the value of the ops that clear. Lo is exclusive; Hi is
// inclusive, but exclusive of hosts; an empty one is no bound.
type clearRange struct {
	_      struct{} `cbor:",toarray"`
	Lo, Hi []byte
}

const anyLen = 1 << 20

// keyLen is the length that a key of w's kind has; -1 if there is no such kind.
func (w *wireOp) keyLen() int {
	switch w.Kind {
	case OpEntry:
		return 11
	case OpUnqueue:
		return 10
	case OpSeen, OpUnseen, OpAgain, OpUnagain, OpUnvisit, OpNoOutlink:
		return len(Digest{})
	case OpDue, OpUndue:
		return 8 + len(Digest{})
	case OpRobots:
		return anyLen
	case OpClear:
		return 1
	case OpHost, OpHostGone, OpVisit, OpState, OpUnstate, OpOutlink, OpClearHosts, OpClearLinks:
		return 0
	}
	return -1
}
