package node

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers maps each top-level folder to the folders that it may import besides itself.
var layers = map[string][]string{
	"internal": {},
	"coords":   {},
	"store":    {},
	"overlay":  {"internal", "coords", "store"},
	"crawl":    {"internal", "store"},
	"node":     {"internal", "coords", "store", "overlay", "crawl"},
	"lab":      {"internal", "coords", "store", "overlay", "crawl", "node"},
	"cmd":      {"node", "lab"},
}

// forbiddenInCoords lists what coords must not import outside its tests: it uses no clock, no
// network and no goroutine.
var forbiddenInCoords = []string{"context", "log/slog", "net", "net/http", "os", "os/exec", "sync",
	"sync/atomic"}

// onlyIn lists packages, by the beginning of their path, and the only folders that may import them.
var onlyIn = map[string][]string{
	"github.com/prometheus/": {"node/metrics", "overlay"}, // overlay hands them to libp2p
	"peerd/node/metrics":     {"node"},
	"net/http/pprof":         {"node/admin"},
}

// TestImportRules checks the imports between the layers. It also checks that only tests, and
// packages with a name ending in "test", import packages with such a name. It parses the files
// instead of calling the go command, so that the test cache depends on them.
func TestImportRules(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n != ".." && (strings.HasPrefix(n, ".") || n == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		layer, _, nested := strings.Cut(filepath.ToSlash(rel), "/")
		if !nested {
			t.Errorf("%s: Go file outside the layers", rel)
			return nil
		}
		allowed, known := layers[layer]
		if !known {
			t.Errorf("%s: %q is not a layer", rel, layer)
			return nil
		}
		seen[layer] = true
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if layer == "coords" && !strings.HasSuffix(path, "_test.go") &&
				slices.Contains(forbiddenInCoords, p) {
				t.Errorf("%s imports %s, which coords must not import", rel, p)
			}
			for beginning, only := range onlyIn {
				if dir := filepath.ToSlash(filepath.Dir(rel)); strings.HasPrefix(p, beginning) &&
					!slices.Contains(only, dir) && !strings.HasSuffix(path, "_test.go") {
					t.Errorf("%s imports %s, which only %s may import", rel, p, only)
				}
			}
			to, ok := strings.CutPrefix(p, "peerd/")
			if !ok {
				continue
			}
			if to == "internal/rapidtest" && strings.HasSuffix(path, "_test.go") {
				continue // has nothing to do with any layer
			}
			to, _, _ = strings.Cut(to, "/")
			if to != layer && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: %s must not import %s", rel, p, layer, to)
			}
			if support := strings.HasSuffix(filepath.Dir(path), "test"); strings.HasSuffix(p,
				"test") && !support && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s imports %s, which is for tests only", rel, p)
			}
			if filepath.ToSlash(filepath.Dir(rel)) == "overlay/overlaytest" && to != "store" {
				t.Errorf("%s imports %s: overlaytest may import only store", rel, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for layer := range layers {
		if !seen[layer] {
			t.Errorf("layer %q has no Go file", layer)
		}
	}
}
