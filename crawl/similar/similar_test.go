package similar

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"peerd/store"
)

func TestDigest(t *testing.T) {
	if Digest([]byte("http://a.example/")) != store.URL("http://a.example/").Digest() {
		t.Error("not the digest that store takes")
	}
	if Digest(nil) == Digest([]byte{0}) {
		t.Error("bodies of one digest")
	}
}

// wordsOf returns the number of words, and their hashes.
func wordsOf(s string) (hs []uint64) {
	words([]byte(s), func(h uint64) { hs = append(hs, h) })
	return hs
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"one two", "<p>One<br/>TWO</p>"},
		{"one two", "one<script>var a = '</p> three';</script>two"},
		{"one two", "one<SCRIPT src=x>a</Script >two"},
		{"one two", "<style>p{}</style>one <!-- three > four --> two"},
		{"one two", `one <a href="x>y" title='three'>two</a>`},
		{"one two", "one <a title=it's>two</a>"},
		{"one two", "one&nbsp;two&#160;"},
		{"one 2 two", "one < 2 & two"},
		{"one two", "one two<template><p>three</p></template>"},
		{"scripted", "<scripted>scripted"},
		{"çà et là", "ÇÀ ET LÀ"},
		{"one two", "one two<script>three"},
		{"one two", "one two<!-- three"},
		{"one two", "one two<a href='three"},
		{"日 本 語", "日本語"},
		{"日本 go", "日本go"},
		{"ภ า", "ภา"},
	} {
		if !slices.Equal(wordsOf(c.a), wordsOf(c.b)) {
			t.Errorf("%q and %q: %d and %d words, or others", c.a, c.b, len(wordsOf(c.a)), len(wordsOf(c.b)))
		}
	}
	for s, n := range map[string]int{"": 0, "<": 0, "<a": 0, "a<": 1, "a\xffb": 1, "\xe4\xf6": 1, "a&b;c": 2, "&;": 0, "<!": 0, "</": 0, "a1 b2": 2, "a\u0301b": 1, "a\u2014b": 2} {
		if got := len(wordsOf(s)); got != n {
			t.Errorf("%q: %d words, want %d", s, got, n)
		}
	}
}

func TestFingerprintShort(t *testing.T) {
	for n, want := range map[int]bool{0: false, MinWords - 1: false, MinWords: true, 1000: true} {
		if _, ok := Fingerprint([]byte(strings.Join(newAuthor(1).text(n), " "))); ok != want {
			t.Errorf("%d words: %v", n, ok)
		}
	}
}

func print(t interface{ Fatalf(string, ...any) }, b []byte) Print {
	p, ok := Fingerprint(b)
	if !ok {
		t.Fatalf("too short: %d bytes", len(b))
	}
	return p
}

// naive is the definition of a simhash, shingle by shingle and bit by bit, of
// shingles that are new as far as a memory of so many places tells.
func naive(text []byte) (p Print) {
	var votes [64]int
	hs := wordsOf(string(text))
	seen := map[int]uint64{}
	for i := shingle; i <= len(hs); i++ {
		h := uint64(0)
		for _, w := range hs[i-shingle : i] {
			h = mix(h + w)
		}
		place := int(h % uint64(len(simhash{}.seen)))
		if seen[place] == h>>32 {
			continue
		}
		seen[place] = h >> 32
		for b := range votes {
			votes[b] += int(h>>b&1)*2 - 1
		}
	}
	for b, v := range votes {
		if v > 0 {
			p |= 1 << b
		}
	}
	return p
}

func TestFingerprintProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAuthor(rapid.Uint64().Draw(t, "author"))
		text := a.text(rapid.IntRange(MinWords, 400).Draw(t, "words"))
		plain := []byte(strings.Join(text, " "))
		p := print(t, plain)
		if d := p.Distance(naive(plain)); d > 0 {
			t.Fatalf("%d bits from the definition", d)
		}
		loud := []byte("<ul><li>" + strings.ToUpper(strings.Join(text, "</li>\n<li>")) + "</ul>")
		if q := print(t, loud); q != p {
			t.Fatalf("markup and letter case change %d bits", p.Distance(q))
		}
	})
}

// shares of words changed, and how many of a hundred pages must, or may, be
// found. Half of the pages with one word in a hundred changed is what 3 bits of
// 64 give.
var shares = []struct {
	share      float64
	least, max int
}{{0.001, 70, 100}, {0.01, 45, 100}, {0.05, 0, 30}, {0.5, 0, 0}, {1, 0, 0}}

func TestNearCopies(t *testing.T) {
	for _, s := range shares {
		if got := found(s.share, 1000, 100); got < s.least || got > s.max {
			t.Errorf("%g %% of words changed: %d of 100 found, want %d to %d", 100*s.share, got, s.least, s.max)
		}
	}
}

