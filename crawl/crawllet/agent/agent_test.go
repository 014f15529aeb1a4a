package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"peerd/crawl/crawllet/record"
)

func TestParse(t *testing.T) {
	const u = "http://a.example/d/p.html"
	for _, tt := range []struct {
		html  string
		title string
		text  string
		links []string
	}{
		{"", "", "", nil},
		{"<title> a  b </title>c<p>d", "a b", "c d", nil},
		{"<a href=x.html>x</a><a href='x.html#y'>z", "", "x z",
			[]string{"http://a.example/d/x.html"}},
		{"<a href=//b.example>x", "", "x", []string{"http://b.example/"}},
		{"<base href=/e/><a href=x><area href=y><iframe src=z>", "", "",
			[]string{"http://a.example/e/x", "http://a.example/e/y", "http://a.example/e/z"}},
		{"<a href=mailto:x@y><a href=javascript:x><a href='http://u:p@b.example/'><a href=':'>", "",
			"", nil},
		{"<script>s</script><style>t</style><nav>n<a href=x></nav>v", "", "v",
			[]string{"http://a.example/d/x"}},
		{"<a href=p.html>self</a>", "", "self", nil},
		{"a\xffb", "", "a\uFFFDb", nil},
		{"<a href=?q=\xe9>", "", "", nil},
		{"<!-- c --><a title=x href=?q=1>", "", "", []string{"http://a.example/d/p.html?q=1"}},
	} {
		p := parse(u, []byte(tt.html))
		if p.title != tt.title || p.text != tt.text || !slices.Equal(p.links, tt.links) {
			t.Errorf("%q: title %q, text %q, links %q", tt.html, p.title, p.text, p.links)
		}
	}
	long := parse(u, []byte("<title>"+strings.Repeat("x ", 9000)+"</title>"+
		strings.Repeat("word ", 9000)))
	if len(long.title) > record.MaxText || len(long.text) > maxSummary || len(long.text) < 300 {
		t.Errorf("title of %d bytes, text of %d", len(long.title), len(long.text))
	}
}

// parse reads one page.
func parse(u string, body []byte) page {
	r := reader{withText: true}
	return r.parse(u, body)
}

func TestNewSite(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"http://a.example/": true, "https://a.example:8443/docs/": true, "http://a.example": false,
		"http://a.example/docs": false, "ftp://a.example/": false, "": false, "/": false,
		"http://a.example/?q=/": false,
	} {
		if _, err := newSite(prefix, "/"); (err == nil) != ok {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// crawlDir runs the agent on a directory.
func crawlDir(t *testing.T, files map[string]string, input string, args ...string) []record.Record {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	args = append([]string{"-prefix", "http://a.example/d/", "-root", dir}, args...)
	if err := run(args, strings.NewReader(input), &out); err != nil {
		t.Fatal(err)
	}
	var all []record.Record
	r := record.NewReader(&out)
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
}

func TestRun(t *testing.T) {
	files := map[string]string{
		"index.html": `<a href=b%20c.html><a href=sub><a href=../out>` +
			`<a href=../../d/../../etc/passwd><a href=none.html><a href=%2e%2e/x><a href=t.txt>`,
		"b c.html": "<title>B</title>text", "sub/index.html": "sub", "t.txt": "<a href=no.html>",
	}
	got := crawlDir(t, files,
		"http://a.example/d/\nhttp://b.example/\n\nhttp://a.example/d/t.txt\n")
	want := map[string]int{
		"http://a.example/d/": 200, "http://a.example/d/b%20c.html": 200,
		"http://a.example/d/sub": 301, "http://a.example/d/sub/": 200,
		"http://a.example/d/none.html": 404,
	}
	status := map[string]int{}
	for _, r := range got {
		status[r.URL] = r.Status
	}
	delete(status, "http://a.example/d/%2e%2e/x") // how it is resolved does not matter
	if !reflect.DeepEqual(status, want) {
		t.Errorf("got %v, want %v", status, want)
	}
	long := "http://a.example/d/" + strings.Repeat("x", record.MaxURL)
	for _, u := range []string{long[:record.MaxURL-1], long[:record.MaxURL], "\xff"} {
		if n := len(crawlDir(t, files, u+"\n"+"http://a.example/d/t.txt\n")); n != 1 {
			t.Errorf("%d records with a seed of %d bytes, want that of the other seed", n, len(u))
		}
	}
	if n := len(crawlDir(t, files, "http://a.example/d/\n", "-pages", "2")); n != 2 {
		t.Errorf("%d records with -pages 2", n)
	}
	for _, r := range crawlDir(t, files, "http://a.example/d/b%20c.html\n", "-summaries") {
		if r.Body != nil || r.Title != "B" || r.Text != "text" || len(r.Digest) != 32 {
			t.Errorf("summary %+v", r)
		}
	}
}

func TestRunFails(t *testing.T) {
	for _, args := range [][]string{{}, {"-prefix", "x"}, {"-frob"}} {
		if err := run(args, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	long := strings.NewReader(strings.Repeat("a", record.MaxURL+10))
	if err := run([]string{"-prefix", "http://a.example/"}, long, io.Discard); err == nil {
		t.Error("a line that is too long: no error")
	}
}

// FuzzParse reads pages. All that a page contributes fits in a record.
func FuzzParse(f *testing.F) {
	f.Add([]byte("<title>\xff</title><a href=?q=\xe9>\xe9<a href=//\xe9/>"))
	f.Add([]byte("<title>t</title><a href=x>text</a><base href=//b/>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := parse("http://a.example/", b)
		r := record.Record{URL: "http://a.example/", Status: 200, Title: p.title, Text: p.text,
			Links: p.links}
		var out bytes.Buffer
		if err := record.Write(&out, &r); err != nil {
			t.Fatal(err)
		}
		got, err := record.NewReader(&out).Read()
		if err != nil || !slices.Equal(got.Links, r.Links) {
			t.Errorf("read %+v, %v, want %+v", got, err, r)
		}
	})
}
