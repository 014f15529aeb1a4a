package sitemap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"peerd/store"
)

const at = store.URL("http://example.org/maps/sitemap.xml")

// short formats each entry of a document as one line.
func short(d Doc) (s []string) {
	line := func(mark string, e Entry) {
		text := mark + string(e.URL)
		if !e.LastMod.IsZero() {
			text += " " + e.LastMod.Format(time.RFC3339)
		}
		s = append(s, text)
	}
	for _, e := range d.Sitemaps {
		line("> ", e)
	}
	for _, e := range d.Pages {
		line("", e)
	}
	return s
}

func TestParse(t *testing.T) {
	const ns = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
	for _, c := range []struct {
		name, body string
		kind       Kind
		want       []string
		invalid    int
		truncated  bool
	}{
		{"full", `<?xml version="1.0" encoding="UTF-8"?><urlset` + ns + `><url><loc>http://example.org/a?b=1&amp;c=2</loc>
			<lastmod>2024-05-06</lastmod><changefreq>daily</changefreq><priority>0.8</priority>` +
			`</url></urlset>`,
			URLSet, []string{"http://example.org/a?b=1&c=2 2024-05-06T00:00:00Z"}, 0,
			false},
		{"index", `<sitemapindex` + ns +
			`><sitemap><loc>b.xml.gz</loc><lastmod>2024</lastmod></sitemap><sitemap><loc>` +
			`/c.xml</loc></sitemap></sitemapindex>`,
			Index, []string{"> http://example.org/maps/b.xml.gz 2024-01-01T00:00:00Z",
				"> http://example.org/c.xml"}, 0, false},
		{"pages in an index",
			`<sitemapindex><url><loc>/a</loc></url><sitemap><loc>/m</loc></sitemap></sitemapindex>`,
			Index, []string{"> http://example.org/m", "http://example.org/a"}, 0, false},
		{"bare ampersand", `<urlset><url><loc>/a?b&c=1&copy=2&</loc></url></urlset>`, URLSet,
			[]string{"http://example.org/a?b&c=1&copy=2&"}, 0, false},
		{"cdata and space", "<urlset><url><loc>\n\t<![CDATA[ /a?b&c ]]>\n</loc></url></urlset>",
			URLSet, []string{"http://example.org/a?b&c"}, 0, false},
		{"comments, split text",
			`<urlset><!-- <url><loc>/x</loc></url> --><url><loc>/a<!-- x -->b</loc></url></urlset>`,
			URLSet, []string{"http://example.org/ab"}, 0, false},
		{"old namespace, upper case",
			`<URLSET xmlns="http://www.google.com/schemas/sitemap/0.84"><URL><LOC>/a</LOC></URL></URLSET>`, URLSet, []string{"http://example.org/a"}, 0, false},
		{"prefixed",
			`<s:urlset xmlns:s="x"><s:url><s:loc>/a</s:loc></s:url><url><loc>/b</loc></url></s:urlset>`, URLSet, []string{"http://example.org/a", "http://example.org/b"}, 0, false},
		{"extensions", `<urlset` + ns + ` xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml">
			<url><image:image><image:loc>/no.png</image:loc></image:image><image:loc>` +
			`/no2.png</image:loc><video:loc>/no</video:loc>
			<xhtml:link rel="alternate" hreflang="de" href="/de"/><loc>/a</loc><image xmlns="y">` +
			`<loc>/no3</loc></image>
			<loc xmlns="y">/no4</loc><news:news><news:lastmod>2020</news:lastmod></news:news></url>
			<image:url><loc>/no5</loc></image:url></urlset>`, URLSet, []string{"http://example.org/a"}, 0, false},
		{"other prefixes",
			`<s:urlset><x:url><loc>/no</loc></x:url><s:url><s:loc>/a</s:loc></s:url><url><loc>/b</loc></url></s:urlset>`, URLSet, []string{"http://example.org/a", "http://example.org/b"}, 0, false},
		{"first loc counts", `<urlset><url><loc></loc><loc>/a</loc><loc>/b</loc></url></urlset>`,
			URLSet, []string{"http://example.org/a"}, 0, false},
		{"invalid",
			`<urlset><url/><url><loc/></url><url><loc>mailto:a@b</loc></url><url><loc>http://u:p@h/</loc></url><url><loc>/a</loc></url></urlset>`,
			URLSet, []string{"http://example.org/a"}, 4, false},
		{"bad fields",
			`<urlset><url><loc>/a</loc><lastmod>soon</lastmod><changefreq>often</changefreq><priority>NaN</priority></url></urlset>`, URLSet, []string{"http://example.org/a"}, 0, false},
		{"unclosed entries",
			`<urlset><url><loc>/a</loc><url><loc>/b</loc></url><url><loc>/c</loc></urlset>`, URLSet,
			[]string{"http://example.org/a", "http://example.org/b", "http://example.org/c"}, 0,
			false},
		{"stray end tags",
			`<urlset></b><url></i><loc>/a</b></loc></url></url><url><loc>/b</loc></url></urlset>`,
			URLSet, []string{"http://example.org/a", "http://example.org/b"}, 0, false},
		{"unclosed loc", `<urlset><url><loc>/a</url><url><loc>/b</loc></url></urlset>`, URLSet,
			[]string{"http://example.org/a", "http://example.org/b"}, 0, false},
		{"warnings before",
			"Warning: x\n<br />\n<b>Notice</b>\n<?xml version=\"1.0\"?><urlset><url><loc>/a</loc></url></urlset>", URLSet, []string{"http://example.org/a"}, 0, false},
		{"XML 1.1, controls",
			"\n<?xml version=\"1.1\" encoding='x-none'?><urlset><url><loc>/a\x00\x08</loc></url>" +
				"<url><loc>/\xff\uffff\ufffe</loc></url></urlset>", URLSet,
			[]string{"http://example.org/a", "http://example.org/%EF%BF%BD"}, 0, false},
		{"cut in a tag", `<urlset><url><loc>/a</loc></url><url><loc>/b</lo`, URLSet, []string{"http://example.org/a"}, 0, true},
		{"cut after loc", `<urlset><url><loc>/a</loc><lastmod>2024</lastmod>`, URLSet,
			[]string{"http://example.org/a 2024-01-01T00:00:00Z"}, 0, true},
		{"cut in loc", `<urlset><url><loc>http://example.org/ab`, URLSet, nil, 0, true},
		{"empty", `<urlset/>`, URLSet, nil, 0, false},
		{"trailing garbage", `<urlset><url><loc>/a</loc></url></urlset><script>&<`, URLSet, []string{"http://example.org/a"}, 0, false},
		{"list",
			"\ufeffhttp://example.org/a\r\nHTTPS://example.org/b\rhttp://example.org/c?d e\n\n# no\nx\n/relative\nhttp://h/", List,
			[]string{"http://example.org/a", "https://example.org/b", "http://example.org/c?d%20e",
				"http://h/"}, 2, false},
		{"RSS 2.0", `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:media="m"><channel><link>/no</link><atom:link href="/no"/>
			<item><title>x</title><atom:link href="/no"/><media:link>/no</media:link><link>/a</link><guid>http://example.org/no</guid><pubDate>Mon, 06 May 2024 10:00:00 EST</pubDate></item>
			<item><guid>http://example.org/b</guid></item><item><guid isPermaLink="false">http://example.org/no</guid></item></channel></rss>`,
			RSS, []string{"http://example.org/a 2024-05-06T15:00:00Z", "http://example.org/b"}, 1,
			false},
		{"RSS 1.0", `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
			<channel rdf:about="/no"><link>/no</link><items><rdf:Seq><rdf:li resource="/no"/>` +
			`</rdf:Seq></items></channel>
			<item rdf:about="http://example.org/no"><link>/a</link><dc:date>2024-05-06T10:00+02:00</dc:date></item><item rdf:about="http://example.org/b"/></rdf:RDF>`,
			RSS, []string{"http://example.org/a 2024-05-06T08:00:00Z", "http://example.org/b"}, 0,
			false},
		{"Atom 1.0", `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://other.example/x/"><link href="/no"/><updated>2020-01-01T00:00:00Z</updated>
			<entry><link rel="self" href="no"/><link rel="enclosure" href="no"/><link href="a"/>` +
			`<link rel="alternate" href="no"/>
			<published>2024-01-01T00:00:00Z</published><updated>2024-05-06T10:00:00.5Z</updated>` +
			`<id>tag:x</id><source><link href="no"/></source></entry>
			<entry xml:base="y/"><link rel="alternate" href="b"/><published>` +
			`2024-01-01T00:00:00Z</published></entry></feed>`,
			Atom, []string{"http://other.example/x/a 2024-05-06T10:00:00Z",
				"http://other.example/x/y/b 2024-01-01T00:00:00Z"}, 0, false},
		{"Atom 0.3",
			`<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><link rel="alternate" type="text/html" href="/a"/><issued>2003-12-13T08:29:29-04:00</issued><modified>2003-12-13T18:30:02Z</modified></entry></feed>`,
			Atom, []string{"http://example.org/a 2003-12-13T18:30:02Z"}, 0, false},
	} {
		d, err := Parse([]byte(c.body), "", at, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := short(d); d.Kind != c.kind || !slices.Equal(got, c.want) ||
			d.Invalid != c.invalid || d.Truncated != c.truncated {
			t.Errorf("%s: %v, invalid %d, truncated %v\n got %q\nwant %q", c.name, d.Kind,
				d.Invalid, d.Truncated, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, body := range []string{
		"", " ", "hello\nworld", "<", "<a/>", `{"loc": "http://example.org/"}`,
		"<!DOCTYPE html><html><body><urlset><url><loc>/a</loc></url></urlset>",
		"<html><feed><entry><link href=x></entry></feed></html>",
		strings.Repeat("<p>", 100) + "<urlset>", "\x1f\x8b", "\x1f\x8b\x08garbage", "\xff\xfe",
		"\x00\x01\x02",
		strings.Repeat("text\n", 20) + "http://example.org/",
	} {
		if d, err := Parse([]byte(body), "application/xml", at, Options{}); !errors.Is(err,
			ErrFormat) || d.Kind != None {
			t.Errorf("%.40q: %v, %v", body, d.Kind, err)
		}
	}
}

func TestEncodings(t *testing.T) {
	const text = "<urlset><url><loc>/grüße</loc></url></urlset>"
	const want = "http://example.org/gr%C3%BC%C3%9Fe"
	encode := func(s string, e interface{ String(string) (string, error) }) string {
		out, err := e.String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	latin := charmap.ISO8859_1.NewEncoder()
	for _, c := range []struct{ name, body, contentType string }{
		{"UTF-8", text, ""},
		{"UTF-8 with mark", "\ufeff" + text, "text/xml; charset=iso-8859-1"},
		{"UTF-8 declared, latin 1 by HTTP", `<?xml version="1.0" encoding="utf-8"?>` + text, "text/xml; charset=iso-8859-1"},
		{"UTF-16 declared, but not", `<?xml version="1.0" encoding="utf-16"?>` + text, ""},
		{"latin 1 declared", encode(`<?xml version='1.0' encoding='ISO-8859-1' standalone="yes"?>`+text, latin), ""},
		{"latin 1 by HTTP", encode(text, latin), "text/xml; charset=iso-8859-1"},
		{"UTF-16 LE with mark", encode(text, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder()), ""},
		{"UTF-16 BE with mark", encode(text, unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder()), ""},
		{"UTF-16 LE", encode(text, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder()), "text/xml; charset=utf-8"},
		{"UTF-16 BE", encode(`<?xml version="1.0" encoding="UTF-16"?>`+text,
			unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder()), ""},
		{"UTF-16 list", encode("http://example.org/grüße\r\n", unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder()), ""},
	} {
		d, err := Parse([]byte(c.body), c.contentType, at, Options{})
		if err != nil || len(d.Pages) != 1 || string(d.Pages[0].URL) != want || d.Truncated {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
	}
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func TestGzip(t *testing.T) {
	text := []byte("<urlset><url><loc>/a</loc></url></urlset>")
	for name, body := range map[string][]byte{
		"once": zip(text), "twice": zip(zip(text)),
		"two members": append(zip(text[:10]), zip(text[10:])...),
	} {
		d, err := Parse(body, "text/plain", at, Options{})
		if err != nil || len(d.Pages) != 1 || d.Truncated {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if d, err := Parse(zip(zip(zip(text))), "", at, Options{}); err == nil {
		t.Errorf("three times: %+v", d)
	}
	many := zip([]byte("<urlset>" + strings.Repeat("<url><loc>/a</loc></url>", 50000)))
	d, err := Parse(many[:len(many)/2], "", at, Options{})
	if err != nil || !d.Truncated || len(d.Pages) < 1000 {
		t.Errorf("half a file: %d pages, truncated %v, %v", len(d.Pages), d.Truncated, err)
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		at, page store.URL
		want     bool
	}{
		{"http://a.example/sitemap.xml", "http://a.example/x/y", true},
		{"http://a.example/sitemap.xml?x=/y/z", "http://a.example/x", true},
		{"http://a.example/c/sitemap.xml", "http://a.example/c/x", true},
		{"http://a.example/c/sitemap.xml", "http://a.example/c", false},
		{"http://a.example/c/sitemap.xml", "http://a.example/cx", false},
		{"http://a.example/c/sitemap.xml", "http://a.example/d/x", false},
		{"http://a.example/sitemap.xml", "https://a.example/x", false},
		{"http://a.example/sitemap.xml", "http://a.example:8080/x", false},
		{"http://a.example/sitemap.xml", "http://www.a.example/x", false},
		{"http://a.example/sitemap.xml", "http://a.example.org/x", false},
		{"", "http://a.example/", false},
		{"http://a.example", "http://b.example/", false},
	} {
		if got := Allowed(c.at, c.page); got != c.want {
			t.Errorf("Allowed(%q, %q) = %v", c.at, c.page, got)
		}
	}
}
