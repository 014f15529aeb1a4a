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

// trim releases the memory of badger's mapped tables and values, and of the program's code, if the
// mapped files of the process take more than limit bytes. The kernel could do so at any time, but
// until then the memory counts as used by the process. MADV_PAGEOUT (Linux 5.4) writes back and
// drops pages and keeps their contents, so it is harmless if the address range was unmapped or
// reused meanwhile. The code stays in the kernel's cache: MADV_DONTNEED only unmaps its pages, most
// of which are mapped because their neighbours are used. Errors are ignored.
func trim(dir string, limit int64) {
	if residentFiles() <= limit {
		return
	}
	dir, err := filepath.EvalSymlinks(dir) // the kernel names files without links
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return
	}
	program, _ := os.Executable() // "" is no mapping
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 7f0000000000-7f0000200000 rw-s 00000000 fe:00 123 /path/000001.sst
		place, path, _ := strings.Cut(lines.Text(), "/")
		fields, path := strings.Fields(place), "/"+path
		advice := unix.MADV_PAGEOUT
		switch {
		case path == program && fields[1] == "r-xp": // other parts may have been written
			advice = unix.MADV_DONTNEED
		case !isTable(path) || filepath.Dir(path) != dir:
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && begin < end {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin),
				uintptr(advice))
		}
	}
}

// isTable reports whether a file of badger has tables or values. Its other files are logs; their
// pages would be needed again at once.
func isTable(path string) bool {
	return strings.HasSuffix(path, ".sst") || strings.HasSuffix(path, ".vlog")
}

// residentFiles returns the size of mapped files in memory in bytes, or 0 if the kernel
// does not report it.
func residentFiles() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("RssFile:")); ok {
			kib := strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB")
			n, _ := strconv.ParseInt(kib, 10, 64)
			return n << 10
		}
	}
	return 0
}
