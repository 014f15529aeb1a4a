package extract

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// everything requests all kinds of references on which both ways of reading must agree.
var everything = Options{Kinds: Pages | Media | Forms | Styles}

// byTokens and byTree read a page in one way only; ok is false if that is not possible.
func byTokens(text []byte, o Options) (d Document, ok bool) {
	return by(o, func(c *collector) bool { return newScanner(text, c, modeStrict).run() })
}

func byTree(text []byte, o Options) (d Document, ok bool) {
	return by(o, func(c *collector) bool { return c.readTree(text) })
}

func by(o Options, read func(*collector) bool) (Document, bool) {
	c := newCollector(page, o.withDefaults())
	defer c.release()
	ok := read(c)
	return c.document(), ok
}

// firsts returns the links without repetitions, in order of first occurrence: elements that are
// reopened occur several times in the tree. Style attributes are omitted, because they are used
// even on tags that tree construction ignores.
func firsts(d Document) []Link {
	seen := map[Link]bool{}
	var out []Link
	for _, l := range d.Links {
		if !seen[l] && l.Attribute != "style" {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}

// difference returns how two readings of a page differ, "" if they do not. The order may differ if
// there is a table: tree construction moves the content between its rows to before it.
func difference(text []byte, tokens, tree Document) string {
	a, b := firsts(tokens), firsts(tree)
	if bytes.Contains(bytes.ToLower(text), []byte("<t")) {
		slices.SortFunc(a, compareLinks)
		slices.SortFunc(b, compareLinks)
	}
	switch {
	case !slices.Equal(a, b):
		return "links"
	case tokens.Title != tree.Title:
		return "title"
	case tokens.Base != tree.Base:
		return "base"
	case tokens.Canonical != tree.Canonical:
		return "canonical"
	case tokens.Robots != tree.Robots:
		return "robots"
	}
	return ""
}

func compareLinks(a, b Link) int {
	return strings.Compare(string(a.URL)+" "+a.Element+" "+a.Attribute+" "+a.Rel, string(b.URL)+" "+
		b.Element+" "+b.Attribute+" "+b.Rel)
}

// checkPlain fails if the tokenizer alone gives another result than with readPlain, which is not
// used if text is requested.
func checkPlain(t interface {
	Helper()
	Fatalf(string, ...any)
}, text []byte, o Options, mode scanMode) {
	t.Helper()
	read := func(c *collector) bool { return newScanner(text, c, mode).run() }
	got, ok := by(o, read)
	o.Text = 1 << 20
	want, sufficed := by(o, read)
	want.Text = ""
	if ok != sufficed || !reflect.DeepEqual(got, want) {
		t.Fatalf("mode %v, plain tags of %.2000q:\ngot  %v %+v\nwant %v %+v", mode, text, ok, got,
			sufficed, want)
	}
}

// checkSame fails if tokens and tree give different results for a page that both can read. It
// reports whether the tokens sufficed.
func checkSame(t interface {
	Helper()
	Fatalf(string, ...any)
}, text []byte, o Options) bool {
	t.Helper()
	tokens, ok := byTokens(text, o)
	for _, mode := range []scanMode{modeStrict, modeLenient, modeXML} {
		checkPlain(t, text, o, mode)
	}
	if !ok {
		return false
	}
	tree, ok := byTree(text, o)
	if !ok {
		return true
	}
	if d := difference(text, tokens, tree); d != "" {
		t.Fatalf("%s of %.2000q:\ntokens %+v\ntree   %+v", d, text, tokens, tree)
	}
	return true
}

// TestTokensEqualTree has pages for which tokens and tree would differ without a rule of the
// scanner.
func TestTokensEqualTree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body   string
		tokens bool // suffice
	}{
		{"<table><td><base href=/x/></td></tr><base href=/y/><a href=1></table>", false},
		{"<table><td><title>a</title></td></tr><title>b</title></table>", false},
		{"<table><td><link rel=canonical href=1></td></tr><link rel=canonical href=2></table>", false},
		{"<base href=/x/><title>a</title><link rel=canonical href=1><table><td><a href=1></table>", true},
		{"<form action=1><template></form></template><form action=2>", false},
		{"<form action=1></form><template><form action=2><form action=3></template>", false},
		{"<form action=1><form action=2></form><form action=3>", true},
		{"<title/></a><title><a href=1>", true},
		{"<style/>x<a href=1>", true},
		{"<svg></svg><![CDATA[x><a href=1>]]>", true},
		{"<svg><style>a{b:url(1)", true},
		{"<svg><style>@import '1';<g></g></style></svg>", false},
		{"<svg><title><a href=1></title><style><a href=2></style></svg>", false},
		{"<template><col><a href=1></template>", false},
		{"<table><col><a href=1></table>", true},
		{"<svg><p><style><a href=1></style>", false},
		{"<math><mi>x</mi><mo/></math><a href=1>", true},
		{"<math><annotation-xml encoding=text/html><style><a href=1></style>", false},
		{"<p><a href=1><frameset><frame src=2>", false},
		{"<frame src=1><noscript><a href=2></noscript>", true},
		{"<svg><foreignObject><template></template><a href=1>", false},
	} {
		if got := checkSame(t, []byte(c.body), everything); got != c.tokens {
			t.Errorf("%s: tokens sufficed: %v, want %v", c.body, got, c.tokens)
		}
		d, _ := pageOf([]byte(c.body), "", page, everything)
		tree, _ := byTree([]byte(c.body), everything)
		if diff := difference([]byte(c.body), d, tree); diff != "" {
			t.Errorf("%s of %s: %+v, want %+v", diff, c.body, d, tree)
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

func TestTokensEqualTreeOnSoup(t *testing.T) {
	t.Parallel()
	enough, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(soup), 0, 25).Draw(t, "soup"),
			""))
		o := everything
		o.Kinds = Kinds(rapid.IntRange(1, 15).Draw(t, "kinds"))
		if all++; checkSame(t, text, o) {
			enough++
		}
	})
	if enough*10 < all {
		t.Errorf("tokens sufficed for %d of %d pages, want at least a tenth", enough, all)
	}
}

func FuzzTokensEqualTree(f *testing.F) {
	for _, s := range soup {
		f.Add([]byte("<svg>"+s+"<a href=x>"), uint8(15))
		f.Add([]byte("<table>"+s+"<a href=x>"), uint8(1))
		f.Add([]byte(s+"<template>"+s), uint8(4))
	}
	f.Fuzz(func(t *testing.T, text []byte, kinds uint8) {
		if len(text) < smallTree {
			checkSame(t, text, Options{Kinds: Kinds(kinds%15 + 1)})
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

func TestTokensEqualTreeOnRealPages(t *testing.T) {
	t.Parallel()
	all, enough, deep := 0, 0, 0
	realPages(t, max(*htmlStep, 1), func(body []byte) {
		all++
		text, _ := decode(body, "text/html")
		if checkSame(t, text, everything) {
			enough++
		}
		_, err := html.ParseWithOptions(bytes.NewReader(text),
			html.ParseOptionEnableScripting(false))
		if err != nil {
			deep++
		}
	})
	t.Logf("%d pages: tokens sufficed for %d, the parser rejected %d", all, enough, deep)
}
