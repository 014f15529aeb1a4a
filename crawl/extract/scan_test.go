package extract

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// everything requests all kinds of references.
var everything = Options{Kinds: Pages | Media | Forms | Styles}

// by reads a page, with the tokenizer alone or also with readPlain.
func by(text []byte, o Options, xml, alone bool) Document {
	c := newCollector(page, o.withDefaults())
	defer c.release()
	s := newScanner(text, c, xml)
	for alone && s.token() {
		s.raw = false
		s.in.begin()
	}
	s.run()
	return c.document()
}

// checkPlain fails if the tokenizer alone gives another result than with readPlain.
func checkPlain(t interface {
	Helper()
	Fatalf(string, ...any)
}, text []byte, o Options) {
	t.Helper()
	for _, xml := range []bool{false, true} {
		got, want := by(text, o, xml, false), by(text, o, xml, true)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("xml %v, plain tags of %.2000q:\ngot  %+v\nwant %+v", xml, text, got, want)
		}
	}
}

// soup has tags for the kinds other than pages, and for the rules of the scanner.
var soup = append(slices.Clip(tags),
	"<img src=11 srcset='12 1x, 13 2x'>", "<image src=14>", "<image href=15 />",
	"<use xlink:href=16 />", "<feImage href=17>", "</feimage>", "<source srcset=18>",
	"<video poster=19 src=20>", "</video>", "<object data=21>", "</object>", "<embed src=22>",
	"<input type=image src=23>", "<form action=24>", "<form action=25 method=post>", "</form>",
	"<style>@import '26';", "<style><![CDATA[a{b:url(27)}]]>", "<g>", "</g>", "<g/>",
	"<path d=x />", "<font size=1>", "<mtext>", "</mtext>", "<mo/>", "<annotation-xml>", "<mglyph>",
	"<head/>", "<nobr>", "</nobr>", "<object>", "<applet>", "</applet>", "<li>", "</li>", "<h1>",
	"</h1>", "<div>", "</div>", "<span>", "</span>", "<optgroup>", "</option>",
	"<input type=hidden>", "<link rel=canonical href=28>", "<link rel=canonical href=29>",
	"<link rel=icon href=30>", "<meta name=robots content=noindex>",
	"<meta http-equiv=refresh content='1;url=31'>", "<svg/>", "<math/>", "<title/>", "<script/>",
	"</foreignObject>", "</desc>", "</mi>", "</tr>", "</td>", "</caption>", "</colgroup>",
	"<tbody>", "<thead>", "<ruby>", "<rt>", "<dd>", "<frame src=32 />", "</p>", "<html>",
	"<body style='x:url(33)'>", "<?x ", ">", "</>", "</ x>", "<script><!--<script>", "-->",
	"<a\x00 href=34>", "<A HREF=35 href=36>", "<a href=37 rel='nofollow ugc'/>",
	`<a class="x" href="38">`, `<a href='39' rel="nofollow" />`, `<a title=">" href="40"/>`,
	`<a href="41&amp;" id="&">`, `<a href="42" href="43">`, `<a x="1"href="44">`, `<a href="45`,
	"<a href=\"\x00\r46\">", `<p title="<a href='47'>">`, "<a\n\thref = \"48\">",
	`<a href="49"x>`, `<br />`, `<td nowrap>`, `</form>`, `<form action="50" method="get">`,
	`<img src="51" alt='">'>`, `<noscript class="x">`, `<script src="x">`, `<title lang="en">`,
	`<svg class="x">`, `<h1 id="y">`, `<base href="/z/">`, `<p data-x_y="" xml:lang="en">`,
	`<a href="52" Rel="x">`, `</p >`, `</A>`, `<a-b="c" href="53">`,
	"<a rel=\"x\ry\" href=\"54\">", `<a xlink:href="55">`,
	`</p title="<a href='56'>">`,
)

func TestPlainTagsOfSoup(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(soup), 0, 25).Draw(t, "soup"),
			""))
		o := everything
		o.Kinds = Kinds(rapid.IntRange(1, 15).Draw(t, "kinds"))
		o.Text = rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "text")
		checkPlain(t, text, o)
	})
}

func FuzzPlainTags(f *testing.F) {
	for _, s := range soup {
		f.Add([]byte("<svg>"+s+"<a href=x>"), uint8(15))
		f.Add([]byte("<table>"+s+"<a href=x>"), uint8(1))
		f.Add([]byte(s+"<template>"+s), uint8(4))
	}
	f.Fuzz(func(t *testing.T, text []byte, kinds uint8) {
		if len(text) < maxTag {
			checkPlain(t, text, Options{Kinds: Kinds(kinds%15 + 1), Text: int(kinds) << 4})
		}
	})
}

var (
	htmlDir = flag.String("html-dir", "",
		"directory of HTML pages for tests and benchmarks; they are skipped without it")
	htmlStep = flag.Int("html-step", 97,
		"test every nth page of -html-dir; 1 tests all pages")
)

// realPages calls see with every nth page in -html-dir.
func realPages(tb testing.TB, n int, see func(body []byte)) {
	if *htmlDir == "" {
		tb.Skip("skipped: -html-dir names no directory of HTML pages")
	}
	i := 0
	err := filepath.WalkDir(*htmlDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.Contains(filepath.Ext(path), "htm") {
			return err
		}
		if i++; i%n != 0 {
			return nil
		}
		if body, err := os.ReadFile(path); err == nil {
			see(body)
		}
		return nil
	})
	if err != nil || i < n {
		tb.Fatalf("%d pages in %s, %v, want at least %d", i, *htmlDir, err, n)
	}
}

func TestPlainTagsOfRealPages(t *testing.T) {
	t.Parallel()
	realPages(t, max(*htmlStep, 1), func(body []byte) {
		text, _ := decode(body, "text/html", declaresCharset(body))
		checkPlain(t, text, everything)
	})
}
