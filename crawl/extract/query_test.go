package extract

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"peerd/crawl/canon"
)

// TestQueryEncodings compares the query of every character of the Basic Multilingual Plane, without
// Private Use characters, with the encoders of the Encoding Standard: the first half of the SHA-256
// of the lines "code point in hex, space, query" that follow from its indexes (whatwg/encoding,
// commit a985b62 of 2026-05-21).
func TestQueryEncodings(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"big5":           "8da1c781afeac858",
		"euc-jp":         "86a75f6bfd6c5e5d",
		"euc-kr":         "cfda2c62c7b7b635",
		"gb18030":        "8430c3815fbf011d",
		"gbk":            "5ed9e150a7fe3cb5",
		"ibm866":         "6543e93d86014f15",
		"iso-2022-jp":    "78f00494baf16628",
		"iso-8859-10":    "c11e61f7a5044ce7",
		"iso-8859-13":    "5e9a7e930e306955",
		"iso-8859-14":    "fb0dd7835acc463f",
		"iso-8859-15":    "3e470060b4493b54",
		"iso-8859-16":    "a42c6f2b9faf3608",
		"iso-8859-2":     "e511f985c7cb214d",
		"iso-8859-3":     "78b7ecad9e94bc3c",
		"iso-8859-4":     "5bcfd55adc5fc8e5",
		"iso-8859-5":     "267a51443c95a999",
		"iso-8859-6":     "d36ba33388c04222",
		"iso-8859-7":     "75754efa5d698c14",
		"iso-8859-8":     "28683a60fc514a6a",
		"iso-8859-8-i":   "28683a60fc514a6a",
		"koi8-r":         "4c963503c6c9fe18",
		"koi8-u":         "6f390bb1fa1045b0",
		"macintosh":      "78bc02bcc9ae2412",
		"shift_jis":      "2affaa8f2fb1e6a4",
		"windows-1250":   "e2ae52ad3da2c173",
		"windows-1251":   "da07214ce8f9e5f5",
		"windows-1252":   "c0850cee770deca7",
		"windows-1253":   "8917d17cb375afca",
		"windows-1254":   "e664c989fb64d627",
		"windows-1255":   "975d403dc3394292",
		"windows-1256":   "ad06aa4cc6472cc1",
		"windows-1257":   "9b5f87180e71a71e",
		"windows-1258":   "0594bfab08d88e37",
		"windows-874":    "fa53271fd917d1f5",
		"x-mac-cyrillic": "b2917885d3b74c8d",
		"x-user-defined": "059bb82d16b05c42",
	} {
		q, sum := newQueryEncoder(name), sha256.New()
		var line []byte
		for r := rune(0x80); r < 0x10000; r++ {
			if r < 0xd800 || r >= 0xf900 {
				line = append(strconv.AppendInt(line[:0], int64(r), 16), ' ')
				line = append(line, q.encode("?" + string(r))[1:]...)
				sum.Write(append(line, '\n'))
			}
		}
		if got := hex.EncodeToString(sum.Sum(nil))[:16]; got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
}

// TestQueryISO2022JP verifies the states of the only encoding that has some. The results follow
// from the Encoding Standard, "ISO-2022-JP encoder".
func TestQueryISO2022JP(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"aあいz":     "a%1B$B$%22$$%1B(Bz",
		"¥\\¥~‾a~": "%1B(J\\%1B(B\\%1B(J\\%1B(B~%1B(J~a%1B(B~",
		"あ¥い‾ｱﾞ€あ€¥€a": "%1B$B$%22%1B(J\\%1B$B$$%1B(J~%1B$B%%22!+%1B(B%26%238364%3B" +
			"%1B$B$%22%1B(B%26%238364%3B%1B(J\\%26%238364%3Ba%1B(B",
		"a\x0eあ\x1bb¥\x1bc": "a%26%2365533%3B%1B$B$%22%1B(B%26%2365533%3Bb" +
			"%1B(J\\%26%2365533%3Bc%1B(B",
		"コ0":     "%1B$B%3%1B(B0",
		"あ b":    "%1B$B$%22%1B(B%20b",
		"漢字=%E3": "%1B$B4A;z%1B(B=%E3",
		"é":      "%26%23233%3B",
		"−ｱ":     "%1B$B!]%%22%1B(B",
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
