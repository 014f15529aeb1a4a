package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A type with many methods and fields has more states than a reader can list.
const (
	maxMethods = 40
	maxFields  = 20
)

// size is the number of a type's methods and, if it is a struct, of its fields.
type size struct{ methods, fields int }

// oversized lists the types of the overlay that exceed a limit, with their sizes. An entry that is
// larger than its type, or not needed any more, is an error: the list only gets shorter.
var oversized = map[string]size{
	"overlay/peers.Config": {methods: 1, fields: 26},
}

// TestTypeSizes checks the number of methods and fields of every type of the overlay.
func TestTypeSizes(t *testing.T) {
	sizes, err := typeSizes(filepath.Join(root, "overlay"))
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) < 100 {
		t.Errorf("found %d types, want at least 100", len(sizes))
	}
	for name, s := range sizes {
		limit, listed := oversized[name]
		large := s.methods > maxMethods || s.fields > maxFields
		switch {
		case !listed && large:
			t.Errorf("%s has %d methods and %d fields, want at most %d and %d", name, s.methods,
				s.fields, maxMethods, maxFields)
		case listed && !large:
			t.Errorf("%s is within the limits; remove it from the list of exceptions", name)
		case listed && s != limit:
			t.Errorf("%s has %d methods and %d fields, the list of exceptions says %d and %d",
				name, s.methods, s.fields, limit.methods, limit.fields)
		}
	}
	for name := range oversized {
		if _, found := sizes[name]; !found {
			t.Errorf("%s does not exist; remove it from the list of exceptions", name)
		}
	}
}

// typeSizes returns the sizes of the types that are declared below dir outside tests, by their
// folder and name.
func typeSizes(dir string) (map[string]size, error) {
	sizes := map[string]size{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") ||
			strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		addSizes(sizes, filepath.ToSlash(rel), f)
		return nil
	})
	return sizes, err
}

// addSizes adds what a file in a folder declares.
func addSizes(sizes map[string]size, folder string, f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				name := folder + "." + receiverName(d.Recv.List[0].Type)
				s := sizes[name]
				s.methods++
				sizes[name] = s
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					name := folder + "." + t.Name.Name
					s := sizes[name]
					s.fields = fieldCount(t.Type)
					sizes[name] = s
				}
			}
		}
	}
}

// receiverName returns the name of the type of a receiver.
func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// fieldCount returns the number of fields of a struct; 0 for other types.
func fieldCount(e ast.Expr) (n int) {
	s, ok := e.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}
