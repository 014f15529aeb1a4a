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

// rooms is the architecture: what each top-level folder may import besides
// itself.
var rooms = map[string][]string{
	"coords":  {},
	"store":   {},
	"overlay": {"coords", "store"},
	"crawl":   {"store"},
	"node":    {"coords", "store", "overlay", "crawl"},
	"cmd":     {"node"},
}

// pure lists what room coords must not import outside its tests: it has no
// clock, no network and no goroutine.
var pure = []string{"context", "log/slog", "net", "net/http", "os", "os/exec", "sync", "sync/atomic"}

// TestArrows holds the arrows between the rooms, and has packages whose names end
// in "test" imported by tests and by each other alone. It parses the files instead
// of asking the go command, so that the test cache sees what it read.
func TestArrows(t *testing.T) {
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
		room, _, nested := strings.Cut(filepath.ToSlash(rel), "/")
		if !nested {
			t.Errorf("%s: Go files stand in rooms, not at the top", rel)
			return nil
		}
		allowed, known := rooms[room]
		if !known {
			t.Errorf("%s: %q is no room", rel, room)
			return nil
		}
		seen[room] = true
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if room == "coords" && !strings.HasSuffix(path, "_test.go") && slices.Contains(pure, p) {
				t.Errorf("%s imports %s: room coords is pure", rel, p)
			}
			to, ok := strings.CutPrefix(p, "peerd/")
			if !ok {
				continue
			}
			to, _, _ = strings.Cut(to, "/")
			if to != room && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: room %s may not import room %s", rel, p, room, to)
			}
			if support := strings.HasSuffix(filepath.Dir(path), "test"); strings.HasSuffix(p, "test") && !support && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s imports %s: it is for tests alone", rel, p)
			}
			if filepath.ToSlash(filepath.Dir(rel)) == "overlay/overlaytest" && to != "store" {
				t.Errorf("%s imports %s: overlaytest may import room store alone", rel, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for room := range rooms {
		if !seen[room] {
			t.Errorf("room %q has no Go file", room)
		}
	}
}
