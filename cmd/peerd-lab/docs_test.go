package main

import (
	"path/filepath"
	"strings"
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/list"
	"peerd/lab/repo"
	"peerd/lab/results"
)

// TestDocumentedCommands checks that every peerd-lab command in the documents is accepted.
func TestDocumentedCommands(t *testing.T) {
	commands, err := repo.Commands("../..", "peerd-lab")
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) < 10 {
		t.Errorf("Commands found %d calls of peerd-lab, want at least 10", len(commands))
	}
	for _, c := range commands {
		if err := repo.CheckCommand(newRootCommand(), c); err != nil {
			t.Error(err)
		}
	}
}

// TestPublishedResults checks that every peerd-lab command in the list of published figures is
// accepted, and that its experiment exists.
func TestPublishedResults(t *testing.T) {
	entries, err := results.Read(filepath.Join("../..", results.File))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		words := strings.Fields(e.Command)
		if e.Manual != "" || words[0] != "peerd-lab" {
			continue
		}
		c := repo.Command{File: results.File + ": " + e.Name, Args: words[1:]}
		if err := repo.CheckCommand(newRootCommand(), c); err != nil {
			t.Error(err)
		}
		if words[1] == "run" {
			if _, err := experiment.Find(list.Experiments(), words[2]); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
	}
}
