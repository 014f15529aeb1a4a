package replay

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html"

	"peerd/crawl/canon"
	"peerd/store"
)

const (
	maxToken  = 8 << 20 // size in bytes of one tag, text or script
	maxNested = 3       // depth of documents in attributes
)

// rewriter changes the URLs of a page so that they lead to archived pages.
type rewriter struct {
	prefix string // such as "/web/20260102030405"
	base   store.URL
	depth  int
	room   int // bytes that links may still have; then they are left out, and it is negative
}

// link returns where a reference leads to in the replay; modifier is "" or such as "if_". The
// result is a path, a fragment, an image in a data: URL, or "#" for anything else.
func (w *rewriter) link(ref, modifier string) string {
	ref = strings.TrimSpace(ref)
	if ref == "" || ref[0] == '#' {
		return ref
	}
	if len(ref) > 11 && strings.EqualFold(ref[:11], "data:image/") {
		return ref
	}
	ref, fragment, marked := strings.Cut(ref, "#")
	u, err := canon.Join(w.base, ref)
	if err != nil {
		return "#"
	}
	to := w.prefix + modifier + "/" + safe.Replace(string(u))
	if marked {
		to += "#" + safe.Replace(fragment)
	}
	if w.room -= len(to); w.room < 0 {
		return "#"
	}
	return to
}

// safe replaces what would end a URL in HTML, CSS or a list of URLs.
var safe = strings.NewReplacer(`"`, "%22", "<", "%3C", ">", "%3E", `\`, "%5C", " ", "%20",
	"\n", "%0A", "\r", "%0D", "\t", "%09", "\f", "%0C", "\x00", "%00")

// html rewrites a page in UTF-8. Banner is inserted behind the body tag, or else at the end.
func (w *rewriter) html(out *bytes.Buffer, page []byte, banner string) error {
	z := html.NewTokenizer(bytes.NewReader(page))
	z.SetMaxBuf(maxToken)
	in := "" // the name in the last tag, if it is a start tag: text is of that element
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if !errors.Is(z.Err(), io.EOF) {
				return z.Err()
			}
			out.WriteString(banner)
			return nil
		}
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			if in = t.Data; in == "noscript" {
				z.NextIsNotRawText() // browsers show it, because scripts do not run
			}
			if in == "script" || !w.tag(&t) {
				continue
			}
			out.WriteString(t.String())
			if t.Data == "body" {
				out.WriteString(banner)
				banner = ""
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			in = ""
			if string(name) != "script" {
				out.WriteString("</" + string(name) + ">")
			}
		case html.TextToken:
			out.WriteString(w.text(in, string(z.Raw())))
		case html.DoctypeToken:
			out.Write(z.Raw())
		}
	}
}

// text returns the text of an element without "<": with what follows, or in an element that a
// browser sees in SVG or MathML, it might be markup.
func (w *rewriter) text(in, s string) string {
	switch in {
	case "script", "iframe", "noembed", "noframes":
		return "" // browsers do not show it
	case "style":
		return strings.ReplaceAll(w.css(strings.ReplaceAll(s, "<!--", "")), "<", `\3c `)
	}
	return strings.ReplaceAll(s, "<", "&lt;")
}

// tag rewrites the attributes of a tag. It reports whether the tag is kept.
func (w *rewriter) tag(t *html.Token) bool {
	switch t.Data {
	case "base":
		if href, ok := attr(t, "href"); ok {
			if u, err := canon.Join(w.base, href); err == nil {
				w.base = u
			}
		}
		return false
	case "meta":
		if _, ok := attr(t, "http-equiv"); ok {
			return false
		}
	}
	kept := t.Attr[:0]
	for _, a := range t.Attr {
		if w.attr(t.Data, &a) {
			kept = append(kept, a)
		}
	}
	t.Attr = kept
	return true
}

func attr(t *html.Token, name string) (string, bool) {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// attr rewrites an attribute of a tag. It reports whether the attribute is kept.
func (w *rewriter) attr(tag string, a *html.Attribute) bool {
	name := a.Key
	switch {
	case strings.HasPrefix(name, "on"), strings.ContainsAny(name, "\"'<="):
		return false
	case strings.HasSuffix(name, ":href"):
		name = "href"
	}
	switch name {
	case "integrity", "crossorigin", "nonce", "ping", "manifest", "http-equiv":
		return false
	case "attributename": // what SVG animates
		return !strings.HasSuffix(strings.ToLower(a.Val), "href")
	case "target":
		return !strings.HasPrefix(a.Val, "_") // the sandbox permits no windows
	case "srcset", "imagesrcset":
		a.Val = w.srcset(a.Val)
	case "style":
		a.Val = w.css(a.Val)
	case "srcdoc":
		if w.depth >= maxNested {
			return false
		}
		inner := rewriter{prefix: w.prefix, base: w.base, depth: w.depth + 1, room: w.room}
		var out bytes.Buffer
		err := inner.html(&out, []byte(a.Val), "")
		w.room = inner.room
		if err != nil {
			return false
		}
		a.Val = out.String()
	case "href", "src", "action", "formaction", "poster", "background", "longdesc", "cite", "data",
		"archive", "classid", "codebase", "usemap", "lowsrc", "dynsrc", "icon", "profile":
		modifier := ""
		if tag == "iframe" || tag == "frame" {
			modifier = "if_"
		}
		a.Val = w.link(a.Val, modifier)
	}
	return true
}

// srcset rewrites a list of images: URLs with a width or density behind them.
func (w *rewriter) srcset(list string) string {
	var out []string
	for rest := list; ; {
		rest = strings.TrimLeft(rest, " \t\n\f\r,")
		if rest == "" {
			return strings.Join(out, ", ")
		}
		i := strings.IndexAny(rest, " \t\n\f\r")
		if i < 0 {
			i = len(rest)
		}
		ref, width := rest[:i], ""
		rest = rest[i:]
		if strings.HasSuffix(ref, ",") {
			ref = strings.TrimRight(ref, ",")
		} else {
			width, rest, _ = strings.Cut(rest, ",")
		}
		out = append(out, strings.TrimSpace(w.link(ref, "")+" "+strings.TrimSpace(width)))
	}
}

// cssURL matches url(...) and @import "...".
var cssURL = regexp.MustCompile(`(?i)(url\(\s*|@import\s*)` +
	`("[^"\n]*"|'[^'\n]*'|[^\s"'()@;]+)(\s*\))?`)

// css rewrites the URLs of a style sheet.
func (w *rewriter) css(sheet string) string {
	return cssURL.ReplaceAllStringFunc(sheet, func(s string) string {
		m := cssURL.FindStringSubmatch(s)
		function, ref := strings.EqualFold(m[1][:3], "url"), m[2]
		quoted := ref[0] == '"' || ref[0] == '\''
		switch {
		case function != (m[3] != ""), !function && !quoted:
			return s
		case quoted:
			ref = ref[1 : len(ref)-1]
		}
		to := w.link(ref, "")
		if strings.HasPrefix(to, "data:") {
			return s
		}
		return m[1] + `"` + to + `"` + m[3]
	})
}
