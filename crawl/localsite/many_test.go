package localsite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

var manyFiles = flag.Int("files", 0, "files that TestManyFiles watches; 0 skips it")

// TestManyFiles measures what it takes to watch many files.
func TestManyFiles(t *testing.T) {
	if *manyFiles == 0 {
		t.Skip("no number of files: run with -args -files 100000")
	}
	root, l := t.TempDir(), newLedger()
	for i := range *manyFiles {
		dir := filepath.Join(root, fmt.Sprintf("section-%05d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, fmt.Sprintf("page-number-%02d.html", i%100))
		if err := os.WriteFile(file, []byte("one"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	run(t, root, l, time.Hour)
	l.until(t, "all files are announced", func() bool { return len(l.versions) == *manyFiles })
	took := time.Since(began)
	l.take()
	l.mu.Lock()
	l.versions = map[string]Version{} // the watcher has a copy
	l.mu.Unlock()
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d files: %d MiB of heap, announced after %v", *manyFiles,
		(after.HeapAlloc-before.HeapAlloc)>>20, took.Round(time.Millisecond))
	began = time.Now()
	write(t, root, "section-00000/page-number-00.html", "two and more")
	l.until(t, "the change is announced", func() bool { return len(l.versions) == 1 })
	t.Logf("a change was announced after %v", time.Since(began).Round(time.Millisecond))
}
