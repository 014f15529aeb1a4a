package index

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
)

// language is a language with a stemmer. Its terms begin with its mark, so that the stem of a
// word in one language does not match another word in another language. The marks are stored:
// never change them.
type language struct {
	code string // ISO 639-1
	mark byte
	stem func(*snowballstem.Env) bool
	// frequent are words that are frequent in this language and rare in the others.
	frequent string
}

// noLanguage marks the terms of other languages, numbers, and pairs of characters.
const noLanguage = '-'

var languages = []language{
	{"en", 'e', english.Stem, "the of and to is that it for with as was on are this by from be"},
	{"de", 'd', german.Stem, "der die und den von das mit ist des nicht ein eine auch sich dem"},
	{"fr", 'f', french.Stem, "le la les et des est une du dans que pour qui sur pas au avec"},
	{"es", 's', spanish.Stem, "el los las del que una por con para como se su más pero es"},
	{"it", 'i', italian.Stem, "il di che gli della per non sono con una dei più alla nel è"},
	{"pt", 'p', portuguese.Stem, "não uma os dos do da em para com que ao mais são é no"},
	{"nl", 'n', dutch.Stem, "het een van dat niet zijn op te voor met aan ook er maar bij"},
	{"sv", 'v', swedish.Stem, "och att det som är på för av inte med till den har ett om"},
	{"da", 'a', danish.Stem, "og at det er på til af ikke med som den der har af et"},
	{"no", 'o', norwegian.Stem, "og det er på til av ikke med som den har et jeg fra ble"},
	{"fi", 'u', finnish.Stem, "ja on ei että se oli kun myös ovat mutta hän joka tai kuin"},
	{"ru", 'r', russian.Stem, "и в не на что с как по это из для к от он но"},
}

// languageByCode returns the mark of a language, or noLanguage.
func languageByCode(code string) byte {
	for _, l := range languages {
		if l.code == code {
			return l.mark
		}
	}
	return noLanguage
}

// frequent maps the frequent words to bit sets of languages, by index.
var frequent = func() map[string]uint32 {
	m := map[string]uint32{}
	for i, l := range languages {
		for w := range strings.FieldsSeq(l.frequent) {
			m[w] |= 1 << i
		}
	}
	return m
}()

// maxFrequent is the length in bytes of the longest of the frequent words.
var maxFrequent = func() (most int) {
	for w := range frequent {
		most = max(most, len(w))
	}
	return most
}()

const (
	// detectWords is the number of words from which the language is detected.
	detectWords = 400
	// detectPerMille is the share of frequent words that a text must have to be in a language.
	detectPerMille = 60
)

// sample counts the words of the beginning of a text by what they say about its language.
type sample struct {
	words, hanAndKana, kana, hangul int
	frequent                        [32]int // of each of languages
}

// add counts a word and reports whether more are needed.
func (s *sample) add(word []byte, _, _ int, paired bool) bool {
	s.words++
	if paired {
		r, _ := utf8.DecodeRune(word)
		switch {
		case r < 0x3040: // Thai and its neighbours
		case r >= 0xac00 && r <= 0xd7a3:
			s.hangul++
		case r <= 0x30ff:
			s.kana++
			s.hanAndKana++
		default:
			s.hanAndKana++
		}
	}
	if len(word) <= maxFrequent {
		for set, i := frequent[string(word)], 0; set != 0; set, i = set>>1, i+1 {
			s.frequent[i] += int(set & 1)
		}
	}
	return s.words < detectWords
}

// detect returns the code of the language of a text, or "" if it is not one of languages, and
// not Chinese, Japanese or Korean.
func detect(text string) string {
	var s sample
	words(text, s.add)
	return s.language()
}

// language returns the code of the language of the text of a sample; see detect.
func (s *sample) language() string {
	switch {
	case s.words == 0:
		return ""
	case 2*s.hangul > s.words:
		return "ko"
	case 2*s.hanAndKana > s.words && 10*s.kana > s.words:
		return "ja"
	case 2*s.hanAndKana > s.words:
		return "zh"
	}
	best := 0
	for i := range languages {
		if s.frequent[i] > s.frequent[best] {
			best = i
		}
	}
	if s.frequent[best]*1000 < detectPerMille*s.words {
		return ""
	}
	return languages[best].code
}

// maxStems bounds the words of a language of which the terms are remembered.
const maxStems = 1 << 15

// stems remembers the terms of words, by mark and word, because stemming is slow and most words are
// frequent.
type stems [256]map[string]string

// term returns the term of a word in the language with a mark.
func (s *stems) term(mark byte, word []byte) string {
	t, ok := s[mark][string(word)]
	if ok {
		return t
	}
	w := string(word)
	t = makeTerm(mark, w)
	if s[mark] == nil || len(s[mark]) >= maxStems {
		s[mark] = map[string]string{}
	}
	s[mark][w] = t
	return t
}

// stemmer returns the terms of words. It is safe for concurrent use.
type stemmer struct {
	mu    sync.Mutex
	known stems
}

// term returns the term of a word in the language with a mark.
func (s *stemmer) term(mark byte, word string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.term(mark, []byte(word))
}

func makeTerm(mark byte, word string) string {
	for _, l := range languages {
		if l.mark == mark {
			env := snowballstem.NewEnv(word)
			l.stem(env)
			if stem := env.Current(); stem != "" {
				word = stem
			}
			return string(mark) + word
		}
	}
	return string(byte(noLanguage)) + word
}

// markOf returns the mark of a word in a text of a language: numbers and pairs have none.
func markOf(language byte, word []byte, paired bool) byte {
	if paired || word[0] <= '9' {
		return noLanguage
	}
	return language
}
