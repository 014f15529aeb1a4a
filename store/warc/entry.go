package warc

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// newEntry describes a response or revisit record by its HTTP header, without key and location. The
// fields are those of pywb (pywb/indexer/archiveindexer.py): a revisit has the type warc/revisit
// and the status "-", and the prefix "sha1:" of a digest is left out.
func newEntry(kind, url string, at time.Time, head []byte, digest string) Entry {
	e := Entry{URL: url, Time: at, MIME: "unk", Status: "-", Digest: "-"}
	if d := strings.TrimPrefix(digest, "sha1:"); d != "" {
		e.Digest = d
	}
	if kind == "revisit" {
		e.MIME = "warc/revisit"
		return e
	}
	line, rest, _ := bytes.Cut(head, []byte("\n"))
	if f := bytes.Fields(line); len(f) > 1 && len(f[1]) == 3 {
		e.Status = string(f[1])
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(bytes.TrimSpace(name), []byte("content-type")) {
			continue
		}
		if i := bytes.IndexAny(value, ";,"); i >= 0 {
			value = value[:i]
		}
		if value = bytes.TrimSpace(value); len(value) > 0 && len(value) < 200 {
			e.MIME = string(value)
		}
		break
	}
	return e
}

// appendTo appends the index line, "key timestamp {json}", without line feed. The key is made from
// the URL. As in pywb, all values in JSON are strings, also numbers.
func (e *Entry) appendTo(b []byte) []byte {
	b = append(b, SURT(e.URL)...)
	b = append(b, ' ')
	b = e.Time.UTC().AppendFormat(b, "20060102150405")
	b = appendJSON(append(b, ` {"url": `...), e.URL)
	b = appendJSON(append(b, `, "mime": `...), e.MIME)
	b = appendJSON(append(b, `, "status": `...), e.Status)
	b = appendJSON(append(b, `, "digest": `...), e.Digest)
	b = strconv.AppendInt(append(b, `, "length": "`...), e.Location.Length, 10)
	b = strconv.AppendInt(append(b, `", "offset": "`...), e.Location.Offset, 10)
	b = appendJSON(append(b, `", "filename": `...), e.Location.File)
	return append(b, '}')
}

// appendJSON appends s as a JSON string in ASCII. Other bytes are encoded as Latin-1, so
// that different values stay different.
func appendJSON(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
