package compare

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticks is the unit of /proc/stat, USER_HZ, which is 100 per second on all systems that Go
// supports.
const ticks = 100

// busy returns the seconds of work of the given cores, or of all cores, for all processes since
// the machine was started; 0 without /proc.
func busy(cpus []int) float64 {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	want := map[string]bool{"cpu": len(cpus) == 0}
	for _, c := range cpus {
		want["cpu"+strconv.Itoa(c)] = true
	}
	var sum float64
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if name, rest, _ := strings.Cut(sc.Text(), " "); want[name] {
			sum += busyOf(rest)
		}
	}
	return sum
}

// busyOf sums a line of /proc/stat except for idle and iowait, and for guest time, which is
// part of user and nice (proc_stat(5)).
func busyOf(line string) float64 {
	var sum float64
	for i, f := range strings.Fields(line) {
		if i == 3 || i == 4 || i > 7 {
			continue
		}
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0
		}
		sum += n / ticks
	}
	return sum
}

// peakMemory returns the largest resident size of a process so far in bytes (VmHWM,
// proc_pid_status(5)), or 0 if it has exited. The value of wait4 cannot be used: it includes
// the memory of the parent at the fork.
func peakMemory(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if v, ok := strings.CutPrefix(sc.Text(), "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
