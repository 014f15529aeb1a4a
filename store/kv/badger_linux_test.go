package kv

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The log of a memtable that badger has replaced, and not written to a table yet, has no page that
// is only in memory, and after Sync no log has one.
func TestReplacedMemtables(t *testing.T) {
	dir := t.TempDir()
	e, err := Open(dir, small)
	must(t, err)
	defer func() { must(t, e.Close()) }()
	must(t, put(e, "k", "v"))
	must(t, e.Sync())
	if kb := mapped(t, dir, "Private_Dirty:", extLog); kb > 0 {
		t.Skipf("%d kB are unsynced after one commit: the file system has no disk", kb)
	}
	// Badger tries to write a table with each of these names, and waits a second after each.
	for n := range 5 {
		table := filepath.Join(dir, fmt.Sprintf("%06d.sst", n+1))
		must(t, os.WriteFile(table, nil, 0o600))
		defer func() { must(t, os.Remove(table)) }()
	}
	for n := 0; ; n++ {
		x := begin(t, e, true)
		for k := range 500 {
			must(t, x.Set(fmt.Appendf(nil, "%d %d", n, k), make([]byte, 150)))
		}
		must(t, x.Commit())
		logs, err := filepath.Glob(filepath.Join(dir, "*"+extLog))
		if must(t, err); len(logs) > 1 {
			break
		}
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*"+extLog))
	must(t, err)
	for _, name := range logs[:len(logs)-1] {
		if kb := mapped(t, name, "Private_Dirty:", extLog); kb > 0 {
			t.Errorf("%d kB of a log that was replaced are unsynced", kb)
		}
	}
	must(t, e.Sync())
	if kb := mapped(t, dir, "Private_Dirty:", extLog); kb > 0 {
		t.Errorf("%d kB of logs are unsynced after Sync", kb)
	}
}

// After a sync has failed, Sync does not say that everything is on the disk. One that could not
// begin can be repeated.
func TestSyncFailure(t *testing.T) {
	for op, create := range map[string]func(name string) error{
		"open": func(name string) error { return os.Mkdir(name, 0o700) },
		"sync": func(name string) error { return syscall.Mkfifo(name, 0o600) },
	} {
		dir := t.TempDir()
		e, err := Open(dir, small)
		must(t, err)
		must(t, put(e, "k", "v"))
		last := filepath.Join(dir, "999999"+extValues)
		must(t, create(last))
		for range 2 {
			var failed *fs.PathError
			if err := e.Sync(); !errors.As(err, &failed) || failed.Op != op {
				t.Errorf("%s: Sync() = %v", op, err)
			}
		}
		must(t, os.Remove(last))
		if err := e.Sync(); (err == nil) != (op == "open") {
			t.Errorf("%s: Sync() = %v after it failed", op, err)
		}
		must(t, e.Close())
		e, err = Open(dir, small)
		must(t, err)
		must(t, e.Sync())
		must(t, e.Close())
	}
}

// trim finds the files of a store wherever it is.
func TestTrim(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Symlink(filepath.Join(base, "a b"), filepath.Join(base, "link")))
	for _, name := range []string{"ab", "a b", "link"} {
		dir := filepath.Join(base, name)
		if name != "link" {
			must(t, os.Mkdir(dir, 0o700))
		}
		e, err := Open(dir, small)
		must(t, err)
		for i := range 1000 {
			must(t, put(e, "k"+strconv.Itoa(i), strings.Repeat("v", 300)))
		}
		must(t, e.Sync())
		before := mapped(t, base, "Rss:", ".sst", ".vlog")
		trim(dir, 0)
		after := mapped(t, base, "Rss:", ".sst", ".vlog")
		must(t, e.Close())
		switch {
		case after < before:
		case name == "ab":
			t.Skip("the kernel does not release pages of this file system")
		default:
			t.Errorf("%q: %d kB of files are in memory, %d kB after trim", name, before, after)
		}
	}
}

// mapped returns the sum of a number in kB for the mapped files with some extensions in dir.
func mapped(t *testing.T, dir, field string, exts ...string) (kb int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	must(t, err)
	defer f.Close()
	in := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if !strings.HasSuffix(fields[0], ":") { // 7f0000000000-7f0000200000 rw-s ... path
			in = slices.Contains(exts, filepath.Ext(lines.Text())) &&
				strings.Contains(lines.Text(), dir)
		} else if in && fields[0] == field {
			n, err := strconv.Atoi(fields[1])
			must(t, err)
			kb += n
		}
	}
	return kb
}
