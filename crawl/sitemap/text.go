package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxDeclaration is the size of the beginning of a document in which an XML declaration is
// searched for.
const maxDeclaration = 1 << 10

// declared finds the encoding of an XML declaration.
var declared = regexp.MustCompile(`^\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// utf8Reader decodes a document to valid UTF-8 without a byte order mark, an XML declaration, or
// characters that XML does not allow.
func utf8Reader(r *bufio.Reader, contentType string) io.Reader {
	head, _ := r.Peek(maxDeclaration)
	if enc := encodingOf(head, contentType); enc != nil {
		t := transform.Chain(enc.NewDecoder(), sanitizer{})
		return skipDeclaration(transform.NewReader(r, t))
	}
	return skipDeclaration(transform.NewReader(r, sanitizer{}))
}

// encodingOf returns the encoding of a document, nil for UTF-8.
func encodingOf(head []byte, contentType string) encoding.Encoding {
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return nil
	case bytes.HasPrefix(head, []byte("\xfe\xff")), bytes.HasPrefix(head, []byte("\x00<")),
		bytes.HasPrefix(head, []byte("\x00h")):
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("<\x00")),
		bytes.HasPrefix(head, []byte("h\x00")):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	}
	label := ""
	if m := declared.FindSubmatch(head); m != nil {
		label = string(m[1])
	} else if _, params, err := mime.ParseMediaType(contentType); err == nil {
		label = params["charset"]
	}
	enc, name := charset.Lookup(label)
	// A document with a readable label is not in UTF-16, and "replacement" would decode it to one
	// character.
	if enc == nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return nil
	}
	return enc
}

// skipDeclaration removes a byte order mark, leading space and the XML declaration: the decoder
// rejects versions and encodings that are harmless.
func skipDeclaration(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(r, 4<<10)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		b.Discard(3)
	}
	head, _ := b.Peek(maxDeclaration)
	text := bytes.TrimLeft(head, " \t\r\n")
	if bytes.HasPrefix(text, []byte("<?xml ")) {
		if i := bytes.Index(text, []byte("?>")); i >= 0 {
			b.Discard(len(head) - len(text) + i + 2)
		}
	}
	return b
}

// sanitizer replaces invalid UTF-8 with U+FFFD, and characters that XML 1.0, section 2.2, does not
// allow with spaces.
type sanitizer struct{ transform.NopResetter }

// Transform implements transform.Transformer.
func (sanitizer) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		c := src[nSrc]
		if c < utf8.RuneSelf {
			if nDst == len(dst) {
				return nDst, nSrc, transform.ErrShortDst
			}
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
				c = ' '
			}
			dst[nDst] = c
			nDst++
			nSrc++
			continue
		}
		if !atEOF && !utf8.FullRune(src[nSrc:]) {
			return nDst, nSrc, transform.ErrShortSrc
		}
		r, size := utf8.DecodeRune(src[nSrc:])
		if r == '\ufffe' || r == '\uffff' {
			r = ' '
		}
		if nDst+utf8.UTFMax > len(dst) {
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += utf8.EncodeRune(dst[nDst:], r)
		nSrc += size
	}
	return nDst, nSrc, nil
}

// isList reports whether a text is a list of URLs, which means that one of its first lines is a
// URL.
func isList(head []byte) bool {
	for i, line := range bytes.SplitN(head, []byte("\n"), 11) {
		if i == 10 || bytes.HasPrefix(bytes.TrimSpace(line), []byte("<")) {
			return false
		}
		if isAbsolute(string(bytes.TrimSpace(line[:min(len(line), maxText)]))) {
			return true
		}
	}
	return false
}

// isAbsolute reports whether s begins like a URL that a list may contain.
func isAbsolute(s string) bool {
	scheme, _, ok := strings.Cut(s[:min(len(s), 10)], "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// parseList parses URLs, one per line, and ignores blank lines and comments.
func (p *parser) parseList() {
	p.doc.Kind = List
	for {
		line, err := p.readLine()
		switch s := strings.TrimSpace(string(line)); {
		case s == "" || s[0] == '#':
		case err != nil && !errors.Is(err, io.EOF): // cut within the line
		case !isAbsolute(s):
			p.doc.Invalid++
		default:
			p.add(rawEntry{loc: s, base: p.base}, false)
		}
		if err != nil {
			p.doc.Truncated = !errors.Is(err, io.EOF)
			return
		}
	}
}

// readLine reads a line that ends in LF or CR. It returns at most one byte more than a URL may
// have.
func (p *parser) readLine() ([]byte, error) {
	p.buf = p.buf[:0]
	for {
		c, err := p.src.r.ReadByte()
		if err != nil || c == '\n' || c == '\r' {
			return p.buf, err
		}
		if len(p.buf) <= maxText {
			p.buf = append(p.buf, c)
		}
	}
}
