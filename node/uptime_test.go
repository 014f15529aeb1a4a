package node

import (
	"os"
	"testing"
)

func TestUptime(t *testing.T) {
	if _, err := os.Stat(bootFile); err != nil {
		t.Skip("the system does not provide the uptime")
	}
	boot, up, ok := uptime()
	again, later, okLater := uptime()
	if !ok || !okLater || boot == "" || boot != again || up <= 0 || later < up {
		t.Errorf("uptime() = %q, %v, then %q, %v", boot, up, again, later)
	}
}
