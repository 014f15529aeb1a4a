package repo_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"peerd/lab/repo"
)

// root is the root of the repository.
const root = "../.."

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks checks that every relative link of a document leads to a file.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") { // elsewhere
				continue
			}
			path := filepath.Join(root, filepath.Dir(file), target)
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: link to %s: %v", file, target, err)
			}
		}
	}
}

// TestReachable checks that every document below docs can be reached from README.md.
func TestReachable(t *testing.T) {
	seen := map[string]bool{}
	next := []string{"README.md"}
	for len(next) > 0 {
		file := next[0]
		next = next[1:]
		if seen[file] {
			continue
		}
		seen[file] = true
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if strings.HasSuffix(target, ".md") && !strings.Contains(target, "://") {
				next = append(next, filepath.ToSlash(filepath.Join(filepath.Dir(file), target)))
			}
		}
	}
	for _, file := range documents(t) {
		if strings.HasPrefix(file, "docs/") && !seen[file] {
			t.Errorf("%s is linked from no document that README.md leads to", file)
		}
	}
}

// TestREADME keeps README.md short enough to be read within a minute.
func TestREADME(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(read(t, "README.md"), "\n"), "\n")
	if len(lines) > 120 {
		t.Errorf("README.md has %d lines, want at most 120", len(lines))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("README.md:%d has %d columns, want at most 100", i+1, n)
		}
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	files, err := repo.Documents(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("Documents(%q) found %d files, want more", root, len(files))
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var path = regexp.MustCompile(
	"`((?:coords|store|overlay|crawl|node|lab|cmd|docs)/[A-Za-z0-9_/.-]*)`")

// TestPaths checks that the files and folders that ARCHITECTURE.md names exist.
func TestPaths(t *testing.T) {
	found := path.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1)
	if len(found) < 40 {
		t.Errorf("ARCHITECTURE.md names %d paths, want at least 40", len(found))
	}
	for _, m := range found {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("ARCHITECTURE.md: %v", err)
		}
	}
}
