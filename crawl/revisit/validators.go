package revisit

import (
	"net/http"
	"strings"
	"time"
)

const (
	// maxETag bounds the entity tag that is kept, in bytes. Longer ones are
	// dropped, not cut: a part of a tag is another tag.
	maxETag = 128
	// maxModified bounds the text of a date, in bytes.
	maxModified = 64
	// fullEach: every so many visits ask for the page itself, because some
	// servers answer 304 for ever.
	fullEach = 16
)

// Validators returns the values of If-None-Match and If-Modified-Since (RFC
// 9110, sections 13.1.2 and 13.1.3) for the next visit, each "" if there is
// none. Strong and weak entity tags go back as they came, as If-None-Match
// compares weakly. Dates are written anew in the form that RFC 9110, section
// 5.6.7, prefers. Every sixteenth visit has none, to catch servers that call
// everything unmodified.
func Validators(h History) (ifNoneMatch, ifModifiedSince string) {
	if h.Fetched == 0 || h.Visits%fullEach == 0 {
		return "", ""
	}
	if isETag(h.ETag) {
		ifNoneMatch = h.ETag
	}
	if h.Modified > 0 && h.Modified <= h.Fetched {
		ifModifiedSince = time.Unix(h.Modified, 0).UTC().Format(http.TimeFormat)
	}
	return ifNoneMatch, ifModifiedSince
}

// keepValidators takes over the validators of a visit: of content all, also
// that there are none; of a 304 those that it repeats.
func (h *History) keepValidators(o Observation, modified int64) {
	content := o.Outcome == Fetched || o.Digest != [16]byte{}
	tag := ""
	if isETag(o.ETag) {
		tag = strings.Clone(o.ETag)
	}
	if content || tag != "" {
		h.ETag = tag
	}
	if content || modified != 0 {
		h.Modified = modified
	}
}

// isETag says whether s is an entity tag (RFC 9110, section 8.8.3). Bytes
// beyond ASCII are legal but not taken: a History is UTF-8 text.
func isETag(s string) bool {
	if len(s) > maxETag {
		return false
	}
	s, _ = strings.CutPrefix(s, "W/")
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for _, c := range []byte(s[1 : len(s)-1]) {
		if c < '!' || c == '"' || c > '~' {
			return false
		}
	}
	return true
}

// parseModified returns a Last-Modified in Unix seconds, 0 if it is no HTTP
// date or lies after now: a server must not send that (RFC 9110, section
// 8.8.2.1), and it would hide changes until then.
func parseModified(s string, now int64) int64 {
	if len(s) > maxModified {
		return 0
	}
	t, err := http.ParseTime(s)
	if err != nil || t.Unix() <= 0 || t.Unix() > now {
		return 0
	}
	return t.Unix()
}
