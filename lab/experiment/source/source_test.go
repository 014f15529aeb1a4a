package source

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"peerd/lab/crawllet"
)

func TestMain(m *testing.M) {
	crawllet.Main()
	os.Exit(m.Run())
}

var refs = regexp.MustCompile(`href="([^"]*)"`)

// Every page of a generated site is reached from the index, and sizes and links are those asked
// for.
func TestWrite(t *testing.T) {
	size := siteSize{pages: 200, outgoing: 300, bytes: 800_000}
	dir := t.TempDir()
	if err := size.write(dir, 1); err != nil {
		t.Fatal(err)
	}
	queue, seen, bytes, outgoing := []string{"/"}, map[string]bool{"/": true}, 0, 0
	for len(queue) > 0 {
		file := filepath.Join(dir, queue[0])
		if queue[0] == "/" {
			file = filepath.Join(dir, "index.html")
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		queue, bytes = queue[1:], bytes+len(page)
		for _, m := range refs.FindAllStringSubmatch(string(page), -1) {
			switch {
			case strings.HasPrefix(m[1], "http:"):
				outgoing++
			case !seen[m[1]]:
				seen[m[1]] = true
				queue = append(queue, m[1])
			}
		}
	}
	if len(seen) != size.pages || outgoing != size.outgoing ||
		bytes < size.bytes*9/10 || bytes > size.bytes*11/10 {
		t.Errorf("%d pages of %d bytes with %d outgoing links, want %+v", len(seen), bytes,
			outgoing, size)
	}
}
