package repo_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// retired maps words that are not used any more to those that replaced them. Keys
// are regular expressions for a whole word; docs/glossary.md explains the new ones.
var retired = map[string]string{
	"afford(s|ed)?":          "acquire",
	"ail(s|ed|ing)?":         "unhealthy, failing",
	"anew":                   "again, from scratch",
	"(put|puts|set) aside":   "pending",
	"atlas(es)?":             "owner map",
	"bequests?":              "transfer",
	"bur(y|ies|ied)":         "delete, discard",
	"doings":                 "say what is done",
	"errands?":               "remote fetch",
	"everybody":              "all peers",
	"forsake[ns]?|forsook":   "abandon, drop",
	"heirs?":                 "successor",
	"homing":                 "host move",
	"keep house":             "run maintenance",
	"nobody|nobodys":         "no peer",
	"nurser(y|ies)":          "unclaimed queue",
	"of late":                "recently",
	"panels?":                "witness set",
	"seldom(er)?":            "rarely, with increasing delay",
	"shadow(s|ed|ing)?":      "replica",
	"somebody|somebodys":     "a peer",
	"whose":                  "of which, or look up the owner",
	"wreck(s|ed)?":           "orphaned replica",
	"put(s|ting)? by":        "pending",
	"tail (log|book|head)s?": "change log",
}

// quotes lists files that have to name retired words.
var quotes = map[string]bool{
	"lab/repo/vocabulary_test.go": true,
	"LICENSE":                     true,
}

// plain returns a line in lower case, with one space for each run of spaces, hyphens and
// underscores, and one where a word of an identifier begins.
func plain(line string) string {
	out := make([]byte, 0, len(line)+8)
	before := byte(' ')
	for _, c := range []byte(line) {
		switch {
		case strings.IndexByte("-_ \t\r\f\v", c) >= 0:
			c = ' '
		case 'A' <= c && c <= 'Z':
			if 'a' <= before && before <= 'z' || '0' <= before && before <= '9' {
				out = append(out, ' ')
			}
			out, before = append(out, c+'a'-'A'), c
			continue
		}
		if c != ' ' || before != ' ' {
			out = append(out, c)
		}
		before = c
	}
	return string(out)
}

// TestVocabulary rejects retired words in code, comments, messages, configuration
// and documents. Identifiers are read as the words that they are made of.
func TestVocabulary(t *testing.T) {
	var words []string
	for w := range retired {
		words = append(words, w)
	}
	find := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)\b`)
	// Most lines have no word that begins one of them, which a map tells faster.
	for i, w := range words {
		words[i], _, _ = strings.Cut(w, " ")
	}
	begin, begins := regexp.MustCompile(`^(`+strings.Join(words, "|")+`)$`), map[string]bool{}
	mayFind := func(text string) bool {
		for w := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) {
			b, known := begins[w]
			if !known {
				b = begin.MatchString(w)
				begins[w] = b
			}
			if b {
				return true
			}
		}
		return false
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "testdata", "dist":
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); quotes[rel] || !isText(rel) {
			return nil
		}
		files++
		file, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(file), "\n") {
			text := plain(line)
			if !mayFind(text) {
				continue
			}
			for _, w := range find.FindAllString(text, -1) {
				t.Errorf("%s:%d: retired word %q; use: %s", rel, i+1, w, replacement(w))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("read %d files, want at least 500", files)
	}
}

// replacement returns what to write in place of word.
func replacement(word string) string {
	for pattern, instead := range retired {
		if regexp.MustCompile(`^(` + pattern + `)$`).MatchString(word) {
			return instead
		}
	}
	return ""
}

// isText reports whether the file is one that people write.
func isText(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".md", ".toml", ".yml", ".yaml", ".tmpl", ".html":
		return true
	}
	return name == "Makefile" || strings.HasPrefix(name, ".ci/")
}
