package cli

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// systemd starts a peer again unless its settings are wrong; a crash is not that.
func TestServiceRestarts(t *testing.T) {
	unit, err := os.ReadFile("../../../docs/systemd/peerd.service")
	if err != nil {
		t.Fatal(err)
	}
	const crashed = 2 // the status of a Go program that panics
	m := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindSubmatch(unit)
	if m == nil || string(m[1]) != strconv.Itoa(ExitUsage) || ExitUsage == crashed {
		t.Errorf("%q prevents a restart, want the status %d alone, and not %d", m, ExitUsage, crashed)
	}
}
