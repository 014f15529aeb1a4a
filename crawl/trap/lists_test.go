package trap

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"peerd/store"
)

var urlLists = flag.String("url-lists", "",
	"directory of files with one canonical URL per line, for TestURLLists; skipped without it")

// TestURLLists passes lists of URLs of real, legitimate sites through the default limits:
// none may be dropped.
func TestURLLists(t *testing.T) {
	t.Parallel()
	dir := *urlLists
	if dir == "" {
		t.Skip("not tested with URLs of real sites: -url-lists is not set")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no lists in %s: %v", dir, err)
	}
	g := guard(t, nil)
	states := map[string]*State{}
	seen := map[store.Digest]bool{}
	total := 0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			u := store.URL(lines.Text())
			if u == "" || seen[u.Digest()] {
				continue
			}
			seen[u.Digest()] = true
			if states[u.Host()] == nil {
				states[u.Host()] = new(State)
			}
			total++
			if h := g.Admit(states[u.Host()], u); h != None {
				t.Errorf("Admit(%s) = %v, want None", u, h)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	small, largest := 0, 0
	for _, s := range states {
		checkSize(t, s)
		b, err := s.MarshalCBOR()
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(b))
		if len(b) < 1024 {
			small++
		}
	}
	t.Logf("%d URLs of %d hosts; %d states below 1 KiB, the largest has %d bytes", total,
		len(states), small, largest)
}
