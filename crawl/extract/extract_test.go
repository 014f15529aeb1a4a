package extract

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"peerd/crawl/canon"
	"peerd/store"
)

const page = store.URL("http://example.org/a/b?c")

// pageOf is Page, for a page of which only the Content-Type is known.
func pageOf(body []byte, contentType string, page store.URL, o Options) (Document, error) {
	return Page(body, http.Header{"Content-Type": {contentType}}, page, o)
}

// parse returns the document of a page.
func parse(t testing.TB, body, contentType string) Document {
	t.Helper()
	d, err := pageOf([]byte(body), contentType, page, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// urls returns the URLs of the links without "http://example.org", separated by spaces.
func urls(d Document) string {
	var s []string
	for _, l := range d.Links {
		s = append(s, strings.TrimPrefix(string(l.URL), "http://example.org"))
	}
	return strings.Join(s, " ")
}

func TestLinks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"all elements", `<link rel=next href=1><a href=2>x<map><area href=3></map><iframe src=4></iframe>`, "/a/1 /a/2 /a/3 /a/4"},
		{"frames", `<frameset><frame src=1><frame src=2><noframes><a href=3></noframes></frameset>`, "/a/1 /a/2"},
		{"upper case", `<A HREF=1>x</A>`, "/a/1"},
		{"entities", `<a href="?x=1&amp;y=2&copy=3&#x2f;">x</a>`, "/a/b?x=1&y=2&copy=3/"},
		{"white space", "<a href='\n\t 1 2\f '>x</a>", "/a/1%202"},
		{"newlines inside", "<a href='1\n2'>x</a>", "/a/12"},
		{"empty", `<a href="">x</a><a href="#top">y</a>`, "/a/b?c /a/b?c"},
		{"no href", `<a name=1><a><area><link rel=next><iframe>`, ""},
		{"first attribute", `<a href=1 href=2>x</a>`, "/a/1"},
		{"others are not links", `<img src=1><script src=2></script><form action=3></form><embed src=4><q cite=5>`, ""},
		{"other schemes", `<a href="mailto:x@y"><a href="javascript:1"><a href="ftp://x/"><a href=1>`, "/a/1"},
		{"other hosts", `<a href="//Other.Example:80/x"><a href="https://third.example">`, "http://other.example/x https://third.example/"},
		{"raw text",
			`<script>"<a href=1>"</script><style><a href=2></style><textarea><a href=3>` +
				`</textarea><title><a href=4></title><xmp><a href=5></xmp><a href=6>`, "/a/6"},
		{"comments", `<!-- <a href=1> --><a href=2><!--><a href=3>-->`, "/a/2 /a/3"},
		{"CDATA", `<![CDATA[<a href=1>]]><svg><![CDATA[<a href=2>]]></svg><a href=3>`, "/a/3"},
		{"noscript", `<head><noscript><link rel=next href=1></noscript></head><noscript><a href=2></noscript>`, "/a/1 /a/2"},
		{"template", `<template><a href=1></template>`, "/a/1"},
		{"SVG", `<svg><title/><a xlink:href=1></a><style/><A HREF=2></a></svg><a xlink:href=no>`, "/a/1 /a/2"},
		{"after the end", `</body></html><a href=1>`, "/a/1"},
		{"cut off", `<a href=1>x</a><a href="2`, "/a/1"},
		{"tables", `<table><a href=1><tr><a href=2><td><a href=3>`, "/a/1 /a/2 /a/3"},
		{"base", `<base href="/x/"><a href=1><base href="/y/"><a href=2>`, "/x/1 /x/2"},
		{"base after links", `<a href=1><base href="/x/">`, "/x/1"},
		{"base without href", `<base target=_top><base href=" /x/ "><a href=1>`, "/x/1"},
		{"bad base", `<base href="http://["><base href="/x/"><a href=1>`, "/a/1"},
		{"base elsewhere", `<base href="//other.example"><a href=1>`, "http://other.example/1"},
		{"base of another scheme", `<base href="ftp://x/"><a href=1><a href="http://example.org/2">`, "/2"},
		{"refresh", `<meta http-equiv=Refresh content="0; URL='1'">`, "/a/1"},
		{"refresh in noscript", `<head><noscript><meta http-equiv=refresh content="5;url=1"></noscript>`, "/a/1"},
		{"nothing", ``, ""},
		{"no HTML", "\x00\xff<", ""},
	} {
		if got := urls(parse(t, c.body, "text/html")); got != c.want {
			t.Errorf("%s: links %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRelations(t *testing.T) {
	t.Parallel()
	for rel, want := range map[string]bool{
		"": true, "next": true, "canonical": true, "alternate": true, "Alternate Hreflang": true,
		"stylesheet": false, "STYLESHEET": false, "alternate stylesheet": false,
		"shortcut icon": false, "icon": false, "preload": false, "prefetch": false,
		"dns-prefetch": false, "preconnect": false, "modulepreload": false,
		"manifest": false, "mask-icon": false, "apple-touch-icon": false,
		"next\tprefetch": false,
	} {
		d := parse(t, fmt.Sprintf(`<link rel="%s" href=1>`, rel), "")
		if got := len(d.Links) == 1; got != want {
			t.Errorf("rel %q followed: %v, want %v", rel, got, want)
		}
	}
	d := parse(t,
		`<a rel="me NoFollow" href=1><a rel="nofollower" href=2><a rel=stylesheet href=3>`, "")
	if len(d.Links) != 3 || !d.Links[0].NoFollow() || d.Links[1].NoFollow() {
		t.Errorf("links %+v", d.Links)
	}
	if want := (Link{URL: "http://example.org/a/1", Element: "a", Attribute: "href",
		Rel: "me NoFollow"}); d.Links[0] != want {
		t.Errorf("link %+v, want %+v", d.Links[0], want)
	}
}

func TestMetaRobots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body              string
		nofollow, noindex bool
	}{
		{`<meta name=robots content="index, follow">`, false, false},
		{`<META NAME=Robots CONTENT="NOINDEX,NOFOLLOW">`, true, true},
		{`<meta name=robots content="noindex max-snippet:5">`, false, true},
		{`<meta name=robots content=none>`, true, true},
		{`<meta name=robots content=nofollow><meta name=robots content=noindex>`, true, true},
		{`<meta name=googlebot content=none>`, false, false},
		{`<meta name=robots>`, false, false},
	} {
		if d := parse(t, c.body, ""); d.Robots.NoFollow != c.nofollow ||
			d.Robots.NoIndex != c.noindex {
			t.Errorf("%s: nofollow %v, noindex %v", c.body, d.Robots.NoFollow, d.Robots.NoIndex)
		}
	}
}

