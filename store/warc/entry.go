package warc

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// entry is an index line: it describes a capture.
type entry struct {
	url, mime, status, digest string
	at                        time.Time
	offset, length            int64
	file                      string
}

// newEntry describes a response or revisit record by its HTTP header. The fields are those
// of pywb (pywb/indexer/archiveindexer.py): a revisit has the type warc/revisit and the
// status "-", and the prefix "sha1:" of a digest is left out.
func newEntry(kind, url string, at time.Time, head []byte, digest string) entry {
	e := entry{url: url, at: at, mime: "unk", status: "-", digest: "-"}
	if d := strings.TrimPrefix(digest, "sha1:"); d != "" {
		e.digest = d
	}
	if kind == "revisit" {
		e.mime = "warc/revisit"
		return e
	}
	line, rest, _ := bytes.Cut(head, []byte("\n"))
	if f := bytes.Fields(line); len(f) > 1 && len(f[1]) == 3 {
		e.status = string(f[1])
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
			e.mime = string(value)
		}
		break
	}
	return e
}

// appendTo appends the line, "key timestamp {json}", without line feed. As in pywb, all
// values in JSON are strings, also numbers.
func (e *entry) appendTo(b []byte) []byte {
	b = append(b, SURT(e.url)...)
	b = append(b, ' ')
	b = e.at.UTC().AppendFormat(b, "20060102150405")
	b = appendJSON(append(b, ` {"url": `...), e.url)
	b = appendJSON(append(b, `, "mime": `...), e.mime)
	b = appendJSON(append(b, `, "status": `...), e.status)
	b = appendJSON(append(b, `, "digest": `...), e.digest)
	b = strconv.AppendInt(append(b, `, "length": "`...), e.length, 10)
	b = strconv.AppendInt(append(b, `", "offset": "`...), e.offset, 10)
	b = appendJSON(append(b, `", "filename": `...), e.file)
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
