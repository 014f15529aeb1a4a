package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A peer with a full archive goes on when files were moved away.
func TestArchiveMovedAway(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Home = archiveOf(t, map[string][2]string{
		"http://a.example/": {"200 OK", strings.Repeat("a page. ", 1000)},
	})
	o.Config.Archive.Enabled, o.Config.Archive.Quota, o.Config.Crawl.MinFree = true, 500, 0
	n := newNode(t, o)
	defer n.Close()
	if s := n.archive.Stats(); s.Bytes < 500 || s.Files != 1 {
		t.Fatalf("archive %+v, want a full one", s)
	}
	files, err := filepath.Glob(filepath.Join(o.Home.ArchiveDir(), "*.*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, f := range files {
		if err := os.Rename(f, filepath.Join(t.TempDir(), filepath.Base(f))); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.checkSpace(); err != nil {
		t.Errorf("checkSpace() = %v after files were moved away", err)
	}
}
