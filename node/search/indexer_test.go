package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// archive creates an archive in dir.
func archive(t *testing.T, dir string, maxFile int64) *warc.Archive {
	t.Helper()
	a, err := warc.Open(dir, warc.Options{MinFree: -1, MaxFile: maxFile, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var start = time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC)

// add archives a response: the head without its end, and the body.
func add(t *testing.T, a *warc.Archive, url, head, body string) {
	t.Helper()
	if _, err := a.Append(warc.Exchange{
		URL: url, Time: start, Request: []byte("GET / HTTP/1.1\r\n\r\n"),
		Response: []byte("HTTP/1.1 " + head + "\r\n\r\n"), Body: []byte(body),
	}); err != nil {
		t.Fatal(err)
	}
}

const html = "200 OK\r\nContent-Type: text/html"

func open(t *testing.T, dir string) *index.Index {
	t.Helper()
	x, err := index.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// find returns the URLs of the pages with a query, sorted.
func find(t *testing.T, x *index.Index, text index.Texter, query string) (urls []string) {
	t.Helper()
	q, err := index.Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := r.Count(q)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Search(t.Context(), q, c, index.MaxHits, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range res.Hits {
		urls = append(urls, string(h.URL))
	}
	slices.Sort(urls)
	return urls
}

// The index follows the archive: new pages, changed pages, and those that are gone.
func TestCatchUp(t *testing.T) {
	a := archive(t, t.TempDir(), 0)
	defer a.Close()
	x := open(t, t.TempDir())
	defer x.Close()
	in := &Indexer{Index: x, Archive: &a.Reader, Agent: "peerd", Logger: discard}
	text := Texter(&a.Reader, "peerd")
	catchUp := func(want int) {
		t.Helper()
		if n, err := in.CatchUp(t.Context()); n != want || err != nil {
			t.Fatalf("CatchUp() = %d, %v, want %d", n, err, want)
		}
	}
	check := func(query string, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = "http://a.example/" + want[i]
		}
		if got := find(t, x, text, query); !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", query, got, want)
		}
	}
	catchUp(0)
	for i := range 5 {
		add(t, a, fmt.Sprintf("http://a.example/%d", i), html,
			fmt.Sprintf("<title>Page %d</title><h1>Apple pie</h1><p>word%d and more", i, i))
	}
	add(t, a, "http://a.example/robots.txt", "200 OK\r\nContent-Type: text/plain", "apple")
	add(t, a, "http://a.example/plain", "200 OK\r\nContent-Type: text/plain", "plain apple")
	add(t, a, "http://a.example/noindex", html, "<meta name=robots content=noindex>apple")
	add(t, a, "http://a.example/over", html,
		"<meta name=robots content='unavailable_after: 2020-02-02'>apple")
	add(t, a, "http://a.example/image", "200 OK\r\nContent-Type: image/png", "apple")
	add(t, a, "http://a.example/invalid", "nonsense", "apple")
	catchUp(6)
	catchUp(0)
	check("apple", "0", "1", "2", "3", "4", "plain")
	check(`"apple pie" word3`, "3")
	check(`"pie apple"`)

	add(t, a, "http://a.example/0", "404 Not Found\r\nContent-Type: text/html", "apple")
	add(t, a, "http://a.example/1", "301 Moved Permanently\r\nLocation: /", "")
	add(t, a, "http://a.example/2", html, "<meta name=robots content=noindex>apple")
	add(t, a, "http://a.example/3", html, "pears")
	add(t, a, "http://a.example/4", "503 Service Unavailable", "")
	add(t, a, "http://a.example/5", "404 Not Found", "")
	add(t, a, "http://a.example/5", html, "apple")
	add(t, a, "http://a.example/6", html, "apple")
	add(t, a, "http://a.example/6", "410 Gone", "")
	catchUp(3)
	check("apple", "4", "5", "plain")
	check("pears", "3")
}

// errKilled ends an indexer in a test as a crash does.
var errKilled = errors.New("killed")

// An index that is killed at any point, also while files of the archive end, catches up: it has
// every page once. Copies of its directory, taken at random times while it writes, are what a
// crash leaves.
func TestCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	a := archive(t, t.TempDir(), 64<<10)
	defer a.Close()
	dir := t.TempDir()
	x := open(t, dir)
	const pages = 600
	added := 0
	for added < pages {
		for range min(pages-added, 1+rng.IntN(90)) {
			words := make([]string, 60)
			for i := range words {
				words[i] = fmt.Sprintf("w%d", rng.IntN(1000))
			}
			add(t, a, fmt.Sprintf("http://a.example/%d", added), html,
				fmt.Sprintf("every page%d %s", added, strings.Join(words, " ")))
			added++
		}
		in := &Indexer{Index: x, Archive: &a.Reader, Logger: discard}
		left := rng.IntN(3)
		in.CheckSpace = func() error { // called before each batch
			if left--; left < 0 {
				return errKilled
			}
			return nil
		}
		copied := make(chan string, 1)
		go func() { copied <- snapshot(t, dir) }()
		if _, err := in.CatchUp(t.Context()); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		next := <-copied
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 && next != "" {
			dir = next
		}
		x = open(t, dir)
	}
	defer func() { x.Close() }()
	in := &Indexer{Index: x, Archive: &a.Reader, Logger: discard}
	if _, err := in.CatchUp(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if c, err := r.Count(index.Query{}); c.Pages != pages || err != nil {
		t.Errorf("%d pages, %v, want %d", c.Pages, err, pages)
	}
	for _, i := range []int{0, 1, pages / 2, pages - 1} {
		want := []string{fmt.Sprintf("http://a.example/%d", i)}
		if got := find(t, x, nil, fmt.Sprintf("every page%d", i)); !slices.Equal(got, want) {
			t.Errorf("page %d: found %q", i, got)
		}
	}
}

// snapshot copies an index that is being written, in the order in which it is read again: the
// root, which names the segments, and then these. It returns "" if a segment was removed
// meanwhile, which is a state that no crash leaves.
func snapshot(t *testing.T, dir string) string {
	to := t.TempDir()
	before, err := os.ReadFile(filepath.Join(dir, "root.bolt"))
	if err != nil {
		return ""
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.zap"))
	if err != nil {
		return ""
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return ""
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(f)), data, 0o600); err != nil {
			return ""
		}
	}
	after, err := os.ReadFile(filepath.Join(dir, "root.bolt"))
	if err != nil || string(before) != string(after) { // read while it was written
		return ""
	}
	if os.WriteFile(filepath.Join(to, "root.bolt"), before, 0o600) != nil {
		return ""
	}
	return to
}

// A damaged record of the archive costs at most its page.
func TestDamagedArchive(t *testing.T) {
	dir := t.TempDir()
	a := archive(t, dir, 4<<10)
	for i := range 60 {
		body := make([]byte, 300)
		for j := range body {
			body[j] = byte('a' + rand.IntN(26))
		}
		add(t, a, fmt.Sprintf("http://a.example/%d", i), html, "apple "+string(body))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	if len(files) < 3 {
		t.Fatalf("%d files, want several", len(files))
	}
	data, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0xff
	if err := os.WriteFile(files[1], data, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := warc.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, t.TempDir())
	defer x.Close()
	in := &Indexer{Index: x, Archive: r, Logger: discard}
	n, err := in.CatchUp(t.Context())
	if err != nil || n < 59 {
		t.Errorf("CatchUp() = %d, %v, want 59 pages or 60", n, err)
	}
	if again, err := in.CatchUp(t.Context()); again != 0 || err != nil {
		t.Errorf("second CatchUp() = %d, %v", again, err)
	}
	got := find(t, x, nil, "apple")
	if len(got) != n || !slices.Contains(got, "http://a.example/59") {
		t.Errorf("found %d pages, want %d and the last one", len(got), n)
	}
}

// A response of which the body has not the form that the header says, which another peer may have
// sent, is passed over.
func TestInvalidBody(t *testing.T) {
	a := archive(t, t.TempDir(), 0)
	defer a.Close()
	add(t, a, "http://a.example/1", html, "apple")
	add(t, a, "http://a.example/2", html+"\r\nTransfer-Encoding: chunked", "apple, no chunk\r\n")
	add(t, a, "http://a.example/3", html, "apple")
	x := open(t, t.TempDir())
	defer x.Close()
	in := &Indexer{Index: x, Archive: &a.Reader, Logger: discard}
	if n, err := in.CatchUp(t.Context()); n != 2 || err != nil {
		t.Errorf("CatchUp() = %d, %v, want 2 pages", n, err)
	}
	if got := find(t, x, nil, "apple"); len(got) != 2 {
		t.Errorf("found %q, want two pages", got)
	}
	// An error of the archive is one.
	broken := iotest.ErrReader(warc.ErrCorrupt)
	head := strings.NewReader("HTTP/1.1 " + html + "\r\n\r\n")
	for _, r := range []io.Reader{broken, io.MultiReader(head, broken)} {
		if _, err := ReadPage(r, "http://a.example/", "peerd"); !errors.Is(err, warc.ErrCorrupt) ||
			errors.Is(err, ErrNoPage) {
			t.Errorf("ReadPage() = %v, want %v", err, warc.ErrCorrupt)
		}
	}
}

// The index knows from when on a page asks not to be found.
func TestUnavailableAfter(t *testing.T) {
	for head, body := range map[string]string{
		html: "<meta name=robots content='unavailable_after: 2999-02-02'>apple",
		"200 OK\r\nContent-Type: text/plain\r\n" +
			"X-Robots-Tag: unavailable_after: 2999-02-02": "apple",
	} {
		p, err := ReadPage(strings.NewReader("HTTP/1.1 "+head+"\r\n\r\n"+body),
			"http://a.example/", "peerd")
		if err != nil {
			t.Fatal(err)
		}
		a := p.answer("http://a.example/", start, netip.Addr{}, store.Location{})
		want := time.Date(2999, 2, 2, 0, 0, 0, 0, time.UTC)
		if a.page == nil || !a.page.UnavailableAfter.Equal(want) {
			t.Errorf("%s: %+v, want a page until %v", head, a.page, want)
		}
	}
}

// A URL that is not UTF-8, in a copy of the archive of another peer, would make searches fail.
func TestInvalidURL(t *testing.T) {
	x := open(t, t.TempDir())
	defer x.Close()
	in := &Indexer{Index: x, Logger: discard}
	for _, u := range []string{"http://a.example/\xff", "http://a.example/1"} {
		rec := warc.Record{Type: "response", URL: u, Time: start,
			Block: strings.NewReader("HTTP/1.1 " + html + "\r\n\r\napple")}
		if err := in.add(rec, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.apply(nil); err != nil {
		t.Fatal(err)
	}
	if got := find(t, x, nil, "apple"); !slices.Equal(got, []string{"http://a.example/1"}) {
		t.Errorf("found %q, want the page with a valid URL", got)
	}
}

// A text of another page is not shown, if the archive was replaced.
func TestTexterChecksURL(t *testing.T) {
	a := archive(t, t.TempDir(), 0)
	defer a.Close()
	add(t, a, "http://a.example/", html, "apple")
	var at store.Location
	if err := a.Follow(t.Context(), map[string]int64{}, func(r warc.Record) error {
		if r.Type == "response" {
			at = store.Location{File: r.Location.File, Offset: r.Location.Offset}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	text := Texter(&a.Reader, "")
	if got, err := text(index.Meta{URL: "http://a.example/", Archive: at}); got != "apple" {
		t.Errorf("text %q, %v", got, err)
	}
	if got, err := text(index.Meta{URL: "http://b.example/", Archive: at}); err == nil {
		t.Errorf("text of another page: %q", got)
	}
}
