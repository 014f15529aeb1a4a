package robots

import "strings"

// pattern is the compiled value of an Allow or Disallow line.
type pattern struct {
	prefix   string   // up to the first "*"
	parts    []string // between and after the stars; nil if there are none
	anchored bool     // ends in "$"
	length   int      // of the normalized value: the longest match wins
}

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
// length of the path for ordinary text.
func (p *pattern) matches(path string) bool {
	rest, ok := strings.CutPrefix(path, p.prefix)
	if !ok {
		return false
	}
	if p.parts == nil {
		return !p.anchored || rest == ""
	}
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
