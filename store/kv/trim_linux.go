package kv

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// trim gives back the memory of badger's mapped tables, when they have more of
// it than most bytes. What has been read of them counts as this process's,
// though the kernel could take it at any time; a peer that promises to be small
// should not leave that to others. MADV_PAGEOUT (Linux 5.4) only ever drops
// what is in a file, so it does no harm if a mapping has gone meanwhile.
// Failing costs nothing but memory.
func trim(dir string, most int64) {
	if residentFiles() <= most {
		return
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 7f0000000000-7f0000200000 rw-s 00000000 fe:00 123 /path/000001.sst
		fields := strings.Fields(lines.Text())
		if len(fields) != 6 || !strings.HasSuffix(fields[5], ".sst") || filepath.Dir(fields[5]) != dir {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && begin < end {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), unix.MADV_PAGEOUT)
		}
	}
}

// residentFiles is how much of mapped files is in memory, in bytes; 0 if the
// kernel does not say.
func residentFiles() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("RssFile:")); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