// found returns how many of pages, each of n words, are found after an edit.
func found(share float64, n, pages int) int {
	count := 0
	for i := range pages {
		a := newAuthor(uint64(i))
		text := a.text(n)
		p, _ := Fingerprint(page(text))
		q, _ := Fingerprint(page(a.edit(text, share)))
		if p.Distance(q) <= Near {
			count++
		}
	}
	return count
}

// id makes a digest of a number.
func id(n int) store.Digest { return Digest(fmt.Append(nil, n)) }

// TestIndexFindsAll: what a search of the last entries one by one finds, the
// Index finds at the same distance; and so it does after having been written.
func TestIndexFindsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 60).Draw(t, "capacity")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := NewIndex(capacity)
		var all []Print
		for i := range rapid.IntRange(0, 200).Draw(t, "pages") {
			p := Print(r.Uint64())
			if len(all) > 0 && r.IntN(2) == 0 {
				p = all[r.IntN(len(all))]
				for range r.IntN(6) {
					p ^= 1 << r.IntN(64)
				}
			}
			best, name := Near+1, store.Digest{}
			for j := max(0, len(all)-capacity); j < len(all); j++ {
				if d := all[j].Distance(p); d <= best {
					best, name = d, id(j)
				}
			}
			got, d, ok := x.Lookup(p)
			if ok != (best <= Near) || ok && (d != best || got != name) {
				t.Fatalf("page %d: %v at %d, want %d", i, ok, d, best)
			}
			x.Add(p, id(i))
			all = append(all, p)
			if r.IntN(30) == 0 {
				b := x.Bytes()
				y, err := ReadIndex(b, capacity)
				if err != nil || !bytes.Equal(b, y.Bytes()) || y.Len() != x.Len() {
					t.Fatalf("%v, or written otherwise", err)
				}
				x = y
			}
		}
	})
}

func TestIndexNumbersEnd(t *testing.T) {
	x := NewIndex(10)
	for i := range 25 {
		x.Add(Print(mix(uint64(i)+1)), id(i))
	}
	x.added = 1<<32 - 1 // the numbers end here: 10·k + 5, as 25 is
	x.rehash(16)
	for i := range 10 {
		x.Add(Print(mix(uint64(i)+1)), id(i))
	}
	for i := range 10 {
		if got, d, ok := x.Lookup(Print(mix(uint64(i) + 1))); !ok || d != 0 || got != id(i) {
			t.Errorf("entry %d: %v, %d", i, ok, d)
		}
	}
}

// TestIndexBounded: a host whose Prints all share a block costs no more than a
// bounded search.
func TestIndexBounded(t *testing.T) {
	x := NewIndex(50_000)
	for i := range 60_000 {
		x.Add(Print(mix(uint64(i))&^0xffff), id(i))
	}
	if x.Len() != 50_000 || len(x.entries) != 50_000 {
		t.Errorf("%d entries", x.Len())
	}
	if _, d, ok := x.Lookup(Print(mix(59_999) &^ 0xffff)); !ok || d != 0 {
		t.Error("the newest is not found")
	}
	if _, _, ok := x.Lookup(Print(mix(5) &^ 0xffff)); ok {
		t.Error("what was forgotten is found")
	}
}

func TestForeignIndex(t *testing.T) {
	for _, b := range [][]byte{nil, {}, {2}, {1, 0}, make([]byte, 25)} {
		if _, err := ReadIndex(b, 10); !errors.Is(err, ErrIndex) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

func TestClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		kinds := rapid.IntRange(1, 3*MaxClusters).Draw(t, "digests")
		var c Clusters
		truth := map[store.Digest]int{}
		pages := 2000
		for range pages {
			d := id(r.IntN(kinds))
			if r.IntN(3) == 0 {
				d = id(-1)
			}
			truth[d]++
			if n := c.Add(d); n > truth[d] || n < 1 || n != c.Count(d) {
				t.Fatalf("counted %d, there were %d", n, truth[d])
			}
			if kinds < MaxClusters && c.Count(d) != truth[d] {
				t.Fatal("not exact, though all fit")
			}
		}
		if got := c.Count(id(-1)); got < truth[id(-1)]-pages/MaxClusters {
			t.Fatalf("the most frequent counted as %d of %d", got, truth[id(-1)])
		}
		b, err := c.MarshalBinary()
		var again Clusters
		if err != nil || again.UnmarshalBinary(b) != nil || !slices.Equal(again.list, c.list) {
			t.Fatal("changed on the way")
		}
	})
}

func FuzzClusters(f *testing.F) {
	f.Add(make([]byte, clusterSize))
	f.Add(append(make([]byte, 19), 1, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Clusters
		if err := c.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrClusters) {
				t.Fatal(err)
			}
			return
		}
		if again, err := c.MarshalBinary(); err != nil || !bytes.Equal(again, b) {
			t.Fatal("not what was read")
		}
		for i := range 200 {
			c.Add(id(i))
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	f.Add(page(newAuthor(1).text(100)))
	for _, s := range []string{"<", "<a", "<!--", "<script>", "</", "&", "&#", "<a b='", "日本", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := Fingerprint(b)
		if q, again := Fingerprint(b); p != q || ok != again {
			t.Fatal("not always the same")
		}
		if n := len(wordsOf(string(b))); ok != (n >= MinWords) || n > len(b) {
			t.Fatalf("%d words", n)
		}
	})
}

