package node

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"peerd/node/config"
	"peerd/store"
	"peerd/store/warc"
)

// Pages that are in the store, but no longer in the archive after a power failure, are fetched
// again, and no others.
func TestRefetchLost(t *testing.T) {
	t.Parallel()
	const pages, kept = 8, 3
	f := newFlaky(t, pages, 0)
	o := f.options(f.url(0))
	o.Home = t.TempDir() + "/home"
	home, err := config.Init(o.Home)
	if err != nil {
		t.Fatal(err)
	}
	o.Config.Archive.Enabled = true
	o.Config.Crawl.MinFree = 0
	crawl := func(fetches int64) {
		t.Helper()
		sum, err := Crawl(t.Context(), o)
		if err != nil || sum.Left != 0 || sum.Pages != fetches {
			t.Fatalf("Crawl() = %+v, %v, want %d pages", sum, err, fetches)
		}
	}
	crawl(pages)
	all := pagesOf(t, home)
	// The file is as it was before the last records were written and it got its name.
	name := all[0].Archive.File
	path := filepath.Join(home.ArchiveDir(), name)
	if err := os.Truncate(path, all[kept].Archive.Offset+10); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".open"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(strings.TrimSuffix(path, ".warc.gz") + ".cdxj"); err != nil {
		t.Fatal(err)
	}
	crawl(2*pages - kept)
	crawl(2*pages - kept)
	r, err := Archive(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pagesOf(t, home) {
		x, err := r.ReadAt(warc.Location{File: p.Archive.File, Offset: p.Archive.Offset,
			Length: p.Archive.Length})
		if err != nil || x.URL != string(p.URL) {
			t.Errorf("%s is not archived: %v", p.URL, err)
		}
	}
}

// pagesOf returns the pages of a home in the order in which they were archived.
func pagesOf(t *testing.T, home config.Home) (all []store.Page) {
	t.Helper()
	err := withStore(home, func(db *store.DB) error {
		return db.View(func(tx *store.Tx) error {
			return tx.Pages(func(p store.Page) error { all = append(all, p); return nil })
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b store.Page) int {
		return cmp.Or(cmp.Compare(a.Archive.File, b.Archive.File),
			cmp.Compare(a.Archive.Offset, b.Archive.Offset))
	})
	return all
}
