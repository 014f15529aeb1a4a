package search

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"peerd/crawl"
	"peerd/crawl/extract"
	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

// crawled archives an answer, and returns it as the crawler hands it over, with a text that is not
// in the archive.
func crawled(
	t *testing.T, a *warc.Archive, url string, status int, text string, robots extract.Robots,
) crawl.Archived {
	t.Helper()
	at, err := a.Append(warc.Exchange{URL: url, Time: start,
		Request:  []byte("GET / HTTP/1.1\r\n\r\n"),
		Response: fmt.Appendf(nil, "HTTP/1.1 %d X\r\nContent-Type: text/html\r\n\r\n", status),
		Body:     []byte("archived")})
	if err != nil {
		t.Fatal(err)
	}
	c := crawl.Archived{URL: store.URL(url), Time: start, Status: status, At: at}
	if text != "" {
		c.Page = &extract.Document{Title: "T", Text: text, Robots: robots}
	}
	return c
}

// What the crawler has read is indexed without the archive, and everything else from it, also in
// between, and in several files. After a crash, everything is read.
func TestRecent(t *testing.T) {
	a := archive(t, t.TempDir(), 8<<10)
	defer a.Close()
	r := NewRecent()
	var fromArchive, fromCrawler []string
	for i := range 60 {
		url := fmt.Sprintf("http://a.example/%d", i)
		c := crawled(t, a, url, http.StatusOK, "crawled", extract.Robots{})
		if i%3 == 0 {
			fromArchive = append(fromArchive, url)
			continue
		}
		fromCrawler = append(fromCrawler, url)
		r.Add(c)
	}
	r.Add(crawled(t, a, "http://a.example/1", http.StatusNotFound, "", extract.Robots{}))
	r.Add(crawled(t, a, "http://a.example/2", http.StatusOK, "crawled", extract.Robots{NoIndex: true}))
	r.Add(crawled(t, a, "http://a.example/4", http.StatusServiceUnavailable, "", extract.Robots{}))
	r.Add(crawled(t, a, "http://a.example/robots.txt", http.StatusOK, "", extract.Robots{}))
	r.Add(crawled(t, a, "http://a.example/unread", http.StatusOK, "", extract.Robots{}))
	fromCrawler = slices.DeleteFunc(fromCrawler, func(u string) bool {
		return strings.HasSuffix(u, "/1") || strings.HasSuffix(u, "/2")
	})
	r.Add(crawl.Archived{URL: "http://a.example/", Status: http.StatusOK,
		Page: &extract.Document{Text: "crawled"}, At: warc.Location{File: "removed"}})
	fromArchive = append(fromArchive, "http://a.example/unread")
	slices.Sort(fromCrawler)
	slices.Sort(fromArchive)
	x := open(t, t.TempDir())
	defer x.Close()
	if n, err := (&Indexer{Index: x, Archive: &a.Reader, Recent: r, Logger: discard}).CatchUp(
		t.Context()); n != 61 || err != nil {
		t.Fatalf("CatchUp() = %d, %v, want 61 pages", n, err)
	}
	if len(r.known) != 0 || r.bytes != 0 {
		t.Errorf("%d answers with %d bytes are left, want none", len(r.known), r.bytes)
	}
	if got := find(t, x, nil, "crawled"); !slices.Equal(got, fromCrawler) {
		t.Errorf("of the crawler: %q, want %q", got, fromCrawler)
	}
	if got := find(t, x, nil, "archived"); !slices.Equal(got, fromArchive) {
		t.Errorf("of the archive: %q, want %q", got, fromArchive)
	}
	if n, err := (&Indexer{Index: x, Archive: &a.Reader, Logger: discard}).CatchUp(
		t.Context()); n != 0 || err != nil {
		t.Errorf("second CatchUp() = %d, %v", n, err)
	}
	again := open(t, t.TempDir())
	defer again.Close()
	if _, err := (&Indexer{Index: again, Archive: &a.Reader, Logger: discard}).CatchUp(
		t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := find(t, again, nil, "archived"); len(got) != len(fromArchive)+len(fromCrawler)+1 {
		t.Errorf("after a crash: %d pages", len(got))
	}
}

// Recent holds a limited number of bytes, the first ones, and forgets what a pass over the whole
// archive has not needed.
func TestRecentIsBounded(t *testing.T) {
	r := NewRecent()
	text := strings.Repeat("x", recentBytes/4)
	add := func(offset int64) {
		r.Add(crawl.Archived{URL: "http://a.example/", Status: http.StatusOK,
			Page: &extract.Document{Text: text}, At: warc.Location{File: "f", Offset: offset}})
	}
	for offset := range int64(10) {
		add(offset)
	}
	if r.bytes > recentBytes || len(r.known) != 3 || len(r.half) != 1 ||
		r.take("f", 0) == nil || r.take("f", 0) != nil || r.take("f", 3) != nil {
		t.Errorf("%d bytes, %d answers", r.bytes, len(r.known))
	}
	// Links count: a page may have many of them, and no text.
	many := &extract.Document{}
	for i := range index.MaxLinks {
		many.Links = append(many.Links, extract.Link{Element: "a",
			URL: store.URL(fmt.Sprintf("http://%d.example/%02000d", i, i))})
	}
	links := NewRecent()
	for offset := range int64(2 * recentBytes / 2000 / index.MaxLinks) {
		links.Add(crawl.Archived{URL: "http://a.example/", Status: http.StatusOK, Page: many,
			At: warc.Location{File: "f", Offset: offset}})
	}
	if n := len(links.known); n > recentBytes/2000/index.MaxLinks {
		t.Errorf("%d pages with %d links of 2,000 bytes each are kept", n, index.MaxLinks)
	}
	pass := r.begin()
	add(10)
	r.end(pass)
	if r.take("f", 1) != nil || r.take("f", 10) == nil || r.bytes != 0 {
		t.Errorf("%d bytes after a pass and all were taken", r.bytes)
	}
	add(11)
	add(11) // the archive was cut, and written again
	if r.take("f", 11) == nil || r.bytes != 0 {
		t.Errorf("%d bytes after an answer was replaced and taken", r.bytes)
	}
}
