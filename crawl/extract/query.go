package extract

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// queryEncoder writes the queries of references in the encoding of their page (URL Standard,
// section 1.3, "percent-encode after encoding"). It is not safe for concurrent use.
type queryEncoder struct{ encoder *encoding.Encoder }

// newQueryEncoder returns the encoder of the queries of a page; nil if they are in UTF-8, as those
// of pages in UTF-16 and in the replacement encoding are (Encoding Standard, "get an output
// encoding").
func newQueryEncoder(name string) *queryEncoder {
	switch name {
	case utf8Name, "utf-16le", "utf-16be", "replacement":
		return nil
	}
	enc, err := htmlindex.Get(strings.TrimSuffix(name, "-i")) // iso-8859-8-i is iso-8859-8
	if err != nil {
		return nil
	}
	return &queryEncoder{enc.NewEncoder()}
}

// encode returns a reference with its query in the encoding of the page. The query begins at the
// first "?", and the characters that the parser of URLs removes are no part of it.
func (q *queryEncoder) encode(ref string) string {
	start := strings.IndexByte(ref, '?') + 1
	if q == nil || start == 0 {
		return ref
	}
	end := len(ref)
	if i := strings.IndexByte(ref, '#'); i >= 0 {
		if i < start {
			return ref
		}
		end = i
	}
	query := ref[start:end]
	if !strings.ContainsFunc(query, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return ref
	}
	if end == len(ref) {
		query = strings.TrimRightFunc(query, func(r rune) bool { return r <= ' ' })
	}
	query = removed.Replace(query)
	encoded, err := q.encoder.String(query)
	if err != nil {
		if encoded, err = q.encoder.String(q.known(query)); err != nil { // each is known
			return ref
		}
	}
	dst := []byte(ref[:start])
	for i := range len(encoded) {
		dst = appendQueryByte(dst, encoded[i])
	}
	return string(append(dst, ref[end:]...))
}

// removed removes the characters that the parser of URLs removes.
var removed = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// known returns a query with "&#N;", escaped, in place of each character that the encoding does not
// have.
func (q *queryEncoder) known(query string) string {
	var b strings.Builder
	for _, r := range query {
		if r >= utf8.RuneSelf {
			if _, err := q.encoder.String(string(r)); err != nil {
				fmt.Fprintf(&b, "%%26%%23%d%%3B", r)
				continue
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// appendQueryByte adds a byte, escaped if it is in the special-query percent-encode set (URL
// Standard, section 1.3).
func appendQueryByte(dst []byte, b byte) []byte {
	if b > ' ' && b <= '~' && strings.IndexByte("\"#'<>", b) < 0 {
		return append(dst, b)
	}
	return fmt.Appendf(dst, "%%%02X", b)
}
