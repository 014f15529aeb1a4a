package results

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// root is the root of the repository.
const root = "../.."

func published(t *testing.T) []Entry {
	t.Helper()
	entries, err := Read(filepath.Join(root, File))
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// Every document of results is in the list, and every document in the list exists.
func TestDocumentsAreListed(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range published(t) {
		listed[e.Document] = true
		if _, err := os.Stat(filepath.Join(root, e.Document)); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs/results/*.md"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	for _, f := range files {
		if name := filepath.Base(f); name != "README.md" && !listed["docs/results/"+name] {
			t.Errorf("no result of %s is published in docs/results/%s", File, name)
		}
	}
}

var quoted = regexp.MustCompile("(?s)`(peerd(?:-lab)? [^`]+)`")

// Every command that README.md gives for a figure is in the list. Words in capitals stand for
// data.
func TestFiguresOfREADMEAreListed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, figures, _ := strings.Cut(string(text), "\n## Figures\n")
	figures, _, _ = strings.Cut(figures, "\n## ")
	commands := quoted.FindAllStringSubmatch(figures, -1)
	if len(commands) < 5 {
		t.Fatalf("README.md gives %d commands for figures, want more", len(commands))
	}
	entries := published(t)
	for _, m := range commands {
		if m[1] == "peerd-lab results" {
			continue
		}
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.is(m[1]) }) {
			t.Errorf("%s has no result with the command %q", File, m[1])
		}
	}
}

// is reports whether e has a command, in which words in capitals stand for data.
func (e Entry) is(command string) bool {
	return slices.EqualFunc(strings.Fields(command), strings.Fields(e.Command),
		func(a, b string) bool {
			return a == b || a == strings.ToUpper(a) && slices.Contains(e.Data, b)
		})
}

func TestReadRejects(t *testing.T) {
	for name, text := range map[string]string{
		"no name":       "[[result]]\ndocument = 'd'\ncommand = 'go x'\nminutes = 1",
		"unknown key":   "[[result]]\nnom = 'd'",
		"other program": "[[result]]\nname='a'\ndocument='d'\ncommand='rm x'\nminutes=1",
		"no minutes":    "[[result]]\nname='a'\ndocument='d'\ncommand='go x'",
		"nothing":       "[[result]]\nname='a'\ndocument='d'",
		"data not a word": "[[result]]\nname='a'\ndocument='d'\ncommand='go x'\nminutes=1\n" +
			"data=['y']",
		"twice": "[[result]]\nname='a'\ndocument='d'\nmanual='m'\n[[result]]\nname='a'\n" +
			"document='d'\nmanual='m'",
	} {
		file := filepath.Join(t.TempDir(), "list.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(file); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v; want an error of one line", name, got, err)
		}
	}
}

// The report has what commands print, counts failures, and names what is missing.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"w1.gz", "w2.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries := []Entry{
		{Name: "one", Document: "d.md", Command: "peerd-lab x w*.gz y", Data: []string{"w*.gz"}},
		{Name: "two", Document: "d.md", Command: "peerd-lab x none", Data: []string{"none"}},
		{Name: "three", Document: "d.md", Manual: "by hand"},
		{Name: "four", Document: "d.md", Command: "go nosuchcommand"},
	}
	var text, messages strings.Builder
	failed, err := Report(t.Context(), &text, &messages, "echo", "version 1", dir, entries)
	if err != nil || failed != 1 {
		t.Errorf("Report() = %d, %v", failed, err)
	}
	for _, want := range []string{
		"version 1.\n",
		"    peerd-lab x w*.gz y\n\n```\nx " + dir + "/w1.gz " + dir + "/w2.gz y\n```\n",
		"Skipped: there is no none in --data.", "Not repeated by a command: by hand.",
		"It failed (exit status 2)",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", text.String(), want)
		}
	}
}

// A command ends with the context.
func TestReportIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	var text strings.Builder
	_, err := Report(ctx, &text, &text, "sleep", "v", "",
		[]Entry{{Name: "one", Document: "d", Command: "peerd-lab 60"}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Report() = %v", err)
	}
}
