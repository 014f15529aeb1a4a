package extract

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"peerd/crawl/canon"
)

// TestQueryEncodings verifies for every character of the Basic Multilingual Plane that its query
// means the same character in the encoding, or is a reference to it.
func TestQueryEncodings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"big5", "euc-jp", "euc-kr", "gb18030",
		"iso-8859-2", "iso-8859-8-i", "koi8-u", "shift_jis", "windows-1252"} {
		q, known := newQueryEncoder(name), 0
		enc, err := htmlindex.Get(strings.TrimSuffix(name, "-i"))
		if err != nil {
			t.Fatal(err)
		}
		for r := rune(0x80); r < 0x10000; r++ {
			if r >= 0xd800 && r < 0xf900 {
				continue
			}
			query, err := url.PathUnescape(q.encode("?" + string(r))[1:])
			if err != nil {
				t.Fatal(err)
			}
			if query == fmt.Sprintf("&#%d;", r) {
				continue
			}
			known++
			if got, err := enc.NewDecoder().String(query); err != nil || got != string(r) {
				t.Errorf("%s: query %q of %q means %q, %v", name, query, r, got, err)
			}
		}
		if known < 60 {
			t.Errorf("%s: %d characters have a query", name, known)
		}
	}
}

// TestQueryISO2022JP verifies the states of the only encoding that has some.
func TestQueryISO2022JP(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"aあいz":   "a%1B$B$%22$$%1B(Bz",
		"コ0":     "%1B$B%3%1B(B0",
		"あ b":    "%1B$B$%22%1B(B%20b",
		"漢字=%E3": "%1B$B4A;z%1B(B=%E3",
		"é":      "%26%23233%3B",
		"あ€い":    "%1B$B$%22%1B(B%26%238364%3B%1B$B$$%1B(B",
	} {
		if got := newQueryEncoder("iso-2022-jp").encode("?" + in); got != "?"+want {
			t.Errorf("query %q = %q, want %q", in, got, "?"+want)
		}
	}
}

// TestQueryReferences verifies which part of a reference is encoded, and what is removed.
func TestQueryReferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ charset, in, want string }{
		{"windows-1251", "/п?п=я#п", "/п?%EF=%FF#п"},
		{"windows-1251", "/п#?п", "/п#?п"},
		{"windows-1251", "п", "п"},
		{"windows-1251", "?a=1", "?a=1"},
		{"windows-1251", "?п\u0301\U0001f600", "?%EF%26%23769%3B%26%23128512%3B"},
		{"windows-1251", "?п'\"<> %20%zz", "?%EF%27%22%3C%3E%20%20%zz"},
		{"windows-1251", "?п\t\nп \v", "?%EF%EF"},
		{"windows-1251", "?п #", "?%EF%20#"},
		{"shift_jis", "?ソ", "?%83\\"},
		{"gb18030", "?中\U0001f600", "?%D6%D0%949%FC6"},
		{"utf-8", "?п", "?п"},
		{"utf-16be", "?п", "?п"},
		{"utf-16le", "?п", "?п"},
		{"replacement", "?п", "?п"},
		{"no such encoding", "?п", "?п"},
	} {
		if got := newQueryEncoder(c.charset).encode(c.in); got != c.want {
			t.Errorf("%s: encode(%q) = %q, want %q", c.charset, c.in, got, c.want)
		}
	}
}

// TestQueryOfPage verifies which references of a page are affected by its encoding, as the web
// platform tests do (html/infrastructure/urls/resolving-urls/query-encoding).
func TestQueryOfPage(t *testing.T) {
	t.Parallel()
	page := `<!doctype html><meta charset=windows-1251><base href="/d/?п"><title>п</title>
<link rel=canonical href="?к=п"><meta http-equiv=refresh content="1;url=?р=п">
<a href="">x</a><a href="/п?q=п&amp;r=%CF%80&#960;">x</a><area href=//b.test/?п>
<img src="?и=п" srcset="?с=п 1x"><form action="?ф=п"></form>
<svg><a xlink:href="?s=п"></a></svg><style>a{background:url(?css=п)}</style>
<p style="background:url(?css=п)"></p>`
	enc, err := htmlindex.Get("windows-1251")
	if err != nil {
		t.Fatal(err)
	}
	body, err := enc.NewEncoder().Bytes([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Content-Type": {"text/html"}, "Link": {"</h?п>; rel=next"}}
	doc, err := Page(body, header, "http://a.test/", Options{Kinds: Pages | Media | Forms | Styles})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{string(doc.Base), string(doc.Canonical)}
	for _, l := range doc.Links {
		got = append(got, string(l.URL))
	}
	want := []string{
		"http://a.test/d/?%EF", "http://a.test/d/?%EA=%EF", "http://a.test/h?%D0%BF",
		"http://a.test/d/?%EA=%EF", "http://a.test/d/?%F0=%EF", "http://a.test/d/?%EF",
		"http://a.test/%D0%BF?q=%EF&r=%CF%80%26%23960%3B", "http://b.test/?%EF",
		"http://a.test/d/?%E8=%EF", "http://a.test/d/?%F1=%EF", "http://a.test/d/?%F4=%EF",
		"http://a.test/d/?s=%EF", "http://a.test/d/?css=%D0%BF", "http://a.test/d/?css=%D0%BF",
	}
	if !slices.Equal(got, want) {
		t.Errorf("base, canonical and links:\n%s\nwant\n%s",
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// FuzzQuery verifies that only the query of a reference changes, that nothing is left to encode,
// and that browsers' parsers read the same path.
func FuzzQuery(f *testing.F) {
	f.Add("shift_jis", "/ソ?ソ\\&a#ソ")
	f.Add("iso-2022-jp", "?あ¥\x1bコ0")
	f.Add("big5", "http://a.test?中\xff")
	f.Add("gb18030", "?\U0001f600\t")
	f.Fuzz(func(t *testing.T, name, ref string) {
		q := newQueryEncoder(name)
		got := q.encode(ref)
		if again := q.encode(got); q != nil && again != got {
			t.Fatalf("encode(%q) = %q, again %q", ref, got, again)
		}
		base := canon.BaseOf("http://a.test/b")
		u, err := base.Join(ref)
		v, err2 := base.Join(got)
		if err != nil || err2 != nil { // the lengths differ
			return
		}
		before, _, _ := strings.Cut(string(u), "?")
		after, _, _ := strings.Cut(string(v), "?")
		if before != after {
			t.Fatalf("%q is %q, and %q is %q: want the same path", ref, u, got, v)
		}
	})
}

// TestQueryIsEncodedAtOnce verifies that a query of known characters is not encoded one by one.
func TestQueryIsEncodedAtOnce(t *testing.T) {
	q := newQueryEncoder("windows-1251")
	ref := "/?" + strings.Repeat("\u0430", 1000)
	if n := testing.AllocsPerRun(10, func() { q.encode(ref) }); n > 100 {
		t.Errorf("%v allocations for 1000 characters, want at most 100", n)
	}
}
