package repo_test

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The limits of coords and coords/assign: tuned constants, numbers inside functions other
// than 0, 1 and 2, and lines without tests. The second only gets smaller; the first grows only by
// what a measurement shows to pay, to at most 40.
const (
	maxTuned  = 40
	maxInline = 64
	maxLines  = 6500
)

// modelFolders are the packages of which docs/constants.md lists the constants.
var modelFolders = []string{"coords", "coords/assign"}

// constantKinds are the kinds of docs/constants.md.
var constantKinds = []string{"tuned", "published", "limit", "fixed"}

// constantRow is a row of docs/constants.md: name, value, unit, kind, meaning, source.
var constantRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| ([^|]+) \\| (\\w+)" +
	" \\| ([^|]+) \\| ([^|]*)\\|$")

// TestConstants compares docs/constants.md with the code, and counts the tuned ones.
func TestConstants(t *testing.T) {
	code := map[string]string{}
	for _, folder := range modelFolders {
		for _, file := range goFiles(t, folder) {
			addConstants(t, code, file)
		}
	}
	listed, tuned := map[string]bool{}, 0
	for _, m := range constantRow.FindAllStringSubmatch(read(t, "docs/constants.md"), -1) {
		name, value, kind, source := m[1], m[2], m[4], strings.TrimSpace(m[6])
		if listed[name] {
			t.Errorf("%s is listed twice", name)
		}
		listed[name] = true
		if got := code[name]; got != value {
			t.Errorf("%s is %q, docs/constants.md says %q", name, got, value)
		}
		if !slices.Contains(constantKinds, kind) {
			t.Errorf("%s is of kind %q, want one of %v", name, kind, constantKinds)
		}
		if kind == "tuned" {
			if tuned++; source == "" {
				t.Errorf("%s is tuned and has no source", name)
			}
		}
	}
	for name, value := range code {
		if !listed[name] {
			t.Errorf("%s = %s is not in docs/constants.md", name, value)
		}
	}
	if tuned != maxTuned {
		t.Errorf("%d tuned constants, want %d: if there are fewer, lower maxTuned", tuned, maxTuned)
	}
}

// TestNumbersInFunctions keeps constants from moving into functions, where they have no
// name. Powers, conversions of units and checks of arguments remain there.
func TestNumbersInFunctions(t *testing.T) {
	n := 0
	for _, folder := range modelFolders {
		for _, file := range goFiles(t, folder) {
			n += numbersInFunctions(t, file)
		}
	}
	if n != maxInline {
		t.Errorf("%d numbers in functions, want %d: name them, or lower maxInline", n, maxInline)
	}
}

// numbersInFunctions counts the numbers other than 0, 1 and 2 in a file's functions, except
// in those that return defaults.
func numbersInFunctions(t *testing.T, file string) (n int) {
	t.Helper()
	for _, d := range parsed(t, file).Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || strings.HasPrefix(f.Name.Name, "Default") {
			continue
		}
		ast.Inspect(f, func(x ast.Node) bool {
			if l, ok := x.(*ast.BasicLit); ok && (l.Kind == token.INT || l.Kind == token.FLOAT) &&
				!slices.Contains([]string{"0", "1", "2", "0.0", "1.0"}, l.Value) {
				n++
			}
			return true
		})
	}
	return n
}

// parsed returns the syntax of a file.
func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil,
		parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestModelLines bounds the lines of the packages that predict and decide.
func TestModelLines(t *testing.T) {
	lines := 0
	for _, folder := range modelFolders {
		for _, file := range goFiles(t, folder) {
			lines += strings.Count(read(t, file), "\n")
		}
	}
	t.Logf("%v have %d lines without tests", modelFolders, lines)
	if lines > maxLines || lines < 1000 {
		t.Errorf("%d lines, want at most %d", lines, maxLines)
	}
}

// goFiles returns the files of a folder that are no tests, relative to root.
func goFiles(t *testing.T, folder string) (files []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !strings.HasSuffix(f, "_test.go") {
			files = append(files, folder+"/"+filepath.Base(f))
		}
	}
	return files
}

// addConstants adds the constants and variables of a file with numbers in their values,
// and the fields that its Default functions set to numbers.
func addConstants(t *testing.T, to map[string]string, file string) {
	t.Helper()
	f := parsed(t, file)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for i, value := range v.Values {
						addConstant(t, to, f.Name.Name+"."+v.Names[i].Name, value)
					}
				}
			}
		case *ast.FuncDecl:
			if !strings.HasPrefix(d.Name.Name, "Default") {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				field, ok := n.(*ast.KeyValueExpr)
				if ok {
					name := f.Name.Name + "." + d.Name.Name + "." + field.Key.(*ast.Ident).Name
					addConstant(t, to, name, field.Value)
				}
				return true
			})
		}
	}
}

// addConstant adds a value if it is a number.
func addConstant(t *testing.T, to map[string]string, name string, value ast.Expr) {
	t.Helper()
	number := false
	ast.Inspect(value, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			number = number || n.Kind == token.INT || n.Kind == token.FLOAT
		case *ast.SelectorExpr: // a unit is a number
			number = number || printed(t, n.X) == "time" && n.Sel.Name != "Duration"
		}
		return true
	})
	if number {
		to[name] = printed(t, value)
	}
}

// printed returns an expression as it is written.
func printed(t *testing.T, e ast.Expr) string {
	t.Helper()
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), e); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
