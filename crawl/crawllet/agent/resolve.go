package main

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
)

// resolver makes absolute URLs of the references of a page.
type resolver struct {
	to    *url.URL // what references are relative to
	text  string   // the same
	root  int      // where the path begins in text
	dir   int      // behind the last slash
	buf   []byte
	plain bool // resolvePlain may be used
}

// setBase sets the URL that references are relative to.
func (r *resolver) setBase(u *url.URL) {
	r.to, r.text = u, u.String()
	r.dir = strings.LastIndexByte(r.text, '/') + 1
	r.root = strings.Index(r.text, "://") + len("://")
	slash := strings.IndexByte(r.text[r.root:], '/')
	r.root += max(slash, 0)
	r.plain = slash > 0 && u.Opaque == "" && !strings.ContainsAny(r.text, "?#") &&
		!strings.Contains(r.text[r.root:], "/.") && !strings.Contains(r.text[r.root:], "//")
}

// resolve returns the absolute URL of a reference without its fragment, valid until the next call;
// nil if it is none of the web.
func (r *resolver) resolve(ref []byte) []byte {
	if len(ref) > 0 && (classes[ref[0]]&classes[ref[len(ref)-1]]&isWord == 0) {
		ref = bytes.TrimSpace(ref)
	}
	if u := r.resolvePlain(ref); u != nil {
		return u
	}
	if u := r.resolveAbsolute(ref); u != nil {
		return u
	}
	u, err := r.parseRef(ref)
	if err != nil {
		return nil
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	r.buf = append(r.buf[:0], u.String()...)
	return r.buf
}

// resolvePlain resolves the form of references that nearly all links have: a path of unreserved
// characters, with dot segments at most at its beginning. It returns nil for others.
func (r *resolver) resolvePlain(ref []byte) []byte {
	if !r.plain {
		return nil
	}
	dir, up := r.dir, false
	for len(ref) > 2 && ref[0] == '.' && ref[1] == '.' && ref[2] == '/' {
		ref, up = ref[3:], true
		if dir > r.root+1 {
			dir = strings.LastIndexByte(r.text[:dir-1], '/') + 1
		}
	}
	end := plainEnd(ref)
	switch {
	case end < 0:
		return nil
	case end == 0 && up:
		return nil
	case end == 0:
		dir = len(r.text)
	case ref[0] == '/' && up:
		return nil
	case ref[0] == '/':
		dir = r.root
	}
	r.buf = append(append(r.buf[:0], r.text[:dir]...), ref[:end]...)
	return r.buf
}

// plainEnd returns the end of a reference without its fragment, -1 if it has other characters than
// those of plain paths, dot segments, or empty segments.
func plainEnd(ref []byte) int {
	last, i := byte('/'), 0
	for ; i+8 <= len(ref); i += 8 {
		w := word(ref, i)
		slash := exactZeros(w ^ '/'*ones)
		if classes[byte(w)]&classes[byte(w>>8)]&classes[byte(w>>16)]&classes[byte(w>>24)]&
			classes[byte(w>>32)]&classes[byte(w>>40)]&classes[byte(w>>48)]&classes[byte(w>>56)]&
			isPlain == 0 || last == '/' ||
			slash<<8&(slash|exactZeros(w^'.'*ones)) != 0 {
			break
		}
		last = byte(w >> 56)
	}
	for ; i < len(ref); i++ {
		c := ref[i]
		if classes[c]&isPlain == 0 || last == '/' && (c == '.' || c == '/' && i > 0) {
			if c == '#' {
				return i
			}
			return -1
		}
		last = c
	}
	return len(ref)
}

// resolveAbsolute resolves an http URL of a host in lower case and a plain path. It returns nil for
// others.
func (r *resolver) resolveAbsolute(ref []byte) []byte {
	host := len("http://")
	switch {
	case len(ref) <= host+1 || ref[0] != 'h':
		return nil
	case string(ref[:host]) == "http://":
	case string(ref[:host+1]) == "https://":
		host++
	default:
		return nil
	}
	path := host
	for path < len(ref) && classes[ref[path]]&isHost != 0 {
		path++
	}
	end := plainEnd(ref[path:])
	if path == host || end < 0 || end > 0 && ref[path] != '/' {
		return nil
	}
	r.buf = append(r.buf[:0], ref[:path+end]...)
	if end == 0 {
		r.buf = append(r.buf, '/')
	}
	return r.buf
}

var errNotWeb = errors.New("not a URL of the web")

// parseRef resolves a reference of any form.
func (r *resolver) parseRef(ref []byte) (*url.URL, error) {
	u, err := r.to.Parse(repaired(ref))
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errNotWeb
	}
	return u, nil
}

// repaired returns a reference in a form that net/url parses as browsers do (URL Standard, section
// 4.4): without tabs and line ends, with slashes for backslashes in the path, and with an escape
// for each control character and each "%" that begins none.
func repaired(ref []byte) string {
	const hex = "0123456789ABCDEF"
	ref = bytes.TrimFunc(ref, func(r rune) bool { return r <= ' ' })
	path := true
	var b strings.Builder
	for i, c := range ref {
		switch {
		case c == '\t' || c == '\n' || c == '\r':
			continue
		case c == '\\' && path:
			c = '/'
		case c < ' ' || c == 0x7f || c == '%' && !isEscape(ref[i:]):
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			c = hex[c&15]
		case c == '?' || c == '#':
			path = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

// isEscape reports whether b begins with a percent-encoded byte.
func isEscape(b []byte) bool {
	const digits = "0123456789abcdefABCDEF"
	return len(b) > 2 && strings.IndexByte(digits, b[1]) >= 0 &&
		strings.IndexByte(digits, b[2]) >= 0
}
