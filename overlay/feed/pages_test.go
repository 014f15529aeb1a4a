package feed

import (
	"bytes"
	"flag"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/overlay/wire"
	"peerd/store/warc"
)

var (
	oldPages = flag.String("old-pages", "", "directory of HTML files of TestChangedPages")
	newPages = flag.String("new-pages", "", "the same files, some of them changed")
)

// TestChangedPages logs the bytes of the packets with the pages that have changed between two
// versions of a site, as differences and whole.
func TestChangedPages(t *testing.T) {
	if *oldPages == "" || *newPages == "" {
		t.Skip("no -old-pages and -new-pages")
	}
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	pages, changed, size := 0, 0, 0
	add := func(root string, at time.Time, skip func(name string, body []byte) bool) {
		t.Helper()
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, root)
			if err != nil || !d.Type().IsRegular() || !strings.Contains(name, ".htm") {
				return err
			}
			body, err := os.ReadFile(path)
			if err != nil || skip(name, body) {
				return err
			}
			_, err = a.Append(warc.Exchange{URL: "http://a.example" + name, Time: at, Body: body,
				Response: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	add(*oldPages, now.Add(-time.Hour), func(string, []byte) bool { pages++; return false })
	s := &Server{Archive: a, Logger: slog.New(slog.DiscardHandler)}
	s.start()
	f, err := newFilter(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int64{}
	sum := func(deltas bool) (n int, took time.Duration) {
		t.Helper()
		begin := time.Now()
		for {
			p, versions, _, err := s.gather(t.Context(), at, f, deltas)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.At) == 0 {
				return n, time.Since(begin)
			}
			s.sent(versions)
			var b bytes.Buffer
			if err := wire.WriteMsgZ(&b, p); err != nil {
				t.Fatal(err)
			}
			n += b.Len()
		}
	}
	first, _ := sum(true)
	for _, deltas := range []bool{true, false} {
		add(*newPages, now, func(name string, body []byte) bool {
			old, err := os.ReadFile(*oldPages + name)
			if err != nil || bytes.Equal(old, body) {
				return true
			}
			if deltas {
				changed, size = changed+1, size+len(body)
			}
			return false
		})
		n, took := sum(deltas)
		t.Logf("deltas %v: %d bytes in %v, for %d changed pages of %d bytes; %d pages took %d at "+
			"first", deltas, n, took.Round(time.Millisecond), changed, size, pages, first)
	}
}
