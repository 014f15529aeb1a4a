package wire

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Bounds of the CBOR dialect. They hold for every message; the size of a
// message is bounded by its reader.
const (
	maxNesting  = 16      // the deepest message needs six levels
	maxElements = 1 << 17 // of one array: a handed-over subnet travels in chunks below this
	maxPairs    = 1 << 13 // of one map
)

var encMode = must(cbor.EncOptions{
	Sort:        cbor.SortCoreDeterministic,
	IndefLength: cbor.IndefLengthForbidden,
	// RFC 8949 4.2.1: the shortest form that keeps the value. Whoever rounds to
	// float32 saves half.
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

// must is for the two modes above: their options are constants, so a failure
// is a mistake in this file.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Marshal encodes v deterministically: equal values give equal bytes, so that
// the result can be signed. Safe for concurrent use.
func Marshal(v any) ([]byte, error) {
	b, err := encMode.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("wire: encode %T: %w", v, err)
	}
	return b, nil
}

// Unmarshal decodes exactly one value from b into the pointer v. Bytes left
// over are an error. It checks form only: ranges and meanings are the caller's
// to check. Safe for concurrent use.
func Unmarshal(b []byte, v any) error {
	if err := decMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("wire: decode %T: %w", v, err)
	}
	return nil
}
