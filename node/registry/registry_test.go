package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// delegated returns a file of n /24s of a registry, starting at 10.block.
func delegated(registry string, block, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "2|%s|1|%d||20260928|+0000\n", registry, n)
	for i := range n {
		fmt.Fprintf(&b, "%s|NL|ipv4|10.%d.%d.0|256|20100101|allocated|h%d\n", registry, block, i,
			i%3)
	}
	return b.String()
}

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.Bytes()
}

// server is the server of a registry.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	body   []byte
	etag   string
	date   string
	status int
	asked  []http.Header
}

func newServer(t *testing.T) *server {
	s := &server{status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.Header.Clone())
		if s.etag != "" {
			w.Header().Set("ETag", s.etag)
		}
		if s.date != "" {
			w.Header().Set("Last-Modified", s.date)
		}
		if s.etag != "" && r.Header.Get("If-None-Match") == s.etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.WriteHeader(s.status)
		_, _ = w.Write(s.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func load(t *testing.T, dir string, o Options, sources ...string) []Result {
	t.Helper()
	results, err := Load(t.Context(), dir, o, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestLoadURL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "registry")
	s := newServer(t)
	s.body, s.etag, s.date = zipped(delegated("ripencc", 1, 100)), `"1"`,
		"Mon, 28 Sep 2026 22:12:00 GMT"
	o := DefaultOptions()
	o.UserAgent = "peerd/test"
	at := time.Date(2026, 9, 29, 1, 2, 3, 4, time.UTC)
	o.Now = func() time.Time { return at }
	url := s.URL + "/delegated-ripencc-extended-latest.gz"

	r := load(t, dir, o, url)[0]
	if r.Err != nil || r.NotModified || r.Info.Registry != "ripencc" || r.Info.IPv4 != 100 ||
		r.Info.ETag != `"1"` || r.Info.Modified != s.date ||
		!r.Info.Loaded.Equal(at.Truncate(time.Second)) || r.Info.Day != "20260928" ||
		r.Info.Source != url {
		t.Fatalf("first Load() = %+v", r)
	}
	if r := load(t, dir, o, url)[0]; r.Err != nil || !r.NotModified || r.Info.IPv4 != 100 {
		t.Fatalf("second Load() = %+v, want NotModified", r)
	}
	if h := s.asked[1]; h.Get("If-None-Match") != `"1"` || h.Get("If-Modified-Since") != s.date ||
		h.Get("User-Agent") != "peerd/test" {
		t.Errorf("header of the second request: %v", h)
	}
	// A damaged file is fetched again even if the server has nothing newer.
	name := path(dir, "ripencc")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-9] ^= 1
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir); !errors.Is(err, ErrStored) {
		t.Errorf("Open() of a damaged file: %v, want ErrStored", err)
	}
	if r := load(t, dir, o, url)[0]; r.Err != nil || r.NotModified {
		t.Fatalf("Load() over a damaged file = %+v", r)
	}
	s.body, s.etag = []byte(delegated("ripencc", 1, 94)), `"2"`
	if r := load(t, dir, o, url)[0]; !errors.Is(r.Err, ErrShrunk) {
		t.Fatalf("Load() of 94 of 100 records = %+v, want ErrShrunk", r)
	}
	table, infos, err := Open(dir)
	if err != nil || len(infos) != 1 || infos[0].IPv4 != 100 || table.Len() != 101 {
		t.Fatalf("Open() = %+v, %v", infos, err)
	}
	o.Force = true
	if r := load(t, dir, o, url)[0]; r.Err != nil || r.Info.IPv4 != 94 {
		t.Fatalf("Load() with Force = %+v", r)
	}
	o.Force = false
	s.body, s.etag = []byte(delegated("ripencc", 1, 90)), `"3"`
	if r := load(t, dir, o, url)[0]; r.Err != nil || r.Info.IPv4 != 90 {
		t.Fatalf("Load() of 90 of 94 records = %+v", r)
	}
}

func TestLoadFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "registry")
	s := newServer(t)
	file := func(name string, data []byte) string {
		p := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(p, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	whole := delegated("arin", 2, 50)
	broken := zipped(whole)
	broken[len(broken)-6] ^= 1
	bomb := zipped(strings.Repeat("#\n", 2<<20))
	s.status, s.body = http.StatusNotFound, []byte("no")
	o := DefaultOptions()
	o.MaxBytes, o.Limits.Bytes = 100_000, 1<<20
	for _, c := range []struct{ source, want string }{
		{s.URL, "the server answered 404 Not Found"},
		{"http://127.0.0.1:1/x", "connection refused"},
		{"https:///x", "want a file, or a URL"},
		{"ftp://a.example/x", "want a file, or a URL"},
		{t.TempDir(), "is a directory"},
		{filepath.Join(t.TempDir(), "none"), "no such file"},
		{file("half.gz", zipped(whole)[:40]), "EOF"},
		{file("broken.gz", broken), "gzip"},
		{file("head.gz", []byte("\x1f\x8bxxxxxxxxxx")), "invalid gzip"},
		{file("bomb.gz", bomb), "longer than 1048576 bytes"},
		{file("large", bytes.Repeat([]byte("#\n"), 60_000)), "more than 100000 bytes"},
		{file("cut", []byte(whole[:len(whole)/2])), "it is truncated"},
		{file("empty", nil), "it has no record"},
		{file("binary", []byte("\x00\x01\x02")), "it has no record"},
	} {
		good := file("good", []byte(whole))
		r := load(t, dir, o, c.source, good)
		if r[0].Err == nil || !strings.Contains(r[0].Err.Error(), c.want) {
			t.Errorf("Load(%s): %v, want %q", c.source, r[0].Err, c.want)
		}
		if r[0].Err != nil && strings.Contains(r[0].Err.Error(), "\n") {
			t.Errorf("Load(%s): error is not one line: %v", c.source, r[0].Err)
		}
		if r[1].Err != nil {
			t.Errorf("Load(%s) affects the next file: %v", c.source, r[1].Err)
		}
	}
	s.status, s.body = http.StatusOK, bytes.Repeat([]byte("#\n"), 60_000)
	if r := load(t, dir, o, s.URL)[0]; r.Err == nil || !strings.Contains(r.Err.Error(),
		"want at most 100000") && !strings.Contains(r.Err.Error(), "more than 100000 bytes") {
		t.Errorf("Load() of a large response: %v, want an error", r.Err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("files in the folder: %v, want one", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ctx, dir, o, s.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("Load() with an ended context: %v", err)
	}
}

func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*c")
	if _, _, err := Open(dir); !errors.Is(err, ErrNone) {
		t.Errorf("Open() of a missing folder: %v, want ErrNone", err)
	}
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for name, text := range map[string]string{a: delegated("arin", 1, 10),
		b: delegated("apnic", 2, 20)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range load(t, dir, DefaultOptions(), a, b) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	table, infos, err := Open(dir)
	if err != nil || len(infos) != 2 || infos[0].Registry != "apnic" || table.Len() != 31 {
		t.Fatalf("Open() = %d entries, %+v, %v", table.Len(), infos, err)
	}
	if e, ok := table.Lookup(netip.MustParseAddr("10.2.4.9")); !ok || e.Holder != "apnic:h1" ||
		e.Country != "NL" {
		t.Errorf("Lookup() = %v, %v", e, ok)
	}
	got := BlocksContaining(table, netip.MustParseAddr("10.2.4.9"))
	if len(got) != 2 || got[0].Prefix != "10.2.4.0/24" || got[1].Prefix != "10.0.0.0/8" ||
		got[1].Registry != "apnic" {
		t.Errorf("BlocksContaining() = %v", got)
	}
	// A damaged file does not affect the others.
	if err := os.WriteFile(path(dir, "arin"), []byte(storedMagic), 0o600); err != nil {
		t.Fatal(err)
	}
	table, infos, err = Open(dir)
	if !errors.Is(err, ErrStored) || len(infos) != 1 || table.Len() != 21 {
		t.Errorf("Open() with a damaged file = %+v, %v, want the other file", infos, err)
	}
}

// A stored file with changed bytes is refused or reads the same.
func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	name := filepath.Join(dir, "in")
	if err := os.WriteFile(name, []byte(delegated("arin", 1, 5)), 0o600); err != nil {
		f.Fatal(err)
	}
	if _, err := Load(f.Context(), dir, DefaultOptions(), name); err != nil {
		f.Fatal(err)
	}
	stored, err := os.ReadFile(path(dir, "arin"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stored)
	f.Add(stored[:40])
	f.Add([]byte(storedMagic + "\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := path(t.TempDir(), "arin")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(name); err != nil && !errors.Is(err, ErrStored) {
			t.Fatal(err)
		}
	})
}
