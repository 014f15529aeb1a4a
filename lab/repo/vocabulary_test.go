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

var (
	boundary = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	breaks   = regexp.MustCompile(`[-_\s]+`)
)

// TestVocabulary rejects retired words in code, comments, messages, configuration
// and documents. Identifiers are read as the words that they are made of.
func TestVocabulary(t *testing.T) {
	var words []string
	for w := range retired {
		words = append(words, w)
	}
	find := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)\b`)
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
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			plain := boundary.ReplaceAllString(line, "$1 $2")
			plain = breaks.ReplaceAllString(strings.ToLower(plain), " ")
			for _, w := range find.FindAllString(plain, -1) {
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
