package main

import (
	"bytes"
	"flag"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/store"
)

var siteDir = flag.String("site", "", "directory of pages for TestSameLinks")

// differences returns the links that a crawllet finds on a page and a peer does not, and those that
// only a peer finds. Both are in the peer's form, and without those of an empty reference.
func differences(u string, body []byte) (more, less []string) {
	doc, err := extract.Page(body, http.Header{"Content-Type": {"text/html"}}, store.URL(u),
		extract.Options{MaxLinks: 1 << 20})
	if err != nil {
		panic(err)
	}
	peers, ours := map[string]bool{}, map[string]bool{}
	for _, l := range doc.Links {
		peers[string(l.URL)] = true
	}
	r := reader{}
	for _, l := range r.parse(u, body).links {
		if c, err := canon.Parse(l); err == nil {
			ours[string(c)] = true
		}
	}
	delete(peers, u)
	delete(ours, u)
	for l := range ours {
		if !peers[l] {
			more = append(more, l)
		}
	}
	for l := range peers {
		if !ours[l] {
			less = append(less, l)
		}
	}
	return more, less
}

// TestSameLinks compares the links of a crawllet with those of a peer on the pages of -site.
func TestSameLinks(t *testing.T) {
	if *siteDir == "" {
		t.Skip("no -site")
	}
	pages, links := 0, 0
	err := filepath.WalkDir(*siteDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".html") {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(*siteDir, path)
		if err != nil {
			return err
		}
		u := "http://a.example/" + (&url.URL{Path: filepath.ToSlash(rel)}).EscapedPath()
		more, less := differences(u, body)
		if len(more)+len(less) > 0 {
			t.Errorf("%s: only the crawllet finds %q, only a peer %q", rel, more, less)
		}
		r := reader{}
		pages, links = pages+1, links+len(r.parse(u, body).links)
		if err := sameAsTokens(u, body); err != "" {
			t.Errorf("%s: %s", rel, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages with %d links", pages, links)
}

// parts are of what pages consist that crawllets and peers read alike.
var parts = []string{
	`<a href="x.html">x</a>`, `<A HREF='../y/z.html#f'>`, `<a href=u?a=1&amp;b=2>`, `<a name=n>`,
	`<a href="?q=&copy=1&lt;">`, `<a title="<a href=no>" href="t">`, `<a href="" href="second">`,
	`<a href = /abs/path >`, `<a href=//b.example/p>`, `<a href="HTTP://C.Example:80/%7eu/">`,
	`<a href="mailto:x@y.z">`, `<a href="javascript:f('<a href=no>')">`, `<a href=".">`,
	`<a href="./d/./e/../f">`, `<a href="../../../../up">`, `<a href=" s p ">`, `<a/href=slash>`,
	`<a href="é/ü">`, "<a href='new\nline'>", `<a =href=no>`, `<a href>`, `<a href=#frag>`,
	`<area href=area>`, `<link rel="next" href=next>`, `<link rel="shortcut ICON" href=no>`,
	`<link rel=stylesheet href=no>`, `<link href=rel>`, `<iframe src=frame><a href=no></iframe>`,
	`<meta http-equiv=Refresh content="3; url='later'">`, `<meta http-equiv=refresh content=5>`,
	`<meta name=x content="1;url=no">`, `<script>"<a href=no>"</script>`, `<p class="x > y">`,
	`<script>a<!--<script><a href=no></script><a href=no>--></script>`, `<!-- <a href=no> -->`,
	`<!--><a href=after>`, `<!DOCTYPE html>`, `<?php <a href=no> ?>`, `</a href=no>`, `</ >`, `<>`,
	`<style>a{}</style>`, `<noscript><a href=noscript></noscript>`, `a < b`, `&amp;&copy`,
	`<textarea><a href=no></textarea>`, `<title>t &amp; <a href=no></title>`, `<STYLE></style >`,
	`<svg><a xlink:href="svg"></a></svg>`, `<code>`, `</code>`, "\x00", "\r\n",
	`<xmp><a href=no></xmp>`,
	`<base href="/base/">`, `<base target=x>`, `<li><nav>n</nav>`, `<header>h</header>text`,
}

// Pages of any parts have the same links to a crawllet and to a peer.
func TestSameLinksOfParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var b bytes.Buffer
		for range 1 + rng.IntN(12) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		const u = "http://a.example/d/e/p.html"
		if more, less := differences(u, b.Bytes()); len(more)+len(less) > 0 {
			t.Fatalf("%q: only the crawllet finds %q, only a peer %q", &b, more, less)
		}
		if err := sameAsTokens(u, b.Bytes()); err != "" {
			t.Fatalf("%q: %s", &b, err)
		}
	}
}

// sameAsTokens reads a page with scan and with the tokenizer, and returns how the results differ.
func sameAsTokens(u string, body []byte) string {
	r := reader{withText: true}
	got := r.parse(u, body)
	z := reader{withText: true, onlyTokens: true}
	want := z.parse(u, body)
	switch {
	case got.title != want.title:
		return "title " + got.title + ", want " + want.title
	case got.text != want.text:
		return "text " + got.text + ", want " + want.text
	case !slices.Equal(got.links, want.links):
		return "links " + strings.Join(got.links, " ") + ", want " + strings.Join(want.links, " ")
	}
	return ""
}

// FuzzScan reads a page with scan and with the tokenizer.
func FuzzScan(f *testing.F) {
	for _, p := range parts {
		f.Add([]byte(p + "x"))
	}
	f.Add([]byte("<p>x</"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := sameAsTokens("http://a.example/d/p.html", b); err != "" {
			t.Error(err)
		}
	})
}

// FuzzResolve resolves references with and without the parser of URLs.
func FuzzResolve(f *testing.F) {
	for _, ref := range []string{
		"", "http://b.example", "https://b.example/x#y", "http://b.example:1/", "http://b.example//",
		"https://", "http://B/", "http://b?q", "http://b/a%20b", "x", "../x/", "/a/b#c", "./x", "..", "a//b", "/.x", "../../..//x", "%zz", "a\\b\tc",
	} {
		f.Add("http://a.example/d/e", ref)
	}
	f.Fuzz(func(t *testing.T, base, ref string) {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" || u.Host == "" || u.User != nil {
			return
		}
		var fast, slow resolver
		fast.setBase(u)
		slow.setBase(u)
		slow.plain = false
		got, want := fast.resolve([]byte(ref)), slow.resolve([]byte(ref))
		if string(got) != string(want) {
			t.Errorf("%q of %q is %q, want %q", ref, base, got, want)
		}
	})
}
