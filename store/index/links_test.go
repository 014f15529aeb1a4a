package index

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/store"
)

// A link counts for the page with http and with https, and for no other.
func TestLinkCountsForBothSchemes(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		x := open(t)
		from := page("http://from.example/", "From", "a page with a link")
		from.Links = []Link{{URL: store.URL(scheme + "://to.example/x"), Text: "aardvark"}}
		apply(t, x, from, page("http://to.example/x", "Old", "a page"),
			page("https://to.example/x", "New", "another page"),
			page("https://to.example/y", "Other", "a third page"))
		r := find(t, x, "aardvark", nil)
		var found []string
		for _, h := range r.Hits {
			found = append(found, string(h.URL))
		}
		slices.Sort(found)
		want := []string{"http://to.example/x", "https://to.example/x"}
		if !slices.Equal(found, want) {
			t.Errorf("a link with %s: found %q, want %q", scheme, found, want)
		}
	}
}

// The code of a length fits into seven bits, is not 0, does not fall, and stands for a divisor that
// differs by at most 3 %, for lengths that pages have. The shortest ones have one code.
func TestLengthCode(t *testing.T) {
	t.Parallel()
	most := map[string]int{fieldText: 250_000, fieldTitle: 5_000, fieldHeading: 15_000}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(most))).Draw(t, "field")
		n := rapid.IntRange(0, most[name]).Draw(t, "length")
		w := weights[name]
		code := w.code(n)
		if code < 1 || code > 127 || w.code(n+1) < code {
			t.Fatalf("code %d of %d, %d of %d", code, n, w.code(n+1), n+1)
		}
		want := max(1-w.b+w.b*float64(n)/w.length, w.divisor(1))
		if got := w.divisor(code); got < .97*want || got > 1.03*want {
			t.Fatalf("the divisor is %v, want %v", got, want)
		}
	})
	if got := weightText.code(1 << 40); got != 127 {
		t.Errorf("the code of a very long text is %d", got)
	}
}

// Scores depend on the lengths of texts as they should, although codes are stored.
func TestLengthIsStored(t *testing.T) {
	t.Parallel()
	x := open(t)
	apply(t, x, page("http://a.example/", "", "word"))
	for n := range 12 {
		text := "word" + strings.Repeat(" other", 1<<n)
		apply(t, x, page(fmt.Sprintf("http://a.example/%d", n), "", text))
	}
	score := func(words float64) float64 {
		tf := 1 / (1 - weightText.b + weightText.b*words/weightText.length)
		return tf / (tf + k1)
	}
	hits := find(t, x, "word", nil).Hits
	for i, h := range hits[1:] {
		words := 1 + float64(int(1)<<i)
		got, want := h.Score/hits[0].Score, score(words)/score(1)
		if got < .96*want || got > 1.04*want {
			t.Errorf("the score of a page of %v words is %v of the best, want %v", words, got, want)
		}
	}
}
