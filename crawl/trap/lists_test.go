package trap

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"

	"peerd/store"
)

// TestURLLists runs lists of URLs of real, honest sites through the default
// limits: not one may be dropped. PEERD_URL_LISTS names a folder of files with
// one canonical URL a line.
func TestURLLists(t *testing.T) {
	dir := os.Getenv("PEERD_URL_LISTS")
	if dir == "" {
		t.Skip("!!! NOT TESTED AGAINST REAL SITES: PEERD_URL_LISTS names no folder of lists of URLs !!!")
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
			if h := g.Admit(states[u.Host()], u, now); h != None {
				t.Errorf("%s: %v", u, h)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	small, most := 0, 0
	for _, s := range states {
		checkSize(t, s)
		b, err := s.MarshalCBOR()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(b))
		if len(b) < 1024 {
			small++
		}
	}
	t.Logf("%d URLs of %d hosts; %d states below 1 KiB, the largest has %d bytes", total, len(states), small, most)
}
