//go:build integration

package store

import (
	"os"
	"os/exec"
	"testing"
)

// TestEachEngine runs all other tests again, on badger and in memory.
func TestEachEngine(t *testing.T) {
	t.Parallel()
	if *engine != "" {
		t.Skip("started by TestEachEngine")
	}
	for _, name := range []string{"badger", "memory"} {
		cmd := exec.Command(os.Args[0], "-engine="+name, "-rapid.checks=20")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("tests on %s: %v\n%s", name, err, out)
		}
	}
}
