package canon

import (
	"strings"

	"peerd/store"
)

// Base is what the references of one document resolve against: its own URL,
// or what its <base href> says. It is immutable and safe for concurrent use.
type Base struct {
	text  string
	clean bool // text is in the form of isClean
}

// BaseOf returns the base of a document without <base href>.
func BaseOf(page store.URL) Base {
	return Base{text: string(page), clean: isClean(string(page))}
}

// Rebase returns the base after <base href="href">. It is b itself when the
// reference is unusable: no URL, too long, or of scheme data or javascript
// (HTML Standard, section 4.2.3). A base may be one that canon refuses to
// make a store.URL of, say ftp: references that are absolute still work.
func (b Base) Rebase(href string) Base {
	u, err := resolve(b.text, href)
	if err != nil || u.Scheme() == "data" || u.Scheme() == "javascript" {
		return b
	}
	if page, err := finish(u); err == nil {
		return BaseOf(page)
	}
	text := u.Href(true)
	if len(text) > maxInput {
		return b
	}
	return Base{text: text}
}

// Join resolves a reference and makes the result canonical. The error is one
// of the package's.
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
	return finish(u)
}

// joinClean resolves the references that nearly all links are, by cutting and
// pasting. Whatever it is not sure of it leaves to join.
func (b Base) joinClean(ref string) (string, bool) {
	if !b.clean {
		return "", false
	}
	ref, _, _ = strings.Cut(ref, "#")
	var s string
	switch {
	case ref == "":
		s = b.text
	case strings.HasPrefix(ref, "http://"), strings.HasPrefix(ref, "https://"):
		s = ref
	case strings.HasPrefix(ref, "//"):
		s = b.text[:strings.IndexByte(b.text, ':')+1] + ref
	case ref[0] == '/':
		s = b.text[:b.pathStart()] + ref
	case ref[0] == '?':
		path, _, _ := strings.Cut(b.text, "?")
		s = path + ref
	case strings.IndexByte(ref, ':') >= 0: // perhaps a scheme
		return "", false
	default:
		s = b.climb(ref)
	}
	return s, isClean(s)
}

// climb resolves a reference that is relative to the base's folder, leading
// "./" and "../" included.
func (b Base) climb(ref string) string {
	dir, _, _ := strings.Cut(b.text, "?")
	root := b.pathStart()
	dir = dir[:strings.LastIndexByte(dir, '/')+1]
	for {
		if rest, ok := strings.CutPrefix(ref, "./"); ok {
			ref = rest
		} else if rest, ok := strings.CutPrefix(ref, "../"); ok {
			ref = rest
			if len(dir) > root+1 {
				dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1]
			}
		} else {
			return dir + ref
		}
	}
}

// pathStart is the index of the "/" that begins the path of a clean base.
func (b Base) pathStart() int {
	i := strings.Index(b.text, "://") + len("://")
	return i + strings.IndexByte(b.text[i:], '/')
}
