package extract

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/transform"
)

// queryEncoder writes the queries of references in the encoding of their page (URL Standard,
// section 1.3, "percent-encode after encoding"). It is not safe for concurrent use.
type queryEncoder struct {
	encoder transform.Transformer
	charset string
	single  *charmap.Charmap // the encoding if it has one byte per character, else nil
	pairs   pairs            // where the library differs from the standard
	dst     []byte           // of the current query
	jis     jisState         // of ISO-2022-JP
	buf     [utf8.UTFMax]byte
	out     [16]byte
}

// newQueryEncoder returns the encoder of the queries of a page; nil if they are in UTF-8, as those
// of pages in UTF-16 and in the replacement encoding are (Encoding Standard, "get an output
// encoding").
func newQueryEncoder(name string) *queryEncoder {
	switch name {
	case utf8Name, "utf-16le", "utf-16be", "replacement":
		return nil
	case "iso-2022-jp":
		// Its double-byte characters are those of EUC-JP without the highest bits.
		return &queryEncoder{encoder: japanese.EUCJP.NewEncoder(), charset: name}
	}
	enc, err := htmlindex.Get(strings.TrimSuffix(name, "-i")) // iso-8859-8-i is iso-8859-8
	if err != nil {
		return nil
	}
	q := &queryEncoder{encoder: enc.NewEncoder(), charset: name}
	q.single, _ = enc.(*charmap.Charmap)
	switch name {
	case "big5":
		q.pairs = big5Pairs()
	case "shift_jis":
		q.pairs = shiftJISPairs()
	case "gbk", "gb18030":
		q.pairs = gb18030Pairs
	}
	return q
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
	if !q.mustEncode(ref[start:end]) {
		return ref
	}
	query := ref[start:end]
	if end == len(ref) {
		query = strings.TrimRightFunc(query, func(r rune) bool { return r <= ' ' })
	}
	q.dst, q.jis = append(q.dst[:0], ref[:start]...), jisASCII
	for _, r := range query {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
		case q.charset == "iso-2022-jp":
			q.addJIS(r)
		case r < utf8.RuneSelf:
			q.addByte(byte(r))
		default:
			q.addRune(r)
		}
	}
	q.setJIS(jisASCII)
	return string(append(q.dst, ref[end:]...))
}

// mustEncode reports whether a query may differ in the encoding of the page and in UTF-8.
func (q *queryEncoder) mustEncode(query string) bool {
	for i := range len(query) {
		if query[i] >= utf8.RuneSelf || q.charset == "iso-2022-jp" && isJISControl(rune(query[i])) {
			return true
		}
	}
	return false
}

// addRune adds a character beyond ASCII, or its reference if the encoding does not have it.
func (q *queryEncoder) addRune(r rune) {
	bytes, ok := q.bytes(r)
	if !ok {
		q.addReference(r)
	}
	for _, b := range bytes {
		q.addByte(b)
	}
}

// addReference adds a character that the encoding does not have as "&#N;", escaped.
func (q *queryEncoder) addReference(r rune) {
	q.dst = append(q.dst, "%26%23"...)
	q.dst = strconv.AppendInt(q.dst, int64(r), 10)
	q.dst = append(q.dst, "%3B"...)
}

// addByte adds a byte, escaped if it is in the special-query percent-encode set (URL Standard,
// section 1.3).
func (q *queryEncoder) addByte(b byte) {
	if b > ' ' && b <= '~' && strings.IndexByte("\"#'<>", b) < 0 {
		q.dst = append(q.dst, b)
		return
	}
	const upperHex = "0123456789ABCDEF"
	q.dst = append(q.dst, '%', upperHex[b>>4], upperHex[b&15])
}

// bytes returns the bytes of a character beyond ASCII, by the encoders of the Encoding Standard.
// The encoders of the library differ from them: they encode more characters than browsers do in
// Big5 and EUC-JP, choose other bytes for some in Shift_JIS, and lack a few.
func (q *queryEncoder) bytes(r rune) (bytes []byte, ok bool) {
	if b, ok := q.pairs[r]; ok {
		return b[:], true
	}
	switch q.charset {
	case "shift_jis", "euc-jp", "iso-2022-jp":
		if b, ok := yenOrOverline[r]; ok {
			return []byte{b}, true
		}
		if r == '\u2212' { // the minus sign is written as the full-width hyphen-minus
			r = '\uff0d'
		}
	}
	q.encoder.Reset()
	n := utf8.EncodeRune(q.buf[:], r)
	n, _, err := q.encoder.Transform(q.out[:], q.buf[:n], true)
	bytes = q.out[:n]
	switch {
	case err != nil && q.charset == "shift_jis" && r == 0x80:
		return []byte{0x80}, true
	case err != nil:
		return q.control(r)
	case q.charset == "big5" && bytes[0] < 0xa1, // an extension, which is only decoded
		q.charset == "euc-jp" && bytes[0] == 0x8f, // JIS X 0212
		q.charset == "iso-2022-jp" && bytes[0] < 0xa1:
		return nil, false
	}
	return bytes, true
}

// control returns the byte of a control character that is its own byte in an encoding: the bytes
// from 0x80 to 0x9F to which the indexes of the standard assign no other character.
func (q *queryEncoder) control(r rune) (bytes []byte, ok bool) {
	if q.single == nil || r < 0x80 || r > 0x9f || q.single.DecodeByte(byte(r)) != utf8.RuneError {
		return nil, false
	}
	return []byte{byte(r)}, true
}

