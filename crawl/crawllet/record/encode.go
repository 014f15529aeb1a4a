package record

import "encoding/binary"

// Major types of CBOR.
const (
	unsigned, negative, byteString = 0 << 5, 1 << 5, 2 << 5
	textString, array, pairs       = 3 << 5, 4 << 5, 5 << 5
)

// encode returns the CBOR of a record, as its tags say.
func (r *Record) encode() []byte {
	m := encoder{b: make([]byte, 1, 512+len(r.Text)+len(r.Body))}
	m.text(1, r.URL)
	m.integer(2, int64(r.Status))
	m.text(3, r.Type)
	m.integer(4, r.Modified)
	m.text(5, r.Location)
	m.integer(6, r.Size)
	m.bytes(7, r.Digest)
	m.text(8, r.Title)
	m.text(9, r.Text)
	if len(r.Links) > 0 {
		m.key(10)
		m.head(array, uint64(len(r.Links)))
		for _, l := range r.Links {
			m.head(textString, uint64(len(l)))
			m.b = append(m.b, l...)
		}
	}
	m.bytes(11, r.Body)
	if r.Cut {
		m.key(12)
		m.b = append(m.b, 0xf5) // true
	}
	m.b[0] = pairs | m.n
	return m.b
}

// encoder encodes a map of less than 24 pairs, without those that are empty.
type encoder struct {
	b []byte
	n byte // pairs
}

func (e *encoder) key(k byte) { e.b, e.n = append(e.b, k), e.n+1 }

// head appends a major type with its number.
func (e *encoder) head(major byte, n uint64) {
	switch {
	case n < 24:
		e.b = append(e.b, major|byte(n))
	case n < 1<<8:
		e.b = append(e.b, major|24, byte(n))
	case n < 1<<16:
		e.b = binary.BigEndian.AppendUint16(append(e.b, major|25), uint16(n))
	case n < 1<<32:
		e.b = binary.BigEndian.AppendUint32(append(e.b, major|26), uint32(n))
	default:
		e.b = binary.BigEndian.AppendUint64(append(e.b, major|27), n)
	}
}

func (e *encoder) integer(k byte, n int64) {
	switch {
	case n > 0:
		e.key(k)
		e.head(unsigned, uint64(n))
	case n < 0:
		e.key(k)
		e.head(negative, uint64(-1-n))
	}
}

func (e *encoder) text(k byte, s string) {
	if s != "" {
		e.key(k)
		e.head(textString, uint64(len(s)))
		e.b = append(e.b, s...)
	}
}

func (e *encoder) bytes(k byte, s []byte) {
	if len(s) > 0 {
		e.key(k)
		e.head(byteString, uint64(len(s)))
		e.b = append(e.b, s...)
	}
}
