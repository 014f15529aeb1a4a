package extract

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

// described formats links as "element attribute path rel".
func described(d Document) []string {
	var s []string
	for _, l := range d.Links {
		s = append(s, strings.TrimSpace(l.Element+" "+l.Attribute+" "+
			strings.TrimPrefix(string(l.URL), "http://example.org")+" "+l.Rel))
	}
	return s
}

func TestKinds(t *testing.T) {
	t.Parallel()
	const body = `<link rel=canonical href=0><link rel=icon href=1><link rel=stylesheet href=2>` +
		`<style>@import "3"; a{b:url( 4 )}</style>
<body style="background:url('5')"><img src=6 srcset="7 1x, 8,9 2x, data:,x 3x"><picture><source ` +
		`srcset="10, 11"></picture>
<object data=12></object><embed src=13><video src=14 poster=15><track src=16></video><audio ` +
		`src=17></audio>
<form action=18 method=GET></form><form action=19 method=post></form><form></form><form ` +
		`action=20><form action=21></form></form><form action=22></form>
<input type=Image src=23><input src=24><svg><a href=25 rel=me xlink:href=no /><a xlink:href=26>` +
		`</a><image href=27 /><use xlink:href="28#x" />
<use href="#x" /><style><![CDATA[@import url(29)]]></style></svg><image src=30><a xlink:href=no>` +
		`x</a><iframe src=31></iframe><a href=32>`
	for _, c := range []struct {
		kinds Kinds
		want  string
	}{
		{0, "link href 0 canonical,a href 25 me,a xlink:href 26,iframe src 31,a href 32"},
		{Pages, "link href 0 canonical,a href 25 me,a xlink:href 26,iframe src 31,a href 32"},
		{Media,
			"link href 1 icon,img src 6,img srcset 7,img srcset 8%2C9,source srcset 10,source " +
				"srcset 11,object data 12,embed src 13,video src 14," +
				"video poster 15,track src 16,audio src 17,input src 23,image href 27,use " +
				"xlink:href 28,image src 30"},
		{Forms, "form action 18,form action 20,form action 22"},
		{Styles, "link href 2 stylesheet,style  3,style  4,body style 5,style  29"},
	} {
		d, err := pageOf([]byte(body), "", page, Options{Kinds: c.kinds})
		got := strings.ReplaceAll(strings.Join(described(d), ","), "/a/", "")
		want := strings.ReplaceAll(c.want, "8%2C9", "8,9")
		if err != nil || got != want || d.Invalid != 0 {
			t.Errorf("kinds %b, %d invalid: %v\n%s, want\n%s", c.kinds, d.Invalid, err, got, want)
		}
		if d.Canonical != "http://example.org/a/0" {
			t.Errorf("kinds %b: canonical %q", c.kinds, d.Canonical)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Content-Type": {"text/html"},
		"Link": {
			`<1>; rel=next; title="a, <b>; rel=x", </2>; REL="prev \"me"; rel=stylesheet,, ` +
				`<style.css>; rel=stylesheet`,
			`<3>; anchor="#x"; rel=canonical`, `<4>; rel=canonical`, `<5>`, `<6`, `7; rel=next`,
			`<8>; rel=next; x="`,
		},
		"Refresh": {"5; url=9"},
	}
	d, err := Page([]byte(`<base href=/x/><link rel=canonical href=no><a href=10>`), h, page,
		Options{})
	want := []string{"http link /a/1 next", `http link /2 prev "me`, "http link /a/3 canonical",
		"http link /a/4 canonical", "http link /a/8 next", "http refresh /a/9",
		"link href /x/no canonical", "a href /x/10"}
	if got := described(d); err != nil || !slices.Equal(got, want) {
		t.Errorf("Page() = %v, links\n%q, want\n%q", err, got, want)
	}
	if d.Canonical != "http://example.org/a/4" || d.Base != "http://example.org/x/" ||
		d.Charset != "utf-8" {
		t.Errorf("canonical %q, base %q, charset %q", d.Canonical, d.Base, d.Charset)
	}
	h.Set("Content-Type", "application/pdf")
	h.Set("X-Robots-Tag", "noindex")
	d, err = Page([]byte("<a href=no>"), h, page, Options{})
	if !errors.Is(err, ErrNotHTML) || len(d.Links) != 6 || !d.Robots.NoIndex ||
		d.Canonical != "http://example.org/a/4" {
		t.Errorf("not HTML: %+v, %v", d, err)
	}
}

func TestRobotsDirectives(t *testing.T) {
	t.Parallel()
	date := time.Date(2025, 12, 3, 13, 9, 53, 0, time.UTC)
	for _, c := range []struct {
		values []string
		want   Robots
	}{
		{nil, Robots{}},
		{[]string{"all", "index, follow, nosnippet"}, Robots{}},
		{[]string{"noindex", "NoFollow"}, Robots{NoIndex: true, NoFollow: true}},
		{[]string{"none"}, Robots{NoIndex: true, NoFollow: true}},
		{[]string{"max-snippet: 5, noarchive", "max-image-preview:large noindex"}, Robots{NoArchive: true, NoIndex: true}},
		{[]string{"googlebot: noindex, nofollow"}, Robots{}},
		{[]string{"PeerD: noindex"}, Robots{NoIndex: true}},
		{[]string{"googlebot: noindex, peerd : nofollow, noarchive, otherbot: none"}, Robots{NoFollow: true, NoArchive: true}},
		{[]string{"noarchive, googlebot: none"}, Robots{NoArchive: true}},
		{[]string{"unavailable_after: 03 Dec 2025 13:09:53 GMT, noindex"}, Robots{NoIndex: true, UnavailableAfter: date}},
		{[]string{"noarchive, unavailable_after: Wed, 03 Dec 2025 05:09:53 PST, noindex"},
			Robots{NoArchive: true, NoIndex: true, UnavailableAfter: date}},
		{[]string{"unavailable_after:Wednesday, 03-Dec-25 13:09:53 UTC"}, Robots{UnavailableAfter: date}},
		{[]string{"unavailable_after: 2025-12-03T14:09:53+01:00,none"}, Robots{NoIndex: true, NoFollow: true, UnavailableAfter: date}},
		{[]string{"Unavailable_After: 2025-12-03 13:09:53"}, Robots{UnavailableAfter: date}},
		{[]string{"unavailable_after: Wed Dec 3 13:09:53 2025"}, Robots{UnavailableAfter: date}},
		{
			[]string{
				"peerd: unavailable_after: 3 Dec 2025 13:09:53 +0000, unavailable_after: " +
					"2030-01-01"}, Robots{UnavailableAfter: date}},
		{[]string{"googlebot: unavailable_after: 2025-12-03"}, Robots{}},
		{[]string{"unavailable_after: soon, noindex", ":", ": noindex", "unavailable_after:"}, Robots{NoIndex: true}},
	} {
		h := http.Header{"X-Robots-Tag": c.values}
		d, _ := Page(nil, h, page, Options{Agent: "peerd"})
		if d.Robots != c.want {
			t.Errorf("%q: %+v, want %+v", c.values, d.Robots, c.want)
		}
	}
	for r, want := range map[Robots]bool{
		{}: true, {NoFollow: true}: true, {NoIndex: true}: false,
		{UnavailableAfter: date.Add(1)}: true, {UnavailableAfter: date}: false,
		{NoIndex: true, UnavailableAfter: date.Add(1)}: false,
	} {
		if got := r.MayIndex(date); got != want {
			t.Errorf("%+v.MayIndex(%v) = %v", r, date, got)
		}
	}
	for body, want := range map[string]Robots{
		`<meta name=robots content="unavailable_after: Wed, 03 Dec 2025 13:09:53 GMT"><meta ` +
			`name=Peerd content=noindex><meta name=bot ` +
			`content=nofollow>`: {NoIndex: true, UnavailableAfter: date},
		`<meta name=robots content="googlebot: noindex, ` +
			`noarchive"` +
			`>`: {},
	} {
		if d, _ := pageOf([]byte(body), "", page, Options{Agent: "peerd"}); d.Robots != want {
			t.Errorf("%s: %+v, want %+v", body, d.Robots, want)
		}
	}
	if d := parse(t, `<meta name=peerd content=noindex><meta name="" content=none>`,
		""); d.Robots != (Robots{}) {
		t.Errorf("without an agent: %+v", d.Robots)
	}
}

func TestCSS(t *testing.T) {
	t.Parallel()
	for css, want := range map[string]string{
		`@import "a"; @IMPORT 'b' print; @import url(c)`:            "a b c",
		`a{b: URL( "d" ) url('e)') url(f\)g) URL(h`:                 "d e) f)g h",
		`/* url(no) */ "url(no)" x-url(no) curl(no) src(no) url()`:  "",
		`@import/**/"a\62 c"; b{c:"d"} src("e") image-set("no" 1x)`: "abc e",
		`url("a` + "\n" + `url(b) 'c\` + "\n" + `d' @import 'e\`:    "a b e\\",
		`@import; "no"`: "", `url(`: "", `url("`: "", `\`: "", `@`: "",
	} {
		var got []string
		for ref := range cssReferences([]byte(css)) {
			got = append(got, string(ref))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", css, got, want)
		}
	}
}

func TestVisibleText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		most int
		want string
	}{
		{"<head><title> A  b</title><style>no</style></head><body>c<p>d <b>e</b>\n f</p>g<br>h", 100, "A b\nc\nd e f\ng\nh"},
		{"<ul><li>a<li>b</ul><table><tr><td>c<td>d<tr><td>e</table><pre>f\n g</pre>", 100, "a\nb\nc d\ne\nf g"},
		{
			"a<script>no</script><template>no<template>no</template>no</template>b<noscript>" +
				"c</noscript><iframe>no</iframe><textarea>d</textarea>", 100, "abc\nd"},
		{"a<svg><style>no</style><text>b</text></svg>&amp;&nbsp;c<!-- no -->", 100, "ab&\u00a0c"},
		{"<frameset><noframes>no</noframes></frameset>", 100, ""},
		{"a\xff\u00fc", 100, "a\ufffd\u00fc"},
		{"\u00fc\u00fc\u00fc", 5, "\u00fc\u00fc"},
		{"abc def", 4, "abc"},
		{"abc", 0, ""},
		{"<math><annotation-xml><p>a<p>b<script>no</script>", 100, "a\nb"},
	} {
		d, err := pageOf([]byte(c.body), "text/html; charset=utf-8", page, Options{Text: c.most})
		if err != nil || d.Text != c.want {
			t.Errorf("%q: %q, want %q", c.body, d.Text, c.want)
		}
	}
	if text, charset := Text([]byte(" a \n\n b\tc<p>\xfc"), "text/plain",
		100); text != "a\nb c<p>\u00fc" || charset != "windows-1252" {
		t.Errorf("plain text %q in %s", text, charset)
	}
}

func TestHeadings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, want string }{
		{"<title>no</title><h1> A  b</h1>no<h2>c <i>d</i></h2>", "A b\nc d"},
		{"<h1>a<h2>b</h3>no", "a\nb"},
		{"<h6>a<script>no</script></h6><hr>no<header>no</header>", "a"},
		{"<h1></h1><h2>open", ""},
		{strings.Repeat("<h1>a</h1>", 2*maxHeadings), strings.Repeat("a\n", maxHeadings-1) + "a"},
	} {
		d, err := pageOf([]byte(c.body), "text/html", page, Options{Text: 10_000})
		if err != nil || d.Headings != c.want {
			t.Errorf("%.80q: %q, want %q", c.body, d.Headings, c.want)
		}
	}
	long := "<h1>" + strings.Repeat("word ", maxHeadingBytes) + "</h1>"
	if d, err := pageOf([]byte(long), "text/html", page, Options{Text: 1 << 20}); err != nil ||
		len(d.Headings) > maxHeadingBytes || len(d.Headings) < maxHeadingBytes/2 {
		t.Errorf("%d bytes of headings, %v", len(d.Headings), err)
	}
}

