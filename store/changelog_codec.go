package store

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"
)

// Limits of one record, before compression.
const (
	recordBytes = 256 << 10 // size at which a record is complete; one operation may exceed it
	recordOps   = 1 << 13
	maxRecord   = 4 << 20
)

// MaxLogRecord is the maximum size of a log record or snapshot piece in bytes, as it is
// stored and sent.
const MaxLogRecord = maxRecord + 1

// The first byte of a record is the kind of compression.
const (
	uncompressed   = 0
	compressedZstd = 1
	minCompress    = 200 // size in bytes from which records are compressed
)

var (
	recordEnc, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
	recordDec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxRecord))
	opDec, _ = cbor.DecOptions{MaxArrayElements: recordOps + 16, MaxMapPairs: 64,
		MaxNestedLevels: 8}.DecMode()
)

// wireOp is the stored and sent form of an Op: the part of the key behind the host, and
// the value. An empty Name means the name of the previous operation.
type wireOp struct {
	_    struct{} `cbor:",toarray"`
	Kind OpKind
	Name string
	Key  []byte
	Val  []byte
}

// size returns the approximate size of o in a record.
func (o *wireOp) size() int { return 8 + len(o.Name) + len(o.Key) + len(o.Val) }

// Flags in the last byte of the key of an OpEntry.
const (
	flagSeen    = 1
	flagRevisit = 2
)

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
	if len(b) < minCompress {
		return append([]byte{uncompressed}, b...), nil
	}
	return recordEnc.EncodeAll(b, append(make([]byte, 0, len(b)/2), compressedZstd)), nil
}

// DecodeOps decodes a log record or a snapshot piece received from another peer. Its
// memory use is limited. The returned operations are well formed and consistent: host,
// key and URL belong together. Apply checks that they belong to the subnet. The caller
// checks whether a URL may be crawled, and the contents of records, states and times.
// Errors wrap ErrInvalidOps.
func DecodeOps(raw []byte) ([]Op, error) {
	if len(raw) == 0 || len(raw) > MaxLogRecord {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalidOps, len(raw))
	}
	b := raw[1:]
	switch raw[0] {
	case uncompressed:
	case compressedZstd:
		var err error
		if b, err = recordDec.DecodeAll(b, nil); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidOps, err)
		}
	default:
		return nil, fmt.Errorf("%w: compression %d", ErrInvalidOps, raw[0])
	}
	var ws []wireOp
	if err := opDec.Unmarshal(b, &ws); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOps, err)
	}
	ops := make([]Op, len(ws))
	name := ""
	for i := range ws {
		if ws[i].Name == "" {
			ws[i].Name = name
		}
		name = ws[i].Name
		if err := ws[i].decode(&ops[i]); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

func (w *wireOp) decode(o *Op) (err error) {
	o.Kind, o.Name = w.Kind, w.Name
	n := w.keyLen()
	if n < 0 || n != len(w.Key) && n != anyKeyLen {
		return fmt.Errorf("%w: kind %d with a key of %d bytes", ErrInvalidOps, w.Kind, len(w.Key))
	}
	switch w.Kind {
	case OpHost:
		o.Rec = &Host{}
		err = opDec.Unmarshal(w.Val, o.Rec)
	case OpEntry, OpDeleteEntry:
		o.Depth, o.Seq = int(binary.BigEndian.Uint16(w.Key)), binary.BigEndian.Uint64(w.Key[2:])
		if w.Kind == OpEntry {
			o.Entry = &Entry{}
			o.Seen, o.Revisit = w.Key[10]&flagSeen != 0, w.Key[10]&flagRevisit != 0
			err = opDec.Unmarshal(w.Val, o.Entry)
		}
	case OpVisit:
		o.Visit = &Visit{}
		err = opDec.Unmarshal(w.Val, o.Visit)
	case OpGivenUp:
		o.GivenUp = &GivenUp{}
		err = opDec.Unmarshal(w.Val, o.GivenUp)
	case OpOutlink:
		o.Pending = &Pending{}
		err = opDec.Unmarshal(w.Val, o.Pending)
		o.Name = o.Pending.From
	case OpDue, OpDeleteDue:
		o.Due = int64(min(binary.BigEndian.Uint64(w.Key), maxDue))
		o.Digest = Digest(w.Key[8:])
	case OpSeen, OpDeleteSeen, OpRevisit, OpDeleteRevisit, OpDeleteVisit, OpDeleteOutlink,
		OpDeleteGivenUp:
		if o.Digest = Digest(w.Key); w.Kind == OpDeleteOutlink {
			o.Name = ""
		}
	case OpState:
		o.Raw = w.Val
	case OpRobots:
		o.Origin, o.Raw = string(w.Key), w.Val
	case OpClear, OpClearHosts, OpClearOutlinks:
		err = w.decodeClear(o)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOps, err)
	}
	return o.check()
}

func (w *wireOp) decodeClear(o *Op) error {
	if w.Kind == OpClear {
		o.Space = w.Key[0]
	} else {
		o.Name = ""
	}
	var r keyRange
	if err := opDec.Unmarshal(w.Val, &r); err != nil {
		return err
	}
	o.Lo, o.Hi = string(r.Lo), string(r.Hi)
	return nil
}

// keyRange is the value of the operations that clear a range. Lo is exclusive. Hi is
// inclusive, except for hosts. Empty means no bound.
type keyRange struct {
	_      struct{} `cbor:",toarray"`
	Lo, Hi []byte
}

const anyKeyLen = 1 << 20

// keyLen returns the length of a key of w's kind, or -1 if there is no such kind.
func (w *wireOp) keyLen() int {
	switch w.Kind {
	case OpEntry:
		return 11
	case OpDeleteEntry:
		return 10
	case OpSeen, OpDeleteSeen, OpRevisit, OpDeleteRevisit, OpDeleteVisit, OpDeleteOutlink,
		OpDeleteGivenUp:
		return len(Digest{})
	case OpDue, OpDeleteDue:
		return 8 + len(Digest{})
	case OpRobots:
		return anyKeyLen
	case OpClear:
		return 1
	case OpHost, OpDeleteHost, OpVisit, OpGivenUp, OpState, OpDeleteState, OpOutlink,
		OpClearHosts, OpClearOutlinks:
		return 0
	}
	return -1
}
