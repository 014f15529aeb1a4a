package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"peerd/internal/lru"
	"peerd/store"
)

// errRange means that the server did not continue a body as requested.
var errRange = errors.New("server did not continue the body")

const (
	// minPartial is the number of bytes of a body from which its beginning is kept.
	minPartial = 64 << 10
	// maxPartials is the number of beginnings that are kept; Config.MaxPartial limits their size.
	maxPartials = 64
	// minModifiedAge is the age at which Last-Modified identifies a body (RFC 9110, section
	// 8.8.2.2).
	minModifiedAge = time.Minute
)

// partial is the beginning of a body without a content coding that was cut by an error.
type partial struct {
	data      []byte
	header    http.Header // of the response, with status 200
	validator string      // for If-Range
}

// partials keeps the beginnings of bodies, so that the next request for the URL asks for the rest.
type partials struct {
	max int64

	mu   sync.Mutex
	size int64
	lru  *lru.Simple[store.URL, *partial]
}

func newPartials(size int64) *partials {
	p := &partials{max: size}
	p.lru = lru.NewSimple(maxPartials, func(_ store.URL, old *partial) {
		p.size -= int64(cap(old.data))
	})
	return p
}

// put keeps the beginning of a body, in place of the least recently added ones.
func (p *partials) put(u store.URL, b *partial) {
	if b == nil || int64(cap(b.data)) > p.max {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lru.Remove(u)
	for p.size+int64(cap(b.data)) > p.max {
		p.lru.RemoveOldest()
	}
	p.size += int64(cap(b.data))
	p.lru.Add(u, b)
}

// take removes and returns the beginning of a body, or nil.
func (p *partials) take(u store.URL) *partial {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, _ := p.lru.Peek(u)
	p.lru.Remove(u)
	return b
}

// newPartial returns the beginning of the body of a response, or nil if it is too short, or if the
// rest cannot be requested.
func newPartial(h http.Header, status int, data []byte) *partial {
	v := strongValidator(h)
	if status != http.StatusOK || len(data) < minPartial || v == "" ||
		strings.EqualFold(h.Get("Accept-Ranges"), "none") {
		return nil
	}
	return &partial{data: data, header: h, validator: v}
}

// strongValidator returns the value of If-Range that identifies the body of a response byte for
// byte, or "" (RFC 9110, sections 8.8 and 13.1.5).
func strongValidator(h http.Header) string {
	if tag := validator(h.Get("ETag")); strings.HasPrefix(tag, `"`) {
		return tag
	}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	sent, err2 := http.ParseTime(h.Get("Date"))
	if errors.Join(err, err2) != nil || sent.Sub(modified) < minModifiedAge {
		return ""
	}
	return validator(h.Get("Last-Modified"))
}

// request adds the fields that ask for the rest of the body.
func (p *partial) request(h http.Header) {
	h["Range"] = []string{fmt.Sprintf("bytes=%d-", len(p.data))}
	h["If-Range"] = []string{p.validator}
}

// join makes resp the response to a request for the whole body, without the bytes in data. ok is
// false if the server has sent the whole body. Errors match errRange, also for a response that does
// not say how long it is: it could end early unnoticed.
func (p *partial) join(resp *http.Response) (ok bool, err error) {
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusRequestedRangeNotSatisfiable:
		return false, fmt.Errorf("%w: %s", errRange, resp.Status)
	default:
		return false, nil
	}
	field := resp.Header.Get("Content-Range")
	tag := resp.Header.Get("ETag")
	if first, last, total := parseContentRange(field); first != int64(len(p.data)) ||
		last < first || total != last+1 || resp.ContentLength != total-first ||
		tag != "" && tag != p.header.Get("ETag") || len(resp.Header["Content-Encoding"]) > 0 {
		return false, fmt.Errorf("%w: Content-Range %.80q, ETag %.80q", errRange, field, tag)
	}
	resp.StatusCode, resp.Header = http.StatusOK, p.header
	return true, nil
}

var contentRange = regexp.MustCompile(`^bytes ([0-9]+)-([0-9]+)/([0-9]+)$`)

// parseContentRange returns the positions of the first and the last byte and the size of the whole
// body, RFC 9110, section 14.4. All are -1 if field is not of that form or names no size.
func parseContentRange(field string) (first, last, total int64) {
	var n [3]int64
	parts := contentRange.FindStringSubmatch(field)
	for i := range n {
		var err error
		if parts == nil {
			return -1, -1, -1
		}
		if n[i], err = strconv.ParseInt(parts[i+1], 10, 64); err != nil {
			return -1, -1, -1
		}
	}
	return n[0], n[1], n[2]
}
