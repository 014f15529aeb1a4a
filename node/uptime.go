package node

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Files in which Linux gives the identity of the current boot and the time since then, including
// sleep.
const (
	bootFile   = "/proc/sys/kernel/random/boot_id"
	uptimeFile = "/proc/uptime"
)

// uptime returns the identity of the current boot and the time since then. ok is false where the
// system does not provide them.
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
