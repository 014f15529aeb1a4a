package robots

import "strings"

// pattern is the value of an Allow or Disallow line, ready to match.
type pattern struct {
	prefix   string   // up to the first "*"
	parts    []string // between and after the stars; nil if there is none
	anchored bool     // ended in "$"
	length   int      // of the value in normal form: the longest match wins
}

// newPattern takes a value in normal form.
func newPattern(value string) pattern {
	p := pattern{length: len(value)}
	value, p.anchored = strings.CutSuffix(value, "$")
	p.prefix = value
	if i := strings.IndexByte(value, '*'); i >= 0 {
		p.prefix = value[:i]
		p.parts = starless(value[i+1:])
	}
	return p
}

// starless splits at "*"; a run of stars means no more than one.
func starless(s string) []string {
	parts := []string{}
	for part := range strings.SplitSeq(s, "*") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if s == "" || s[len(s)-1] == '*' {
		parts = append(parts, "") // what follows the last star may be anything
	}
	return parts
}

// matches says whether the pattern matches the whole path or, when it is not
// anchored, its beginning. Taking the first place where a part fits is never
// worse than a later one, so the work is linear in the path for ordinary text.
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
