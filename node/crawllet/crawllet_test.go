package crawllet

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peerd/crawl/crawllet/record"
)

// Pages become files below the directory, whatever the site names them.
func TestDir(t *testing.T) {
	parent := t.TempDir()
	d, err := OpenDir(filepath.Join(parent, "to"))
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(parent, "outside.html")
	if err := os.Symlink(parent, filepath.Join(parent, "to", "link")); err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{
		"http://a.example/", "http://a.example/a.html", "http://a.example/b/c.html",
		"http://a.example/%2e%2e/outside.html", "http://a.example/link/outside.html",
		"http://a.example/-index.jsonl", "http://a.example/%00", "http://a.example/b",
		"http://a.example/" + strings.Repeat("x", 300),
	} {
		if err := d.Write(record.Record{URL: u, Status: 200, Body: []byte(u)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file outside was written: %v", err)
	}
	if d.Unnamed != 5 {
		t.Errorf("%d pages without a file, want 5", d.Unnamed)
	}
	for name, want := range map[string]string{
		"index.html": "http://a.example/", "a.html": "http://a.example/a.html",
		"b/c.html":     "http://a.example/b/c.html",
		"outside.html": "http://a.example/%2e%2e/outside.html",
	} {
		if b, err := os.ReadFile(filepath.Join(parent, "to", name)); string(b) != want {
			t.Errorf("%s = %q, %v, want %q", name, b, err, want)
		}
	}
	b, err := os.ReadFile(filepath.Join(parent, "to", indexName))
	if err != nil || bytes.Count(b, []byte("\n")) != 9 || bytes.Contains(b, []byte("body")) {
		t.Errorf("%s = %q, %v", indexName, b, err)
	}
}

func TestLines(t *testing.T) {
	var b strings.Builder
	if err := NewLines(&b).Write(record.Record{URL: "http://a.example/?a&b", Status: 200,
		Digest: []byte{0xab}, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	want := `{"url":"http://a.example/?a&b","status":200,"body":"eA==","digest":"ab"}` + "\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestPeerKeys(t *testing.T) {
	keys, err := peerKeys([]string{"12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"})
	if err != nil || len(keys) != 1 || len(keys[0]) != 32 {
		t.Errorf("peerKeys() = %x, %v", keys, err)
	}
	if keys, err := peerKeys(nil); keys != nil || err != nil {
		t.Errorf("none: %x, %v", keys, err)
	}
	for _, id := range []string{"", "x", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"} {
		if _, err := peerKeys([]string{id}); err == nil {
			t.Errorf("%q: no error", id)
		}
	}
}
