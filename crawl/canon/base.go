package canon

import (
	"strings"

	"peerd/store"
)

// Base is the URL that references of a document are resolved against: the URL of the document,
// or that of its <base href>. It is immutable and safe for concurrent use.
type Base struct {
	text string
	path int // cleanPath(text)
}

// BaseOf returns the base of a document that has no <base href>.
func BaseOf(page store.URL) Base {
	return Base{text: string(page), path: cleanPath(string(page))}
}

// Rebase returns the base after <base href="href">. It returns b if the reference is invalid,
// too long, or has the scheme data or javascript (HTML Standard, section 4.2.3). The base may be
// a URL that Parse rejects, for example of the scheme ftp; absolute references still resolve.
func (b Base) Rebase(href string) Base {
	u, err := resolve(b.text, href)
	if err != nil || u.Scheme() == "data" || u.Scheme() == "javascript" {
		return b
	}
	if page, err := canonicalize(u); err == nil {
		return BaseOf(page)
	}
	text := u.Href(true)
	if len(text) > maxInput {
		return b
	}
	return Base{text: text}
}

// Join resolves a reference and returns the result in canonical form. Errors are those of the
// package.
func (b Base) Join(ref string) (store.URL, error) {
	if s, ok := b.joinClean(ref); ok {
		return store.URL(s), nil
	}
	return b.join(ref)
}

// join is Join without the fast path.
func (b Base) join(ref string) (store.URL, error) {
	u, err := resolve(b.text, ref)
	if err != nil {
		return "", err
	}
	return canonicalize(u)
}

// joinClean resolves the forms of references that nearly all links have by concatenating
// strings. It returns false for all others.
func (b Base) joinClean(ref string) (string, bool) {
	if b.path == 0 {
		return "", false
	}
	ref, _, _ = strings.Cut(ref, "#")
	var s string
	switch {
	case ref == "":
		return b.text, true
	case strings.HasPrefix(ref, "http://"), strings.HasPrefix(ref, "https://"):
		return ref, isClean(ref)
	case strings.HasPrefix(ref, "//"):
		s = b.text[:strings.IndexByte(b.text, ':')+1] + ref
		return s, isClean(s)
	case ref[0] == '/':
		s = b.text[:b.path] + ref
	case ref[0] == '?':
		path, _, _ := strings.Cut(b.text, "?")
		s = path + ref
	case strings.IndexByte(ref, ':') >= 0: // possibly a scheme
		return "", false
	default:
		s = b.joinRelative(ref)
	}
	return s, len(s) <= MaxLength && isCleanPath(s[b.path:])
}

// joinRelative resolves a reference relative to the directory of the base, with any leading "./"
// and "../".
func (b Base) joinRelative(ref string) string {
	dir, _, _ := strings.Cut(b.text, "?")
	dir = dir[:strings.LastIndexByte(dir, '/')+1]
	for {
		if rest, ok := strings.CutPrefix(ref, "./"); ok {
			ref = rest
		} else if rest, ok := strings.CutPrefix(ref, "../"); ok {
			ref = rest
			if len(dir) > b.path+1 {
				dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1]
			}
		} else {
			return dir + ref
		}
	}
}
