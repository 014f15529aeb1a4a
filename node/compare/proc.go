package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticks is the unit of /proc/stat: USER_HZ, 100 a second on all that Go runs
// on.
const ticks = 100

// busy returns the seconds that the cores have worked since the machine's
// start, for anybody; of all cores when none is named. Zero where there is no
// /proc.
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

// busyOf sums a line of /proc/stat but for idle and iowait, and for the guests'
// time, which stands in user and nice already (proc_stat(5)).
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

// peakMemory returns the largest resident size of a process so far in bytes
// (VmHWM, proc_pid_status(5)); 0 when it is gone. The figure of wait4 does not
// do: it counts what the parent's memory was when it forked.
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
