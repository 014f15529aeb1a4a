package crawllet

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"peerd/crawl/robots"
	_ "peerd/internal/rapidtest"
)

// newSite returns the file system of a site with files, each with its name as its content.
func newSite(t testing.TB, rules string, names ...string) *siteFS {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	for _, n := range names {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, n)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &siteFS{
		root: root, prefix: "http://a.example/", agent: "test/1.0", types: DefaultTypes, limit: 100,
		rules: robots.Result{Status: 200, Body: []byte(rules)}.Compile(),
	}
}

func TestSiteFiles(t *testing.T) {
	s := newSite(t, "User-agent: test\nDisallow: /no/\nDisallow: /old.html$\nDisallow: /x%20y\n",
		"a.html", "A.HTM", "sub/index.html", "no/index.html", "no/b.html", "old.html", "older.html",
		"x y.html", ".well-known/a.html", "sub/.a.html", "a.php", "a.html.bak", "key", "d.html/b")
	if err := syscall.Mkfifo(filepath.Join(s.root.Name(), "fifo.html"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		want error // nil for a file that can be read
	}{
		{"A.HTM", nil}, {"sub/index.html", nil}, {"older.html", nil},
		{"no/index.html", fs.ErrPermission}, {"no/b.html", fs.ErrPermission},
		{"old.html", fs.ErrPermission}, {"x y.html", fs.ErrPermission},
		{".well-known/a.html", fs.ErrPermission}, {"sub/.a.html", fs.ErrPermission},
		{".none", fs.ErrPermission}, {"a.php", fs.ErrPermission},
		{"a.html.bak", fs.ErrPermission}, {"key", fs.ErrPermission},
		{"none.php", fs.ErrPermission}, {"none", fs.ErrPermission},
		{"no/none.html", fs.ErrPermission}, {"key/x.html", fs.ErrNotExist},
		{"fifo.html", fs.ErrPermission}, {"none.html", fs.ErrNotExist},
		{"../a.html", fs.ErrPermission}, {"/a.html", fs.ErrPermission}, {"", fs.ErrPermission},
	} {
		b, err := fs.ReadFile(s, tt.name)
		if !errors.Is(err, tt.want) || tt.want == nil && string(b) != tt.name {
			t.Errorf("%q: %q, %v, want %v", tt.name, b, err, tt.want)
		}
	}
	for _, dir := range []string{".", "sub", "d.html"} {
		if i, err := fs.Stat(s, dir); err != nil || !i.IsDir() {
			t.Errorf("%q is not a directory: %v", dir, err)
		}
		if e, err := fs.ReadDir(s, dir); !errors.Is(err, fs.ErrPermission) || len(e) > 0 {
			t.Errorf("listed %q: %d entries, %v", dir, len(e), err)
		}
	}
}

// Pages are counted when they are read, and none is read beyond the limit.
func TestPageLimit(t *testing.T) {
	s := newSite(t, "", "a.html")
	s.limit = 3
	for i := range 10 {
		if _, err := fs.Stat(s, "a.html"); err != nil {
			t.Fatal(err)
		}
		b, err := fs.ReadFile(s, "a.html")
		if (err == nil) != (i < 3) || err != nil && len(b) > 0 {
			t.Errorf("read %d: %q, %v", i, b, err)
		}
	}
	if s.read.Load() != 3 || !s.exceeded.Load() {
		t.Errorf("%d pages were read, exceeded: %v", s.read.Load(), s.exceeded.Load())
	}
}

// Whatever the name is, nothing outside the root is read.
func TestEscapes(t *testing.T) {
	s := newSite(t, "", "a.html", "sub/b.html")
	outside := filepath.Join(filepath.Dir(s.root.Name()), "secret.html")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"l.html": outside, "sub/l": "../..", "m.html": "../secret.html", "up": "..",
	} {
		if err := os.Symlink(to, filepath.Join(s.root.Name(), name)); err != nil {
			t.Fatal(err)
		}
	}
	s.limit = 1 << 30
	parts := []string{"..", ".", "", "sub", "up", "l", "l.html", "m.html", "secret.html", "a.html",
		"site", "\x00", "...", "..\\", "%2e%2e", strings.TrimPrefix(outside, "/")}
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 6).Draw(t, "parts"), "/")
		f, err := s.Open(name)
		if err != nil {
			return
		}
		defer f.Close()
		if b, err := io.ReadAll(f); err == nil && strings.Contains(string(b), "secret") {
			t.Fatalf("%q is outside the root", name)
		}
	})
}

// The memory grows to its limit, and does not move.
func TestMemory(t *testing.T) {
	m := &memory{limit: 5 << 16}
	l := m.Allocate(1<<16, 1<<32)
	first := l.Reallocate(1 << 16)
	first[0] = 7
	last := l.Reallocate(5 << 16)
	if len(last) != 5<<16 || last[0] != 7 || &first[0] != &last[0] || m.exceeded {
		t.Errorf("%d bytes, exceeded %v", len(last), m.exceeded)
	}
	if l.Reallocate(5<<16+1) != nil || !m.exceeded || m.peak != 5<<16 {
		t.Errorf("more than the limit, peak %d", m.peak)
	}
	if m.Allocate(1, 1<<16).Reallocate(1<<16) != nil {
		t.Error("a second memory was allocated")
	}
}

// The clock never goes back, and sleeping sets it forward without waiting.
func TestClock(t *testing.T) {
	var c clock
	a := c.now()
	c.sleep(1e18)
	c.sleep(-5)
	if b := c.now(); b != a+1e18+clockStep {
		t.Errorf("%d after %d", b, a)
	}
}
