package robots

import "strings"

// pattern is the compiled value of an Allow or Disallow line.
type pattern struct {
	prefix   string   // up to the first "*"
	parts    []string // between and after the stars; nil if there are none
	anchored bool     // ends in "$"
	length   int      // of the normalized value: the longest match wins
}

// maxWork bounds the time in which patterns with stars are matched with one path: the bytes of it
// that they look at together, of which each part of a pattern counts as perPart.
const maxWork, perPart = 1 << 20, 16

// newPattern compiles a normalized value.
func newPattern(value string) pattern {
	p := pattern{length: len(value)}
	value, p.anchored = strings.CutSuffix(value, "$")
	p.prefix = value
	if i := strings.IndexByte(value, '*'); i >= 0 {
		p.prefix = value[:i]
		p.parts = splitStars(value[i+1:])
	}
	return p
}

// splitStars splits s at "*"; several stars in a row are the same as one.
func splitStars(s string) []string {
	parts := []string{}
	for part := range strings.SplitSeq(s, "*") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if s == "" || s[len(s)-1] == '*' {
		parts = append(parts, "") // anything may follow the last star
	}
	return parts
}

// matches reports whether the pattern matches the whole path or, if it is not anchored, a prefix.
// The first occurrence of a part is never worse than a later one, so the time is linear in the
// length of the path. A pattern with stars takes it from work, and if nothing is left, otherwise is
// the result.
func (p *pattern) matches(path string, work *int, otherwise bool) bool {
	rest, ok := strings.CutPrefix(path, p.prefix)
	if !ok {
		return false
	}
	if p.parts == nil {
		return !p.anchored || rest == ""
	}
	if *work <= 0 {
		return otherwise
	}
	*work -= len(rest) + perPart*min(len(p.parts), len(rest)+1)
	last := len(p.parts) - 1
	for i, part := range p.parts {
		if i == last && p.anchored {
			return strings.HasSuffix(rest, part)
		}
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}
