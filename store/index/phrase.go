package index

import (
	"context"
	"slices"
)

// keepPhrases keeps the first limit hits in which all phrases occur. It stops when ctx ends.
func (r *Result) keepPhrases(
	ctx context.Context, phrases [][]string, limit int, text Texter,
) {
	var kept []Hit
	for _, h := range r.Hits {
		if len(kept) == limit {
			break
		}
		if ctx.Err() != nil || text == nil {
			r.Partial = true
			break
		}
		if t, err := text(h.Meta); err == nil && hasPhrases(t, phrases) {
			kept = append(kept, h)
		}
	}
	if !r.Partial && len(kept) < limit {
		r.Total = len(kept) // all pages were looked at
	}
	r.Hits = kept
}

// hasPhrases reports whether all phrases occur in a text.
func hasPhrases(text string, phrases [][]string) bool {
	longest := 0
	for _, p := range phrases {
		longest = max(longest, len(p))
	}
	found := make([]bool, len(phrases))
	missing := len(phrases)
	last := make([]string, 0, 2*longest) // the last words
	words(text, func(word []byte, _, _ int, _ bool) bool {
		if len(last) == cap(last) {
			last = append(last[:0], last[len(last)-longest+1:]...)
		}
		last = append(last, string(word))
		for i, p := range phrases {
			if !found[i] && len(last) >= len(p) && slices.Equal(last[len(last)-len(p):], p) {
				found[i] = true
				missing--
			}
		}
		return missing > 0
	})
	return missing == 0
}
