package extract

import (
	"net/http"
	"strings"
)

// seeHeader takes what the headers say of the page.
func (c *collector) seeHeader(h http.Header) {
	for _, value := range h.Values("X-Robots-Tag") {
		c.doc.Robots.read(value, c.listensAlone)
	}
	for _, value := range h.Values("Link") {
		for l := range headerLinks(value) {
			c.seeHeaderLink(l)
		}
	}
	if target, ok := refreshTarget(h.Get("Refresh")); ok && c.o.Kinds&Pages != 0 {
		c.add([]byte(target), "http", "refresh", "")
	}
	c.headers = len(c.refs)
}

// seeHeaderLink takes one link. Without a relation it is none (RFC 8288,
// section 3.3), and with an anchor it is one of another resource (section
// 3.2): that may still be followed.
func (c *collector) seeHeaderLink(l headerLink) {
	if l.rel == "" {
		return
	}
	if !l.anchored && hasToken(l.rel, "canonical") && !c.hasCanonical {
		c.canonical, c.hasCanonical, c.canonicalInHeaders = l.target, true, true
	}
	if kindOf(l.rel)&c.o.Kinds != 0 {
		c.add([]byte(l.target), "http", "link", c.share([]byte(l.rel)))
	}
}

// headerLink is a link-value.
type headerLink struct {
	target, rel string
	anchored    bool
}

// headerLinks yields the links of a Link header (RFC 8288, appendix B.2).
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

// parameters reads ";name=value" as often as it stands there, and returns what
// follows the link. Of several rel the first counts.
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

// parameterValue reads "=value", the value a token or a quoted string.
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
