package revisit

import (
	"net/http"
	"strings"
	"time"
)

const (
	// maxETag is the maximum length of a stored entity tag in bytes. Longer ones are
	// dropped rather than truncated, because a part of a tag is a different tag.
	maxETag = 128
	// maxModified is the maximum length of a date in bytes.
	maxModified = 64
	// fullVisitEvery is the number of visits of which one is unconditional, because some
	// servers answer 304 forever.
	fullVisitEvery = 16
)

// Validators returns the values of If-None-Match and If-Modified-Since (RFC 9110, sections
// 13.1.2 and 13.1.3) for the next visit; "" means none. Strong and weak entity tags are
// returned as received, because If-None-Match compares weakly. Dates have the form
// preferred by RFC 9110, section 5.6.7. Every sixteenth visit has no validators, to detect
// servers that always answer 304.
func Validators(h History) (ifNoneMatch, ifModifiedSince string) {
	if h.Fetched == 0 || h.Visits%fullVisitEvery == 0 {
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

// keepValidators stores the validators of a visit. Content replaces both, even by none; a
// 304 replaces those that it repeats.
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

// isETag reports whether s is an entity tag (RFC 9110, section 8.8.3). Bytes beyond ASCII
// are legal but not accepted, because a History is UTF-8 text.
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

// parseModified returns a Last-Modified in Unix seconds, or 0 if it is not an HTTP date or
// is later than now. Servers must not send later dates (RFC 9110, section 8.8.2.1), and one
// would hide changes until then.
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
