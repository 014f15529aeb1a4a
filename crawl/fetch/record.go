package fetch

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// protocol returns the protocol of a response, as in the WARC-Protocol field that is proposed to
// the IIPC: "http/1.0", "http/1.1" or "h2".
func protocol(resp *http.Response) string {
	switch {
	case resp.ProtoMajor == 2:
		return "h2"
	case resp.ProtoMajor == 1 && resp.ProtoMinor == 0:
		return "http/1.0"
	default:
		return "http/1.1"
	}
}

// requestHead returns the head of hr: over HTTP/1.1 the bytes that net/http writes, over HTTP/2 the
// equivalent in HTTP/1.1.
func requestHead(hr *http.Request) []byte {
	var b bytes.Buffer
	b.WriteString("GET " + hr.URL.RequestURI() + " HTTP/1.1\r\n")
	b.WriteString("Host: " + hr.URL.Host + "\r\n")
	writeField(&b, "User-Agent", hr.Header.Get("User-Agent"))
	writeFields(&b, hr.Header, "User-Agent")
	b.WriteString("\r\n")
	return b.Bytes()
}

// responseHead returns the head of resp as HTTP/1 text, HTTP/2 as HTTP/1.1, which WARC readers
// accept: the status line as sent, and the fields sorted by name, with names in canonical case and
// folded lines unfolded. It omits interim responses, trailers, and Transfer-Encoding, because the
// stored body has no transfer coding. Control characters become spaces, so that no value can end
// the head.
func responseHead(resp *http.Response) []byte {
	var b bytes.Buffer
	version := "HTTP/1.1 "
	if resp.ProtoMajor == 1 && resp.ProtoMinor == 0 {
		version = "HTTP/1.0 "
	}
	b.WriteString(version + replaceControls(resp.Status) + "\r\n")
	writeFields(&b, resp.Header, "")
	b.WriteString("\r\n")
	return b.Bytes()
}

// writeFields writes the fields of h except the one named not.
func writeFields(b *bytes.Buffer, h http.Header, not string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name == not {
			continue
		}
		for _, value := range h[name] {
			writeField(b, name, value)
		}
	}
}

func writeField(b *bytes.Buffer, name, value string) {
	b.WriteString(replaceControls(name))
	b.WriteString(": ")
	b.WriteString(replaceControls(value))
	b.WriteString("\r\n")
}

// replaceControls replaces control characters, which could end lines or fields, with spaces.
func replaceControls(s string) string {
	control := func(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }
	for i := range len(s) {
		if control(s[i]) {
			b := []byte(s)
			for j, c := range b {
				if control(c) {
					b[j] = ' '
				}
			}
			return string(b)
		}
	}
	return s
}

// maxValidator is the maximum length of a validator that is sent to a server.
const maxValidator = 1 << 10

// validator returns the value of a conditional field, or "" if it is not a valid field value: it
// was received from a server.
func validator(value string) string {
	value = strings.Trim(value, " \t")
	if len(value) > maxValidator || replaceControls(value) != value {
		return ""
	}
	return value
}