func TestRefreshTarget(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"0;url=x": "x", " 5 ; URL = x ": "x ", "1.5,x": "x", "0 x": "x", ".5;x": "x",
		"0;url='x'y": "x", `0;url="x`: "x",
		"0;'x'": "x", "0;urlx": "urlx", "0;url x": "url x", "0;u": "u", "0;url=": "",
	} {
		if got, ok := refreshTarget(content); !ok || got != want {
			t.Errorf("%q: %q, %v; want %q", content, got, ok, want)
		}
	}
	for _, content := range []string{"", "x", "url=x", "5", "5;", "5x", "-1;x", "5; "} {
		if got, ok := refreshTarget(content); ok {
			t.Errorf("%q: %q, want none", content, got)
		}
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"<title> a\n\t b&amp;c </title><title>d</title>": "a b&c",
		"<svg><title>a</title></svg><title>b</title>":    "b",
		"<title></title><title>x</title>":                "",
		"<title>a<b>c</b></title>":                       "a<b>c</b>",
		"<title>" + strings.Repeat("ü", 300):             strings.Repeat("ü", maxTitle/2),
		"<title>a" + strings.Repeat("ü", 300):            "a" + strings.Repeat("ü", maxTitle/2-1),
		"x":                                              "",
	} {
		if got := parse(t, body, "text/html; charset=utf-8").Title; got != want {
			t.Errorf("%.60q: %q, want %q", body, got, want)
		}
	}
}

