package similar

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"peerd/store"
)

func TestDigest(t *testing.T) {
	if Digest([]byte("http://a.example/")) != store.URL("http://a.example/").Digest() {
		t.Error("Digest() differs from store.URL.Digest()")
	}
	if Digest(nil) == Digest([]byte{0}) {
		t.Error("different bodies have the same digest")
	}
}

// wordsOf returns the hashes of the words of s.
func wordsOf(s string) (hs []uint64) {
	words(s, func(h uint64) { hs = append(hs, h) })
	return hs
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"one two", "One\nTWO"},
		{"one 2 two", "one < 2 & two"},
		{"çà et là", "ÇÀ ET LÀ"},
		{"日 本 語", "日本語"},
		{"日本 go", "日本go"},
		{"ภ า", "ภา"},
	} {
		if !slices.Equal(wordsOf(c.a), wordsOf(c.b)) {
			t.Errorf("%q and %q: %d and %d words, want the same words", c.a, c.b, len(wordsOf(c.a)),
				len(wordsOf(c.b)))
		}
	}
	for s, n := range map[string]int{"": 0, "<": 0, "a<": 1, "a\xffb": 1, "\xe4\xf6": 1, "&;": 0,
		"a1 b2": 2, "a\u0301b": 1, "a\u2014b": 2} {
		if got := len(wordsOf(s)); got != n {
			t.Errorf("%q: %d words, want %d", s, got, n)
		}
	}
}

func TestFingerprintShort(t *testing.T) {
	for n, want := range map[int]bool{0: false, MinWords - 1: false, MinWords: true, 1000: true} {
		if _, ok := Fingerprint(strings.Join(newAuthor(1).text(n), " ")); ok != want {
			t.Errorf("Fingerprint() of %d words: ok = %v", n, ok)
		}
	}
}

func print(t interface{ Fatalf(string, ...any) }, b string) Simhash {
	p, ok := Fingerprint(b)
	if !ok {
		t.Fatalf("no Fingerprint of %d bytes", len(b))
	}
	return p
}

// naive is the definition of a simhash, shingle by shingle and bit by bit, for shingles
// that are new according to a memory of the same size.
func naive(text string) (p Simhash) {
	var votes [64]int
	hs := wordsOf(text)
	seen := map[int]uint64{}
	for i := shingle; i <= len(hs); i++ {
		h := uint64(0)
		for _, w := range hs[i-shingle : i] {
			h = mix(h + w)
		}
		place := int(h % uint64(len(hasher{}.seen)))
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
		plain := strings.Join(text, " ")
		p := print(t, plain)
		if d := p.Distance(naive(plain)); d > 0 {
			t.Fatalf("Fingerprint() differs from the definition in %d bits", d)
		}
		loud := strings.ToUpper(strings.Join(text, ",\n"))
		if q := print(t, loud); q != p {
			t.Fatalf("letter case and punctuation change %d bits", p.Distance(q))
		}
	})
}

// shares are shares of changed words, and how many pages of a hundred must, or may, be
// found. 3 bits of 64 find half of the pages with one changed word in a hundred.
var shares = []struct {
	share      float64
	least, max int
}{{0.001, 70, 100}, {0.01, 45, 100}, {0.05, 0, 30}, {0.5, 0, 0}, {1, 0, 0}}

func TestNearCopies(t *testing.T) {
	for _, s := range shares {
		if got := found(s.share, 1000, 100); got < s.least || got > s.max {
			t.Errorf("%g %% of words changed: %d of 100 found, want %d to %d", 100*s.share, got,
				s.least, s.max)
		}
	}
}

// found returns how many of pages, each of n words, are found after an edit.
func found(share float64, n, pages int) int {
	count := 0
	for i := range pages {
		a := newAuthor(uint64(i))
		text := a.text(n)
		p, _ := Fingerprint(strings.Join(text, " "))
		q, _ := Fingerprint(strings.Join(a.edit(text, share), " "))
		if p.Distance(q) <= Near {
			count++
		}
	}
	return count
}

func FuzzFingerprint(f *testing.F) {
	f.Add(strings.Join(newAuthor(1).text(100), " "))
	f.Add("日本")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, b string) {
		p, ok := Fingerprint(b)
		if q, again := Fingerprint(b); p != q || ok != again {
			t.Fatal("Fingerprint() is not deterministic")
		}
		if n := len(wordsOf(b)); ok != (n >= MinWords) || n > len(b) {
			t.Fatalf("%d words", n)
		}
	})
}