func TestXHTML(t *testing.T) {
	t.Parallel()
	const body = `<html><head><title/><script src="x"/></head><body><a href="1"/><style/><a ` +
		`href="2"/><![CDATA[<a href="no"/>]]><svg><a xlink:href="3"/></svg></body></html>`
	if got := urls(parse(t, body, "application/xhtml+xml")); got != "/a/1 /a/2 /a/3" {
		t.Errorf("links %q", got)
	}
	if got := urls(parse(t, body, "text/html")); got != "" {
		t.Errorf("as HTML: links %q", got)
	}
}

func TestCharsetNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1100) + "\u00fc"
	for _, c := range []struct{ contentType, body, want string }{
		{"", "a", "utf-8"}, {"", "\xfc", "windows-1252"}, {"text/html; charset=Latin1", "a",
			"windows-1252"}, {"", "\xff\xfea\x00", "utf-16le"},
		{"", "<\x00p\x00>\x00", "utf-16le"}, {"", "\x00<\x00p\x00>", "utf-16be"},
		{"", "<meta charset=KOI8-R>", "koi8-r"}, {"", "charset", "utf-8"},
		{"text/html; charset=klingon", "<meta charset=koi8-r>", "koi8-r"},
		{"text/html; charset=koi8-r", "\ufeffa", "utf-8"},
		{"", `<meta name=description content="on charset">` + long, "utf-8"},
		{"", "<meta charset=utf8mb4>" + long, "utf-8"},
		{"", `<meta name=Content-Type content="text/html; charset=latin1">` + long, "utf-8"},
		{"", "<meta charset=latin1>" + long, "windows-1252"},
		{"", "<meta charset=koi8-r>\xfc" + long, "koi8-r"},
	} {
		if d := parse(t, c.body, c.contentType); d.Charset != c.want {
			t.Errorf("%q, %q: %q, want %q", c.contentType, c.body, d.Charset, c.want)
		}
	}
}

