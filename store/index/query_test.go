package index

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	t.Parallel()
	word := func(text string) Word { return Word{Text: text} }
	for text, want := range map[string]Query{
		"Two  words two": {Words: []Word{word("two"), word("words")}},
		`a "b c" -d`: {Words: []Word{word("a"), word("b"), word("c")}, Not: []Word{word("d")},
			Phrases: [][]string{{"b", "c"}}},
		`"open end`: {Words: []Word{word("open"), word("end")},
			Phrases: [][]string{{"open", "end"}}},
		`"one"`: {Words: []Word{word("one")}},
		"std::string x:": {
			Words: []Word{word("std"), word("string"), word("x")},
		},
		"SITE:Example.ORG. filetype:htm lang:DE": {Site: "example.org", Type: "html", Lang: "de"},
		"date:2026-02":                           {From: "20260201", To: "20260228"},
		"date:2024..":                            {From: "20240101"},
		"date:..2024":                            {To: "20241231"},
		"date:2024-12-31..2025-01":               {From: "20241231", To: "20250131"},
		"水":                                      {Words: []Word{{"水", true}}},
		"東京都 x": {
			Words: []Word{{"東京", true}, {"京都", true}, word("x")},
		},
		"水 -東京都": {
			Words: []Word{{"水", true}}, Not: []Word{{"東京", true}, {"京都", true}},
		},
		strings.Repeat("a,", 30) + "zebra": {Words: []Word{word("a"), word("zebra")}},
		"CAFE\u0301":                       {Words: []Word{word("caf\u00e9")}},
	} {
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "  ", "-a", `-"a b"`, "site:a site:b", "date:yesterday",
		"date:..", "date:2026-03..2026-02", "date:2026-13", "a -site:e.org",
		"a -filetype:html", "a -x-y", "date:2026 date:2027", "...", "\xff",
		strings.Repeat("a", MaxQuery+1), strings.Repeat("a b c d e ", 5) + manyWords()} {
		if q, err := Parse(text); !errors.Is(err, ErrQuery) {
			t.Errorf("Parse(%q) = %+v, %v, want ErrQuery", text, q, err)
		}
	}
}

func manyWords() string {
	var b strings.Builder
	for c := 'a'; c <= 'z'; c++ {
		b.WriteString(string(c) + "x ")
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`a "b c" -d site:e.org`, "date:2026-01..2026-02-03 lang:en",
		"東京都 \"日本の首都\"", "-\"x\" \"", "กรุงเทพ", "İstanbul ﬁ Å"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrQuery) {
				t.Fatalf("Parse: %v", err)
			}
			return
		}
		if n := len(q.Words) + len(q.Not); n > MaxWords {
			t.Fatalf("%d words", n)
		}
		for _, w := range q.Words {
			if w.Text == "" || len(w.Text) > 2*maxWord || !utf8.ValidString(w.Text) {
				t.Fatalf("word %q", w.Text)
			}
			if again := wordsOf(w.Text); len(again) != 1 || again[0] != w {
				t.Fatalf("word %q is read again as %v", w.Text, again)
			}
		}
	})
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The index of the table is used by the planner, and it is not large": "en",
		"Der Index der Tabelle ist nicht groß, und das ist auch gut so":      "de",
		"La table des matières est dans le livre, et les pages sont au fond": "fr",
		"Индекс в таблице не для того, как и все на свете":                   "ru",
		"東京都は日本の首都であり":                                                       "ja",
		"北京是中华人民共和国的首都":                                                      "zh",
		"서울은 대한민국의 수도이다":                                                     "ko",
		"0 1 2 3 4 5 6":                                                      "",
		"":                                                                   "",
		"lorem ipsum dolor sit amet consectetur":                             "",
	} {
		if got := detect(text); got != want {
			t.Errorf("detect(%q) = %q, want %q", text, got, want)
		}
	}
}
