package extract

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// everything asks for all that both ways of reading must agree on.
var everything = Options{Kinds: Pages | Media | Forms | Styles}

// byTokens and byTree read a page in one way only; ok is false if that way
// gives up.
func byTokens(text []byte, o Options) (d Document, ok bool) {
	return by(o, func(c *collector) bool { return newScanner(text, c, wary).run() })
}

func byTree(text []byte, o Options) (d Document, ok bool) {
	return by(o, func(c *collector) bool { return c.readTree(text) })
}

func by(o Options, read func(*collector) bool) (Document, bool) {
	c := newCollector(page, o.withDefaults())
	defer c.free()
	ok := read(c)
	return c.document(), ok
}

// firsts are the links without repetitions, in order of first occurrence. The
// tree has some more than once: elements that it opens again. Style attributes
// are left out: they count even on tags that tree construction ignores.
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

// difference says how two readings of one page differ, "" for not at all. The
// order may differ where there is a table: tree construction moves what stands
// between its rows to before it.
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
	return strings.Compare(string(a.URL)+" "+a.Element+" "+a.Attribute+" "+a.Rel, string(b.URL)+" "+b.Element+" "+b.Attribute+" "+b.Rel)
}

// checkSame fails if tokens and tree tell different things of a page that both
// can read. It returns whether the tokens were enough.
func checkSame(t interface {
	Helper()
	Fatalf(string, ...any)
}, text []byte, o Options) bool {
	t.Helper()
	tokens, ok := byTokens(text, o)
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

// Pages where tokens and tree differ, were it not for a rule of the scanner.
func TestTokensEqualTree(t *testing.T) {
	for _, c := range []struct {
		body   string
		tokens bool // are enough
	}{
		{"<table><td><base href=/x/></td></tr><base href=/y/><a href=1></table>", false},
		{"<table><td><title>a</title></td></tr><title>b</title></table>", false},
		{"<table><td><link rel=canonical href=1></td></tr><link rel=canonical href=2></table>", false},
		{"<base href=/x/><title>a</title><link rel=canonical href=1><table><td><a href=1></table>", true},
		{"<form action=1><template></form></template><form action=2>", false},
		{"<form action=1></form><template><form action=2><form action=3></template>", false},
		{"<form action=1><form action=2></form><form action=3>", true},
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
			t.Errorf("%s: tokens were enough: %v", c.body, got)
		}
		d, _ := HTML([]byte(c.body), "", page, everything)
		tree, _ := byTree([]byte(c.body), everything)
		if diff := difference([]byte(c.body), d, tree); diff != "" {
			t.Errorf("%s of %s: %+v, want %+v", diff, c.body, d, tree)
		}
	}
}

// soup is what the kinds beyond pages and the rules of the scanner are about.
var soup = append(slices.Clip(tags),
	"<img src=11 srcset='12 1x, 13 2x'>", "<image src=14>", "<image href=15 />", "<use xlink:href=16 />", "<feImage href=17>", "</feimage>",
	"<source srcset=18>", "<video poster=19 src=20>", "</video>", "<object data=21>", "</object>", "<embed src=22>", "<input type=image src=23>",
	"<form action=24>", "<form action=25 method=post>", "</form>", "<style>@import '26';", "<style><![CDATA[a{b:url(27)}]]>", "<g>", "</g>", "<g/>",
	"<path d=x />", "<font size=1>", "<mtext>", "</mtext>", "<mo/>", "<annotation-xml>", "<mglyph>", "<head/>", "<nobr>", "</nobr>", "<object>",
	"<applet>", "</applet>", "<li>", "</li>", "<h1>", "</h1>", "<div>", "</div>", "<span>", "</span>", "<optgroup>", "</option>", "<input type=hidden>",
	"<link rel=canonical href=28>", "<link rel=canonical href=29>", "<link rel=icon href=30>", "<meta name=robots content=noindex>",
	"<meta http-equiv=refresh content='1;url=31'>", "<svg/>", "<math/>", "<title/>", "<script/>", "</foreignObject>", "</desc>", "</mi>", "</tr>", "</td>",
	"</caption>", "</colgroup>", "<tbody>", "<thead>", "<ruby>", "<rt>", "<dd>", "<frame src=32 />", "</p>", "<html>", "<body style='x:url(33)'>",
	"<?x ", ">", "</>", "</ x>", "<script><!--<script>", "-->", "<a\x00 href=34>", "<A HREF=35 href=36>", "<a href=37 rel='nofollow ugc'/>",
)

func TestTokensEqualTreeOnSoup(t *testing.T) {
	enough, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(soup), 0, 25).Draw(t, "soup"), ""))
		o := everything
		o.Kinds = Kinds(rapid.IntRange(1, 15).Draw(t, "kinds"))
		if all++; checkSame(t, text, o) {
			enough++
		}
	})
	if enough*10 < all {
		t.Errorf("tokens were enough for %d of %d only", enough, all)
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

// pagesEnv names a folder of real pages.
const pagesEnv = "PEERD_HTML_DIR"

// realPages hands over the files of the folder that pagesEnv names, every nth.
func realPages(tb testing.TB, n int, see func(body []byte)) {
	dir := os.Getenv(pagesEnv)
	if dir == "" {
		tb.Skip("SKIPPED: " + pagesEnv + " names no folder of HTML pages")
	}
	i := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.Contains(filepath.Ext(path), "htm") {
			return err
		}
		if i++; i%n != 0 {
			return nil
		}
		body, err := os.ReadFile(path)
		if err == nil {
			see(body)
		}
		return nil
	})
	if err != nil || i < n {
		tb.Fatalf("%d pages in %s: %v", i, dir, err)
	}
}

// sampling is how many pages stand for one that is read, unless
// PEERD_HTML_ALL is set.
func sampling() int {
	if os.Getenv("PEERD_HTML_ALL") != "" {
		return 1
	}
	return 97
}

func TestTokensEqualTreeOnRealPages(t *testing.T) {
	all, enough, deep := 0, 0, 0
	realPages(t, sampling(), func(body []byte) {
		all++
		text, _ := decode(body, "text/html")
		if checkSame(t, text, everything) {
			enough++
		}
		if _, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false)); err != nil {
			deep++
		}
	})
	t.Logf("%d pages: tokens were enough for %d, the parser does not take %d", all, enough, deep)
}
