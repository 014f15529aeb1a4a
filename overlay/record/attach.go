package record

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// attached is the field of an envelope that has what others say of the record. It is none of RFC
// 0002, so that readers that do not know it skip it. The signature does not cover it.
const attached = 15

// Attach adds bytes to a sealed record that has none yet; nil bytes are none.
func Attach(sealed, extra []byte) []byte {
	if len(extra) == 0 {
		return sealed
	}
	sealed = protowire.AppendTag(sealed[:len(sealed):len(sealed)], attached, protowire.BytesType)
	return protowire.AppendBytes(sealed, extra)
}

// Attached returns a sealed record without what was attached to it, and that. It fails with
// ErrEnvelope if sealed is no message, or something is attached twice or not at the end.
func Attached(sealed []byte) (bare, extra []byte, err error) {
	for rest := sealed; len(rest) > 0; {
		num, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil, nil, fmt.Errorf("%w: %w", ErrEnvelope, protowire.ParseError(n))
		}
		if num == attached && kind == protowire.BytesType {
			extra, m := protowire.ConsumeBytes(rest[n:])
			if m < 0 || m != len(rest)-n {
				return nil, nil, fmt.Errorf("%w: something behind what is attached", ErrEnvelope)
			}
			return sealed[:len(sealed)-len(rest)], extra, nil
		}
		m := protowire.ConsumeFieldValue(num, kind, rest[n:])
		if m < 0 {
			return nil, nil, fmt.Errorf("%w: %w", ErrEnvelope, protowire.ParseError(m))
		}
		rest = rest[n+m:]
	}
	return sealed, nil, nil
}
