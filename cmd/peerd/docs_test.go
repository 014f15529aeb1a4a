package main

import (
	"testing"

	"peerd/lab/repo"
)

// TestDocumentedCommands checks that every peerd command in the documents is accepted.
func TestDocumentedCommands(t *testing.T) {
	commands, err := repo.Commands("../..", "peerd")
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) < 20 {
		t.Errorf("Commands found %d calls of peerd, want at least 20", len(commands))
	}
	for _, c := range commands {
		if err := repo.CheckCommand(newRootCommand(), c); err != nil {
			t.Error(err)
		}
	}
}
