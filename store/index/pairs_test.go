package index

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// hashes returns the hashes of the words of a text.
func hashes(text string) (all []uint64) {
	words(text, func(word []byte, _, _ int, _ bool) bool {
		all = append(all, hashWord(word))
		return true
	})
	return all
}

// A page has, by its pairs, each run of its words.
func TestPairsOfText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := hashes(rapid.String().Draw(t, "text") + " " + rapid.String().Draw(t, "more"))
		if len(all) < 2 {
			return
		}
		from := rapid.IntRange(0, len(all)-2).Draw(t, "from")
		to := rapid.IntRange(from+2, len(all)).Draw(t, "to")
		if !newPairSet(all).hasAll([][]uint64{all[from:to]}) {
			t.Fatalf("the words %d to %d of %d are not in the set", from, to, len(all))
		}
	})
}

// Of the pairs that a text does not have, also its words in another order, at most a quarter seem
// to be in it.
func TestPairsOfOthers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 3000
	text := make([]uint64, n)
	for i := range text {
		text[i] = rng.Uint64()
	}
	s := newPairSet(text)
	if want := n * pairBits / 8; len(s) != want {
		t.Errorf("the set has %d bytes, want %d", len(s), want)
	}
	strange, reversed := 0, 0
	for i := range text[1:] {
		if s.has(rng.Uint64(), rng.Uint64()) {
			strange++
		}
		if s.has(text[i+1], text[i]) {
			reversed++
		}
	}
	// (1 - exp(-2/3))^2 = .24 for a text in which no pair is repeated, such as this one.
	for name, found := range map[string]int{"other pairs": strange, "reversed pairs": reversed} {
		if share := float64(found) / n; share > .27 {
			t.Errorf("%.2f of the %s seem to be in the text, want .24", share, name)
		}
	}
	if (pairSet)(nil).has(1, 2) {
		t.Error("an empty text seems to have a pair")
	}
}
