package main

import (
	"os"
	"strings"
	"testing"

	"peerd/lab/attack"
)

// Every attack says what it does, and is described in docs/threats.md.
func TestAttacksAreDescribed(t *testing.T) {
	doc, err := os.ReadFile("../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range attack.All() {
		if a.Name == "" || a.Does == "" || a.By == "" || a.Unit == "" ||
			a.Limit < 0 || seen[a.Name] {
			t.Errorf("attack %q is incomplete, or its name is not the only one", a.Name)
		}
		seen[a.Name] = true
		if !strings.Contains(string(doc), "| `"+a.Name+"` |") {
			t.Errorf("docs/threats.md has no row for %s", a.Name)
		}
	}
	if all, err := attack.Find("all"); err != nil || len(all) != len(seen) {
		t.Errorf("Find(all) = %d attacks, %v, want %d", len(all), err, len(seen))
	}
	if _, err := attack.Find("none"); err == nil {
		t.Error("Find(none) found an attack")
	}
}
