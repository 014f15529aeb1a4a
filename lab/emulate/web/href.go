package web

import "strings"

// href writes the value of a link to a page in one of several equivalent forms.
func (r *renderer) href(to ref) {
	if to.site != r.site {
		r.foreignHref(to)
		return
	}
	form := r.dice.below(12)
	switch form {
	case 7:
		r.put(strings.TrimPrefix(r.site.origin, "http:"))
	case 8:
		r.put(r.site.origin)
	case 9: // in upper case
		r.put(r.site.shout)
	}
	switch form {
	case 0, 1, 2:
		r.path(relative(r.base, to.key))
	case 3:
		r.path(detour(to.key))
	case 4:
		r.path(to.key)
		r.put("#part-")
		r.number(r.dice.below(9))
	case 5:
		r.put("\n  ")
		r.path(to.key)
		r.put(" ")
	default:
		r.path(to.key)
	}
}

func (r *renderer) foreignHref(to ref) {
	switch r.dice.below(5) {
	case 0:
		r.put(to.site.shout)
	case 1:
		r.put(strings.TrimPrefix(to.site.origin, "http:"))
	default:
		r.put(to.site.origin)
	}
	if to.key != "/" || r.dice.chance(2) {
		r.path(to.key)
	}
}

// path writes a path as an author might: entities for "&", sometimes a letter that is
// escaped needlessly or a character that should be escaped but is not.
func (r *renderer) path(p string) {
	if r.dice.chance(6) {
		p = strings.ReplaceAll(p, "%20", " ")
		p = strings.ReplaceAll(p, "%C3%A9", "é")
	}
	escapeAt := -1
	if r.dice.chance(12) {
		escapeAt = strings.LastIndexByte(p, '-') - 1 // a letter of a word
	}
	for i := range len(p) {
		switch c := p[i]; {
		case c == '&':
			r.put("&amp;")
		case i == escapeAt && 'a' <= c && c <= 'z':
			r.put("%")
			r.buf = append(r.buf, hexDigits[c>>4], hexDigits[c&15])
		default:
			r.buf = append(r.buf, c)
		}
	}
}

const hexDigits = "0123456789abcdef"

// relative returns the shortest reference from directory base to key. Keys have no
// colon, so it has no scheme.
func relative(base, key string) string {
	common := 0
	for i := 0; i < len(base) && i < len(key) && base[i] == key[i]; i++ {
		if base[i] == '/' {
			common = i + 1
		}
	}
	up := strings.Count(base[common:], "/")
	ref := strings.Repeat("../", up) + key[common:]
	if ref == "" {
		return "./"
	}
	return ref
}

// detour returns key with dot segments.
func detour(key string) string {
	if len(key) < 2 {
		return "/./"
	}
	return "/./" + names[len(key)%len(names)] + "/.." + key
}
