//go:build integration

package list

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
)

var plain = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// The names of experiments are valid as arguments and as file names.
func TestExperiments(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Experiments() {
		if seen[e.Name] || !plain.MatchString(e.Name) || e.Title == "" || e.Source == "" ||
			e.Run == nil {
			t.Errorf("experiment %q is incomplete, or its name is invalid or used twice", e.Name)
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

// Package experiment imports no package of experiments, and these do not import each other.
func TestImports(t *testing.T) {
	shared := []string{"data", "crawlsim", "experimenttest"}
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
			of, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`),
				"peerd/lab/experiment/")
			if ok && own != "list" && of != own && (own == ".." || !slices.Contains(shared, of)) {
				t.Errorf("%s imports lab/experiment/%s", file, of)
			}
		}
	}
	if len(files) < 5 || len(themes) < 10 {
		t.Errorf("read %d and %d files, want at least 5 and 10", len(files), len(themes))
	}
}

// An experiment returns when its context ends, also before its first row.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, e := range Experiments() {
		if len(e.Needs) > 0 {
			continue
		}
		err := e.Run(ctx, experiment.Params{Seed: 1, Quick: true}, new(experimenttest.Out))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Run() = %v, want %v", e.Name, err, context.Canceled)
		}
	}
}
