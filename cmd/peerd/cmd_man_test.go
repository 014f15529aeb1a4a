package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every command has a page. No line of it is a request of roff unless it is meant to be.
func TestManuals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	root := newRootCommand()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	known := []string{".TH", ".SH", ".TP", ".B", ".BR", ".nf", ".fi"}
	for _, name := range []string{"peerd", "peerd-run", "peerd-network-new"} {
		b, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if strings.HasPrefix(word, ".") && !slices.Contains(known, word) {
				t.Errorf("%s has the request %q", name, word)
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "peerd-run.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`.TH "PEERD-RUN" 1`, ".SH NAME\npeerd\\-run \\- ",
		".SH OPTIONS\n", ".B \\-\\-home directory\n", ".BR peerd (1)"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page of run lacks %q:\n%.600s", want, page)
		}
	}
	if got, want := roff(".x\n'y\n-a\\b"), "\\&.x\n\\&'y\n\\-a\\eb"; got != want {
		t.Errorf("roff() = %q, want %q", got, want)
	}
}