// A tag that is larger than the tokenizer may keep changes nothing.
func TestLargeTags(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(" x", maxTag)
	for body, want := range map[string]string{
		"<a href=1" + long +
			"><a href=2>": "/a/1 /a/2",
		"<script" + long + "><a href=no></script><a href=1>": "/a/1",
		"<title" + long + "></title><a href=1>":              "/a/1",
		"<svg" + long + "><![CDATA[<a href=no>]]><a href=1" + long +
			" /></svg><a href=2>": "/a/1 /a/2",
		"<noscript" + long + "><a href=1></noscript>":      "/a/1",
		"<svg><style" + long + "></style></svg><a href=1>": "/a/1",
	} {
		if got := urls(parse(t, body, "")); got != want {
			t.Errorf("%.20q: %q, want %q", body, got, want)
		}
	}
}

// The document of one page must not change with what is read after it.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	first := parse(t, `<title>one</title><a href=http://example.org/1 rel=x><a href=2>`, "")
	links := slices.Clone(first.Links)
	parse(t, `<title>two</title><a href=http://example.com/3 rel=yyyy><a href=4>`, "")
	if !slices.Equal(links, first.Links) || first.Title != "one" {
		t.Errorf("%+v, want %+v", first, links)
	}
	if first.Links[0].URL != store.URL("http://example.org/1") {
		t.Errorf("link %+v", first.Links[0])
	}
}

// Links to other hosts have the text between their tags.
func TestLinkTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", MaxLinkText)
	body := `<title>t</title><p>before <a href="http://b.example/1">  One
 <b>and</b>&amp;more </a> after <a href="/own">own</a><a href="http://b.example/2"></a>
<a name=x>no link</a><A HREF=http://b.example/3>not closed <a href="http://b.example/4">` +
		`<img src=x></a><a href="http://b.example/5">` + long + `</a>`
	want := []string{"One and&more", "", "", "not closed", "", long[:MaxLinkText]}
	d, err := pageOf([]byte(body), "", page, Options{Text: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range d.Links {
		got = append(got, l.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("texts %q, want %q", got, want)
	}
	if d, _ := pageOf([]byte(body), "", page, Options{}); d.Links[0].Text != "" {
		t.Error("a text although none was wanted")
	}
}
