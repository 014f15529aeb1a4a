package index

import "slices"

// Matches reports whether a search for q would find a page without the words of links to it.
func (q *Query) Matches(d Document) bool {
	lang := detect(d.Text)
	passes := filters(d, lang).freqs
	for filter, value := range map[string]string{
		filterSite: q.Site, filterType: q.Type, filterLang: q.Lang,
	} {
		if value != "" && passes[filter+value] == nil {
			return false
		}
	}
	day := d.FetchedAt.UTC().Format(dayForm)
	if q.From != "" && day < q.From || q.To != "" && day > q.To {
		return false
	}
	mark := languageByCode(lang)
	term := func(word string, paired bool) string {
		return makeTerm(markOf(mark, []byte(word), paired), word)
	}
	missing, excluded := map[string]bool{}, map[string]bool{}
	for _, w := range q.Words {
		missing[term(w.Text, w.Paired)] = true
	}
	for _, w := range q.Not {
		excluded[term(w.Text, w.Paired)] = true
	}
	matches, seen := true, map[string]bool{}
	words(d.Text, func(word []byte, _, _ int, paired bool) bool {
		if seen[string(word)] {
			return true
		}
		w := string(word)
		seen[w] = true
		t := term(w, paired)
		delete(missing, t)
		matches = !excluded[t]
		return matches && len(missing)+len(excluded) > 0
	})
	return matches && len(missing) == 0 && hasPhrases(d.Text, q.Phrases)
}

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
