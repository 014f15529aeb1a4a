package wire

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Bounds of the CBOR dialect for every message. The size of a message is bounded by
// its reader.
const (
	maxNesting  = 16      // the deepest message has six levels
	maxElements = 1 << 17 // of an array
	maxPairs    = 1 << 13 // of a map
)

var encMode = must(cbor.EncOptions{
	Sort:        cbor.SortCoreDeterministic,
	IndefLength: cbor.IndefLengthForbidden,
	// RFC 8949 4.2.1: the shortest form that keeps the value. Values rounded to
	// float32 so need half the bytes.
	ShortestFloat: cbor.ShortestFloat16,
	Time:          cbor.TimeRFC3339Nano,
	TimeTag:       cbor.EncTagNone,
	TagsMd:        cbor.TagsForbidden,
}.EncMode())

var decMode = must(cbor.DecOptions{
	DupMapKey:        cbor.DupMapKeyEnforcedAPF,
	IndefLength:      cbor.IndefLengthForbidden,
	TagsMd:           cbor.TagsForbidden,
	MaxNestedLevels:  maxNesting,
	MaxArrayElements: maxElements,
	MaxMapPairs:      maxPairs,
}.DecMode())

// must is for values made from constants: a failure is a mistake in this package.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Marshal encodes v deterministically: equal values give equal bytes, so that
// the result can be signed. It is safe for concurrent use.
func Marshal(v any) ([]byte, error) {
	b, err := encMode.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("wire: encode %T: %w", v, err)
	}
	return b, nil
}

// Unmarshal decodes exactly one value from b into the pointer v; left-over bytes
// are an error. Nothing is decoded of a message that would take much more memory than it
// has bytes: ErrTooLarge. It checks only the form; the caller checks ranges and meanings.
// It is safe for concurrent use.
func Unmarshal(b []byte, v any) error {
	if _, err := decodedSize(b, v); err != nil {
		return err
	}
	return unmarshal(b, v)
}

func unmarshal(b []byte, v any) error {
	if err := decMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("wire: decode %T: %w", v, err)
	}
	return nil
}
