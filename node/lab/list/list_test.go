package list

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var plain = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// The names of experiments are words of the command line and of files.
func TestExperiments(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Experiments() {
		if seen[e.Name] || !plain.MatchString(e.Name) || e.Title == "" || e.Source == "" || e.Run == nil {
			t.Errorf("%q: used twice, unfit as a name, or incomplete", e.Name)
		}
		seen[e.Name] = true
		for _, need := range e.Needs {
			for n := range strings.SplitSeq(need, "|") {
				if n != "matrix" && n != "times" && n != "world" {
					t.Errorf("%s needs %q", e.Name, n)
				}
			}
		}
	}
}

// The frame knows no experiment, and themes do not know each other.
func TestArrows(t *testing.T) {
	shared := []string{"data", "sim", "labtest"}
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	themes, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(files, themes) {
		own := filepath.Base(filepath.Dir(file))
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			of, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), "peerd/node/lab/")
			if ok && own != "list" && of != own && (own == ".." || !slices.Contains(shared, of)) {
				t.Errorf("%s imports lab/%s", file, of)
			}
		}
	}
	if len(files) < 5 || len(themes) < 10 {
		t.Errorf("%d and %d files", len(files), len(themes))
	}
}
