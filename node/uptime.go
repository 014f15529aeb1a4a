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
	seconds, err2 := firstNumber(uptimeFile)
	if err != nil || err2 != nil {
		return "", 0, false
	}
	return strings.TrimSpace(string(id)), time.Duration(seconds * float64(time.Second)), true
}

// firstNumber returns the number with which a file of the kernel begins.
func firstNumber(file string) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}
