package main

import (
	"testing"

	"peerd/lab/repo"
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
