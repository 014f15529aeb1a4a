package index

import "slices"

// hasPhrases reports whether all phrases occur in a text.
func hasPhrases(text string, phrases [][]string) bool {
	if len(phrases) == 0 {
		return true
	}
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