func FuzzIndex(f *testing.F) {
	x := NewIndex(4)
	for i := range 6 {
		x.Add(Print(i), id(i))
	}
	f.Add(x.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ReadIndex(b, 3)
		if err != nil {
			return
		}
		if x.Len() > 3 || !bytes.HasSuffix(b, x.Bytes()[1:]) {
			t.Fatal("not the newest")
		}
		x.Lookup(7)
	})
}

func TestSoftNotFound(t *testing.T) {
	for name, c := range map[string]struct {
		s    Signals
		want bool
	}{
		"like the probe":            {Signals{Status: 200, Probe: MatchExact}, true},
		"the first like the probe":  {Signals{Status: 200, Probe: MatchExact, First: true}, false},
		"an honest 404":             {Signals{Status: 404, Probe: MatchExact, Phrase: true, Copies: 9}, false},
		"near the probe":            {Signals{Status: 200, Probe: MatchNear}, false},
		"near, and many":            {Signals{Status: 200, Probe: MatchNear, Copies: 5}, true},
		"near, and says so":         {Signals{Status: 200, Probe: MatchNear, Phrase: true}, true},
		"says so":                   {Signals{Status: 200, Probe: MatchNone, Phrase: true}, false},
		"many say so":               {Signals{Status: 200, Probe: MatchUnknown, Phrase: true, Copies: 5}, true},
		"a few say so":              {Signals{Status: 200, Phrase: true, Copies: 4}, false},
		"many copies of some page":  {Signals{Status: 200, Probe: MatchNone, Copies: 1000}, false},
		"a page like other pages":   {Signals{Status: 200}, false},
		"the first of many near it": {Signals{Status: 200, Probe: MatchNear, Phrase: true, First: true}, false},
	} {
		if got := SoftNotFound(c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSaysNotFound(t *testing.T) {
	long := strings.Repeat("The HTTP status 404 says that a page was not found. ", 100)
	for _, c := range []struct {
		title, text string
		want        bool
	}{
		{"404 Not Found", "", true}, {"Error 404", "", true}, {"Page  not\nfound - A", "", true}, {"PAGE NOT FOUND", long, true},
		{"Seite nicht gefunden", "", true}, {"Страница НЕ НАЙДЕНА", "", true}, {"ページが見つかりません", "", true},
		{"A", "Sorry, this page does not exist.", true}, {"A", "<script>" + long + long + "</script><h1>Not <b>found</b></h1>", true},
		{"A", "<script>not found</script><p title='not found'>Welcome", false}, {"The status codes", long, false}, {"A page", "Some text.", false},
		{"Route 4045", "", false}, {"Foundation", "of what is found", false}, {"", "", false}, {strings.Repeat("x", 600) + " not found", "", false},
	} {
		if got := SaysNotFound(c.title, []byte(c.text)); got != c.want {
			t.Errorf("%.40q, %.40q: %v", c.title, c.text, got)
		}
	}
}

func TestProbeURL(t *testing.T) {
	a, b := ProbeURL("http://a.example"), ProbeURL("http://b.example:8080")
	if a != ProbeURL("http://a.example") || a.Host() != "a.example" || b.Origin() != "http://b.example:8080" || len(a) != len("http://a.example/")+20 {
		t.Errorf("%s, %s", a, b)
	}
	if strings.HasSuffix(string(b), string(a[len("http://a.example"):])) {
		t.Error("the same for all")
	}
}

func TestMirror(t *testing.T) {
	for name, c := range map[string]struct {
		equal string // = equal, new; p equal, parked; anything else differs
		want  bool
	}{
		"nothing": {"", false}, "too few": {strings.Repeat("=", 15), false}, "all": {strings.Repeat("=", 16), true},
		"all but one": {"x" + strings.Repeat("=", 15), true}, "all but two": {"xx" + strings.Repeat("=", 14), false},
		"late": {strings.Repeat("x", 100) + strings.Repeat("=", 16), true}, "no more": {strings.Repeat("=", 100) + "xx", false},
		"parked": {strings.Repeat("p", 100), false}, "others": {strings.Repeat("x", 100), false},
	} {
		var m Mirror
		for i, k := range c.equal {
			switch k {
			case '=':
				m.Compare(id(i), id(i))
			case 'p':
				m.Compare(id(-1), id(-1))
			default:
				m.Compare(id(i), id(-i-2))
			}
			b, err := cbor.Marshal(m)
			if err != nil || cbor.Unmarshal(b, &m) != nil {
				t.Fatal(err)
			}
		}
		if got := m.Is(15, 16); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
