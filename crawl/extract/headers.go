package extract

import (
	"net/http"
	"strings"
)

// handleHeader handles the fields of the header.
func (c *collector) handleHeader(h http.Header) {
	for _, value := range h.Values("X-Robots-Tag") {
		c.doc.Robots.parse(value, c.namesAgent)
	}
	for _, value := range h.Values("Link") {
		for l := range headerLinks(value) {
			c.handleHeaderLink(l)
		}
	}
	if target, ok := refreshTarget(h.Get("Refresh")); ok && c.o.Kinds&Pages != 0 {
		c.add([]byte(target), "http", "refresh", "")
	}
	c.headerRefs = len(c.refs)
}

// handleHeaderLink handles one link. It is ignored if it has no relation (RFC 8288, section 3.3).
// With an anchor it is a link of another resource (section 3.2), which may be followed.
func (c *collector) handleHeaderLink(l headerLink) {
	if l.rel == "" {
		return
	}
	if !l.anchored && hasToken(l.rel, "canonical") && !c.hasCanonical {
		c.canonical, c.hasCanonical, c.canonicalFromHeader = l.target, true, true
	}
	if kindOf(l.rel)&c.o.Kinds != 0 {
		c.add([]byte(l.target), "http", "link", c.internRel([]byte(l.rel)))
	}
}

// headerLink is a link-value of RFC 8288.
type headerLink struct {
	target, rel string
	anchored    bool
}

// headerLinks yields the links of a Link field (RFC 8288, appendix B.2).
func headerLinks(s string) func(func(headerLink) bool) {
	return func(yield func(headerLink) bool) {
		for {
			s = strings.TrimLeft(s, " \t,")
			if !strings.HasPrefix(s, "<") {
				return
			}
			target, rest, ok := strings.Cut(s[1:], ">")
			if !ok {
				return
			}
			l := headerLink{target: target}
			s = l.parameters(rest)
			if !yield(l) {
				return
			}
		}
	}
}

// parameters reads all ";name=value" parameters, and returns the rest of s. Of several rel
// parameters the first is used.
func (l *headerLink) parameters(s string) string {
	hasRel := false
	for {
		s = strings.TrimLeft(s, " \t")
		if !strings.HasPrefix(s, ";") {
			return s
		}
		s = strings.TrimLeft(s[1:], " \t;")
		n := strings.IndexAny(s, " \t=;,")
		if n < 0 {
			n = len(s)
		}
		name := s[:n]
		var value string
		value, s = parameterValue(strings.TrimLeft(s[n:], " \t"))
		switch {
		case strings.EqualFold(name, "rel") && !hasRel:
			l.rel, hasRel = value, true
		case strings.EqualFold(name, "anchor"):
			l.anchored = true
		}
	}
}

// parameterValue reads "=value", where the value is a token or a quoted string.
func parameterValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, "=") {
		return "", s
	}
	s = strings.TrimLeft(s[1:], " \t")
	if !strings.HasPrefix(s, `"`) {
		n := strings.IndexAny(s, ";,")
		if n < 0 {
			n = len(s)
		}
		return strings.TrimRight(s[:n], " \t"), s[n:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
