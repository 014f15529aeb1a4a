package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of queries.
const (
	// MaxQuery is the length of the longest query in bytes.
	MaxQuery = 512
	// MaxWords is the maximum number of words of a query, also of those to leave out.
	MaxWords = 24
)

// ErrQuery is matched by all errors of Parse.
var ErrQuery = errors.New("invalid query")

// Word is a word of a query, as words returns it.
type Word struct {
	Text   string
	Paired bool
}

// Query is a parsed query. A page matches if it has all Words and Phrases, none of Not, and
// passes all filters.
type Query struct {
	Words   []Word // without repetitions; with those of Phrases
	Not     []Word
	Phrases [][]string
	Site    string // host or domain; "": all
	Type    string // "html" or "text"; "": all
	Lang    string // ISO 639-1; "": all
	// From and To are the first and the last day of a fetch, such as "20260131"; "": no limit.
	From, To string
}

// Parse parses a query; see docs/search.md for the syntax. Errors match ErrQuery.
func Parse(text string) (Query, error) {
	var q Query
	if len(text) > MaxQuery || !utf8.ValidString(text) {
		return q, fmt.Errorf("%w: want at most %d bytes of UTF-8", ErrQuery, MaxQuery)
	}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		var part string
		var err error
		negated := strings.HasPrefix(text, "-")
		switch rest := strings.TrimPrefix(text, "-"); {
		case strings.HasPrefix(rest, `"`):
			part, text, _ = strings.Cut(rest[1:], `"`)
			err = q.addPhrase(part, negated)
		default:
			end := strings.IndexAny(text, " \t\r\n")
			if end < 0 {
				end = len(text)
			}
			part, text = text[:end], text[end:]
			err = q.addPart(part)
		}
		if err != nil {
			return Query{}, err
		}
	}
	if len(q.Words)+len(q.Not) > MaxWords {
		return Query{}, fmt.Errorf("%w: want at most %d words", ErrQuery, MaxWords)
	}
	if len(q.Words) == 0 && q.Site+q.Type+q.Lang+q.From+q.To == "" {
		return Query{}, fmt.Errorf("%w: it names neither a word nor a filter", ErrQuery)
	}
	return q, nil
}

// addPart adds a word, a word to leave out, or a filter.
func (q *Query) addPart(part string) error {
	name, value, found := strings.Cut(part, ":")
	if !found || value == "" {
		return q.addWords(part)
	}
	set := func(to *string, value string) error {
		if *to != "" {
			return fmt.Errorf("%w: %s: is given twice", ErrQuery, name)
		}
		*to = value
		return nil
	}
	switch value = strings.ToLower(value); strings.ToLower(name) {
	case "site":
		return set(&q.Site, strings.Trim(value, "."))
	case "lang":
		return set(&q.Lang, value)
	case "filetype":
		switch value {
		case "htm", "xhtml":
			value = "html"
		case "txt":
			value = "text"
		}
		return set(&q.Type, value)
	case "date":
		return q.addDate(value)
	}
	return q.addWords(part)
}

// addWords adds the words of a part, which are left out if it begins with a minus sign.
func (q *Query) addWords(part string) error {
	to, all := &q.Words, wordsOf(part)
	if strings.HasPrefix(part, "-") {
		to = &q.Not
		if len(all) > 1 && slices.ContainsFunc(all, func(w Word) bool { return !w.Paired }) {
			return fmt.Errorf("%w: only single words can be left out, not %q", ErrQuery, part[1:])
		}
	}
	for _, w := range all {
		if !slices.Contains(*to, w) {
			*to = append(*to, w)
		}
	}
	return nil
}

// addPhrase adds a phrase. A single word is not a phrase.
func (q *Query) addPhrase(text string, negated bool) error {
	all := wordsOf(text)
	if negated && len(all) > 1 {
		return fmt.Errorf("%w: only single words can be left out, not %q", ErrQuery, text)
	}
	if negated {
		return q.addWords("-" + text)
	}
	if err := q.addWords(strings.TrimLeft(text, "-")); err != nil {
		return err
	}
	if len(all) > 1 {
		var phrase []string
		for _, w := range all {
			phrase = append(phrase, w.Text)
		}
		q.Phrases = append(q.Phrases, phrase)
	}
	return nil
}

func wordsOf(text string) (all []Word) {
	words(text, func(word []byte, _, _ int, paired bool) bool {
		all = append(all, Word{Text: string(word), Paired: paired})
		return true
	})
	return all
}

// addDate adds a day, month or year, or a span of them: "2026", "2026-01..2026-03-15", "2026-02..".
func (q *Query) addDate(value string) error {
	if q.From+q.To != "" {
		return fmt.Errorf("%w: date: is given twice", ErrQuery)
	}
	from, to, isSpan := strings.Cut(value, "..")
	if !isSpan {
		to = from
	}
	var err error
	if from != "" {
		q.From, _, err = days(from)
	}
	if to != "" && err == nil {
		_, q.To, err = days(to)
	}
	if err == nil && q.From+q.To == "" {
		err = fmt.Errorf("%w: date: %q has no day", ErrQuery, value)
	}
	if err == nil && q.To != "" && q.From > q.To {
		err = fmt.Errorf("%w: date: %q ends before it begins", ErrQuery, value)
	}
	return err
}

// days returns the first and the last day of a day, month or year.
func days(text string) (first, last string, err error) {
	for _, form := range []struct {
		layout              string
		years, months, days int
	}{{"2006-01-02", 0, 0, 1}, {"2006-01", 0, 1, 0}, {"2006", 1, 0, 0}} {
		if t, err := time.Parse(form.layout, text); err == nil {
			end := t.AddDate(form.years, form.months, form.days).AddDate(0, 0, -1)
			return t.Format(dayForm), end.Format(dayForm), nil
		}
	}
	return "", "", fmt.Errorf("%w: date: %q, want such as 2026-01-31, 2026-01 or 2026-01..2026-03",
		ErrQuery, text)
}

// marks returns the marks of the terms of a word.
func (q *Query) marks(w Word) []byte {
	if m := markOf(0, []byte(w.Text), w.Paired); m == noLanguage {
		return []byte{noLanguage}
	}
	if q.Lang != "" {
		return []byte{languageByCode(q.Lang)}
	}
	all := []byte{noLanguage}
	for _, l := range languages {
		all = append(all, l.mark)
	}
	return all
}