// yenOrOverline are the characters that the Japanese encodings write as ASCII.
var yenOrOverline = map[rune]byte{'\u00a5': '\\', '\u203e': '~'}

// gb18030Pairs are the characters for which the Encoding Standard has two bytes and the library
// four or none. Private Use characters are left as the library has them.
var gb18030Pairs = pairs{
	'\u1e3f': {0xa8, 0xbc}, '\u9fb4': {0xfe, 0x59}, '\u9fb5': {0xfe, 0x61},
	'\u9fb6': {0xfe, 0x66}, '\u9fb7': {0xfe, 0x67}, '\u9fb8': {0xfe, 0x6d},
	'\u9fb9': {0xfe, 0x7e}, '\u9fba': {0xfe, 0x90}, '\u9fbb': {0xfe, 0xa0},
	'\ufe10': {0xa6, 0xd9}, '\ufe11': {0xa6, 0xdb}, '\ufe12': {0xa6, 0xda},
	'\ufe13': {0xa6, 0xdc}, '\ufe14': {0xa6, 0xdd}, '\ufe15': {0xa6, 0xde},
	'\ufe16': {0xa6, 0xdf}, '\ufe17': {0xa6, 0xec}, '\ufe18': {0xa6, 0xed},
	'\ufe19': {0xa6, 0xf3},
}

// pairs are the bytes of characters for which the library chooses others.
type pairs map[rune][2]byte

// big5Pairs are the characters that Big5 has twice. The standard chooses the first place, except
// for six characters.
var big5Pairs = sync.OnceValue(func() pairs {
	return choosePairs(traditionalchinese.Big5, 0xa1, "", "═╞╡╪十卅")
})

// shiftJISPairs are the characters that are written in the rows of the IBM extensions, because the
// standard leaves out the rows of NEC, which are before them.
var shiftJISPairs = sync.OnceValue(func() pairs {
	return choosePairs(japanese.ShiftJIS, 0x81, "\xed\xee", "")
})

// choosePairs returns the characters for which the library does not choose the first place in an
// index, or the last place for the characters in last. The places are those in the rows of the
// leading bytes from first on, without those in skip.
func choosePairs(e encoding.Encoding, first byte, skip, last string) pairs {
	m := pairs{}
	decoder, encoder := e.NewDecoder(), e.NewEncoder()
	for row := int(first); row <= 0xfe; row++ {
		if strings.IndexByte(skip, byte(row)) >= 0 {
			continue
		}
		for cell := 0x40; cell <= 0xfe; cell++ {
			bytes := [2]byte{byte(row), byte(cell)}
			text, err := decoder.Bytes(bytes[:])
			r, n := utf8.DecodeRune(text)
			if err != nil || n != len(text) || r < utf8.RuneSelf || r == utf8.RuneError {
				continue
			}
			if _, ok := m[r]; !ok || strings.ContainsRune(last, r) {
				m[r] = bytes
			}
		}
	}
	for r, chosen := range m {
		b, err := encoder.Bytes([]byte(string(r)))
		if err == nil && string(b) == string(chosen[:]) {
			delete(m, r)
		}
	}
	return m
}

// jisState is the state of the encoder of ISO-2022-JP.
type jisState uint8

const (
	jisASCII jisState = iota
	jisRoman
	jisDouble
)

// jisEscapes are the sequences that enter a state.
var jisEscapes = [...]string{jisASCII: "\x1b(B", jisRoman: "\x1b(J", jisDouble: "\x1b$B"}

func (q *queryEncoder) setJIS(s jisState) {
	if q.jis == s {
		return
	}
	q.jis = s
	for _, b := range []byte(jisEscapes[s]) {
		q.addByte(b)
	}
}

// isJISControl reports whether ISO-2022-JP replaces a control character, which would change the
// state of a decoder.
func isJISControl(r rune) bool { return r == 0x0e || r == 0x0f || r == 0x1b }

// addJIS adds a character in ISO-2022-JP (Encoding Standard, "ISO-2022-JP encoder").
func (q *queryEncoder) addJIS(r rune) {
	if 0xff61 <= r && r <= 0xff9f {
		r = fullWidthKatakana[r-0xff61]
	}
	switch {
	case r < utf8.RuneSelf:
		if q.jis != jisRoman || r == '\\' || r == '~' {
			q.setJIS(jisASCII)
		}
		if isJISControl(r) {
			q.addReference(utf8.RuneError)
		} else {
			q.addByte(byte(r))
		}
		return
	case yenOrOverline[r] != 0:
		q.setJIS(jisRoman)
		q.addByte(yenOrOverline[r])
		return
	}
	bytes, ok := q.bytes(r)
	if !ok {
		if q.jis == jisDouble {
			q.setJIS(jisASCII)
		}
		q.addReference(r)
		return
	}
	q.setJIS(jisDouble)
	for _, b := range bytes {
		q.addByte(b &^ 0x80)
	}
}

// fullWidthKatakana replaces the characters from U+FF61 to U+FF9F, which ISO-2022-JP lacks.
var fullWidthKatakana = []rune("。「」、・ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテト" +
	"ナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン゛゜")
