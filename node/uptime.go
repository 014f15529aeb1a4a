package node

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Where Linux says which start of the machine this is, and for how long it has been
// running, sleep included.
const (
	bootFile   = "/proc/sys/kernel/random/boot_id"
	uptimeFile = "/proc/uptime"
)

// uptime is how long the machine has been running since the start that boot names. It
// is false where the system does not say so.
func uptime() (boot string, up time.Duration, ok bool) {
	id, err := os.ReadFile(bootFile)
	if err != nil {
		return "", 0, false
	}
	text, err := os.ReadFile(uptimeFile)
	if err != nil {
		return "", 0, false
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return "", 0, false
	}
	return strings.TrimSpace(string(id)), time.Duration(seconds * float64(time.Second)), true
}
