package kv

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// After Sync no log of a memtable has a page that is only in memory, also not that of a memtable
// which badger has replaced and not written to a table yet.
func TestSyncReplacedMemtables(t *testing.T) {
	dir := t.TempDir()
	e, err := Open(dir, small)
	must(t, err)
	defer e.Close()
	must(t, put(e, "k", "v"))
	must(t, e.Sync())
	if n := unsynced(t, dir); n > 0 {
		t.Skipf("%d kB are unsynced after one commit: the file system has no disk", n)
	}
	val, seen := strings.Repeat("v", 300), 0
	for i := 0; i < 40_000 && seen < 8; i++ {
		must(t, put(e, "k"+strconv.Itoa(i), val))
		if logs, _ := filepath.Glob(filepath.Join(dir, "*.mem")); len(logs) < 2 {
			continue
		}
		seen++
		must(t, e.Sync())
		if n := unsynced(t, dir); n > 0 {
			t.Fatalf("%d kB of logs are unsynced after Sync", n)
		}
	}
	if seen == 0 {
		t.Skip("badger has written each memtable to a table at once")
	}
}

// unsynced returns how many kB of the logs in dir the process has written and the kernel has not.
func unsynced(t *testing.T, dir string) (kb int) {
	f, err := os.Open("/proc/self/smaps")
	must(t, err)
	defer f.Close()
	log := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		fields := strings.Fields(line)
		switch {
		case !strings.HasSuffix(fields[0], ":"): // 7f0000000000-7f0000200000 rw-s ... path
			log = strings.HasSuffix(line, ".mem") && strings.Contains(line, dir)
		case log && strings.HasSuffix(fields[0], "_Dirty:"):
			n, err := strconv.Atoi(fields[1])
			must(t, err)
			kb += n
		}
	}
	return kb
}
