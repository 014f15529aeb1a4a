package repo_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	_ "peerd/internal/rapidtest"
)

// The random tests of each folder are short by default: one import is enough for all of them, in a
// file without a build tag.
func TestRandomTestsAreShort(t *testing.T) {
	random, short := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			switch imp.Path.Value {
			case `"pgregory.net/rapid"`, `"peerd/coords/assign/assigntest"`:
				random[filepath.Dir(file)] = true
			case `"peerd/internal/rapidtest"`:
				if !strings.HasSuffix(file, "_integration_test.go") {
					short[filepath.Dir(file)] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(random) < 30 {
		t.Errorf("found %d folders with random tests, want at least 30", len(random))
	}
	for dir := range random {
		if !short[dir] {
			t.Errorf("the tests of %s use rapid without importing internal/rapidtest", dir)
		}
	}
}