func TestCharsets(t *testing.T) {
	t.Parallel()
	const body = `<a href="ü?ü">`
	const want, latin = "/a/%C3%BC?%C3%BC", "/a/%C3%BC?%FC"
	encoded := func(e encoding.Encoding, s string) string {
		out, err := e.NewEncoder().String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	padding := "<p>" + strings.Repeat("x", 2000) + "</p>"
	utf16 := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	for _, c := range []struct{ name, contentType, body, want string }{
		{"UTF-8 header", "text/html; charset=utf-8", body, want},
		{"undeclared UTF-8", "text/html", body, want},
		{"undeclared UTF-8, late", "text/html", padding + body, want},
		{"undeclared Latin-1", "text/html", encoded(charmap.Windows1252, body), latin},
		{"undeclared Latin-1, late", "text/html", padding + encoded(charmap.Windows1252, body), latin},
		{"Latin-1 header", "text/html;charset=ISO-8859-1", encoded(charmap.Windows1252, body), latin},
		{"Latin-1 meta", "text/html", `<meta charset=latin1>` + encoded(charmap.Windows1252, body), latin},
		{"Cyrillic meta", "", `<meta http-equiv=content-type content="text/html; charset=koi8-r">` +
			encoded(charmap.KOI8R, `<a href="ж">`), "/a/%D0%B6"},
		{"header before meta", "text/html; charset=utf-8", `<meta charset=latin1>` + body, want},
		{"meta that lies", "text/html", `<meta charset=latin1>` + body, "/a/%C3%83%C2%BC?%C3%BC"},
		{"Shift JIS", "text/html; charset=shift_jis", encoded(japanese.ShiftJIS, `<a href="ツ">`), "/a/%E3%83%84"},
		{"UTF-16 with mark", "text/html", encoded(utf16, body), want},
		{"mark before header", "text/html; charset=latin1", "\ufeff" + body, want},
		{"unknown header", "text/html; charset=klingon", body, want},
		{"invalid UTF-8", "text/html; charset=utf-8", "<a href=\"\xff\">", "/a/%EF%BF%BD"},
		{"escapes stay", "text/html; charset=latin1", `<a href="%fc">`, "/a/%FC"},
	} {
		if got := urls(parse(t, c.body, c.contentType)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	d, err := pageOf([]byte(`<a href=1><a href="http://["><a href=2><a href=3>`), "", page,
		Options{MaxLinks: 3})
	if err != nil || len(d.Links) != 2 || d.Invalid != 1 || d.Dropped != 1 {
		t.Errorf("Page() = %+v, %v, want 2 links, 1 invalid, 1 dropped", d, err)
	}
	// A short reference takes as much memory as a long one if the base is long.
	d = parse(t, `<base href="http://a.example/`+strings.Repeat("d", canon.MaxLength-100)+`/">`+
		strings.Repeat("<a href=1>", 9000), "")
	size := 0
	for _, l := range d.Links {
		size += len(l.URL)
	}
	if size > MaxLinkBytes || size < MaxLinkBytes-2*canon.MaxLength ||
		len(d.Links)+d.Dropped != 9000 {
		t.Errorf("%d bytes of %d links, %d dropped", size, len(d.Links), d.Dropped)
	}
	d = parse(t, `<a href="http://u:p@x/"><a href="http:///"><a href="http://a..b/"><a href="`+
		strings.Repeat("x", 9000)+`"><a href="tel:1">`, "")
	if len(d.Links) != 0 || d.Invalid != 4 {
		t.Errorf("%d links, %d invalid", len(d.Links), d.Invalid)
	}
}

// TestDeepNesting verifies that pages that are nested too deeply for the parser keep their links
// and base.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	body := `<base href="/x/"><title>t</title><noscript><a href=1></noscript>` +
		`<script><a href=2></script>` +
		strings.Repeat("<div>", 2000) + `<a rel=nofollow href=3>` + strings.Repeat("</div>", 2000) +
		`<a href=4>`
	d := parse(t, body, "text/html")
	if got := urls(d); got != "/x/1 /x/3 /x/4" || !d.Links[1].NoFollow() {
		t.Errorf("links %q", got)
	}
}

func TestIsHTML(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"": true, "text/html": true, "Text/HTML ; charset=x": true, "application/xhtml+xml": true,
		"text/html, text/html": true, "text/html;;": true, "text/plain": false,
		"application/pdf": false, "image/svg+xml": false, "text/htmlx": false, "html": false,
	} {
		if got := IsHTML(contentType); got != want {
			t.Errorf("IsHTML(%q) = %v", contentType, got)
		}
	}
	if _, err := pageOf([]byte("<a href=1>"), "image/png", page, Options{}); !errors.Is(err,
		ErrNotHTML) {
		t.Errorf("error %v", err)
	}
}
