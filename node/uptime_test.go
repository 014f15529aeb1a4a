package node

import (
	"os"
	"testing"
)

func TestUptime(t *testing.T) {
	if _, err := os.Stat(bootFile); err != nil {
		t.Skip("the system does not say so")
	}
	boot, up, ok := uptime()
	again, later, okLater := uptime()
	if !ok || !okLater || boot == "" || boot != again || up <= 0 || later < up {
		t.Errorf("%q for %v, then %q for %v", boot, up, again, later)
	}
}
