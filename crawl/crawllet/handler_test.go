//go:build linux

package crawllet

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newHandler(t *testing.T, change func(*Config)) *Handler {
	t.Helper()
	c := Config{Root: t.TempDir(), Prefix: "http://a.example/", Cache: t.TempDir()}
	if change != nil {
		change(&c)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// call returns the status of a request, and the reason in the answer.
func call(h http.Handler, method, path string, body []byte) (
	int, Reason, *httptest.ResponseRecorder,
) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
	f := parseFailure(w.Body.Bytes())
	if f == nil {
		f = new(Failure)
	}
	return w.Code, f.Reason, w
}

// Requests that are refused have a status and a named reason, and start nothing.
func TestRefused(t *testing.T) {
	listed, stranger := newKey(t), newKey(t)
	h := newHandler(t, func(c *Config) {
		c.Keys = []ed25519.PublicKey{listed.Public().(ed25519.PublicKey)}
		c.ModuleBytes = 100
	})
	h.program = "/nonexistent"
	sign := func(key ed25519.PrivateKey, now time.Time, change func(*Offer)) []byte {
		o := someOffer()
		if change != nil {
			change(&o)
		}
		b, err := o.sign(key, now)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	code := []byte("module")
	digest := sha256.Sum256(code)
	accepted := sign(listed, time.Now(), func(o *Offer) { o.Module = digest[:] })
	status, _, w := call(h, "POST", Path, accepted)
	g, err := parseGrant(w.Body.Bytes())
	if status != 200 || err != nil || g.Known || g.Limits.CPU != 3 {
		t.Fatalf("offer: %d, %+v, %v", status, g, err)
	}
	for _, tt := range []struct {
		name, method, path string
		body               []byte
		status             int
		reason             Reason
	}{
		{"method", "DELETE", Path, nil, 405, ""},
		{"path", "GET", Path + "/a/b", nil, 404, ""},
		{"no offer", "POST", Path, nil, 400, BadRequest},
		{"large offer", "POST", Path, make([]byte, maxOffer+1), 400, BadRequest},
		{"again", "POST", Path, accepted, 403, Replayed},
		{"stranger", "POST", Path, sign(stranger, time.Now(), nil), 403, NotAllowed},
		{"other site", "POST", Path, sign(listed, time.Now(), func(o *Offer) {
			o.Prefix = "http://b.example/"
		}), 403, NotAllowed},
		{"old", "POST", Path, sign(listed, time.Now().Add(-time.Hour), nil), 403, Expired},
		{"no ticket", "PUT", Path + "/X", code, 404, NoTicket},
		{"run without a ticket", "POST", Path + "/X", nil, 404, NoTicket},
		{"other module", "PUT", Path + "/" + g.Ticket, []byte("else"), 422, ModuleDigest},
		{"large module", "PUT", Path + "/" + g.Ticket, make([]byte, 101), 413, ModuleSize},
		{"run without the module", "POST", Path + "/" + g.Ticket, nil, 409, NoModule},
		{"no process", "PUT", Path + "/" + g.Ticket, code, 500, Internal},
	} {
		status, reason, _ := call(h, tt.method, tt.path, tt.body)
		if status != tt.status || reason != tt.reason {
			t.Errorf("%s: %d %q, want %d %q", tt.name, status, reason, tt.status, tt.reason)
		}
	}
	for range maxBodies {
		h.bodies <- struct{}{}
	}
	status, reason, _ := call(h, "PUT", Path+"/"+g.Ticket, code)
	if status != 503 || reason != Busy {
		t.Errorf("too many uploads: %d %q", status, reason)
	}
	if len(h.slots) != 0 {
		t.Error("a slot is still taken")
	}
	if e, err := os.ReadDir(h.config.Cache); err != nil || len(e) != 0 {
		t.Errorf("the cache has %d entries, %v", len(e), err)
	}
}

func TestConfig(t *testing.T) {
	writable := t.TempDir()
	if err := os.Chmod(writable, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no root":        func(c *Config) { c.Root = "" },
		"file":           func(c *Config) { c.Root = file },
		"missing root":   func(c *Config) { c.Root = file + "x" },
		"prefix":         func(c *Config) { c.Prefix = "http://a.example" },
		"relative":       func(c *Config) { c.Prefix = "/docs/" },
		"limits":         func(c *Config) { c.Limits.CPU = 1 },
		"scratch":        func(c *Config) { c.Limits = DefaultLimits; c.Limits.Scratch = 1 },
		"writable cache": func(c *Config) { c.Cache = writable },
		"negative":       func(c *Config) { c.Runs = -1 },
		"types":          func(c *Config) { c.Types = make([]string, maxTypes+1) },
	} {
		c := Config{Root: t.TempDir(), Prefix: "http://a.example/", Cache: t.TempDir()}
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: New() has no error", name)
		}
	}
}

// A robots.txt that cannot be read disallows everything; one that is missing, nothing.
func TestRobotsFile(t *testing.T) {
	h := newHandler(t, nil)
	if b := h.robots(); b != nil {
		t.Errorf("missing: %q", b)
	}
	if err := os.Mkdir(filepath.Join(h.config.Root, "robots.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if b := string(h.robots()); b != "User-agent: *\nDisallow: /\n" {
		t.Errorf("a directory: %q", b)
	}
	h = newHandler(t, func(c *Config) { c.Prefix = "http://a.example/docs/" })
	if h.config.Robots != "" {
		t.Errorf("below a path: %q is the robots.txt", h.config.Robots)
	}
}

// The modules that were used last are kept, and a failed one is not.
func TestModuleCache(t *testing.T) {
	m, err := openModules(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	add := func(i int) []byte {
		code := []byte{byte(i)}
		sum := sha256.Sum256(code)
		if err := m.add(sum[:], code, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return sum[:]
	}
	first := add(0)
	dir, ok := m.get(first)
	if !ok {
		t.Fatal("the module is not known")
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	for i := range maxModules {
		add(i + 1)
	}
	if _, ok := m.get(first); ok {
		t.Error("the oldest module was kept")
	}
	if e, err := os.ReadDir(m.dir); err != nil || len(e) != maxModules {
		t.Errorf("%d modules, %v, want %d", len(e), err, maxModules)
	}
	sum := sha256.Sum256([]byte("bad"))
	if err := m.add(sum[:], []byte("bad"), func(string) error { return BadModule }); !errors.Is(err,
		BadModule) {
		t.Errorf("add() = %v", err)
	}
	if _, ok := m.get(sum[:]); ok {
		t.Error("a module that does not compile was kept")
	}
}

// What a host has left that was killed is removed at the next start, but not while another host,
// which may be writing it, uses the modules.
func TestModulesOfKilledHost(t *testing.T) {
	dir := t.TempDir()
	module := filepath.Join(dir, strings.Repeat("0", 2*sha256.Size))
	compiled := filepath.Join(module, "wazero-v1-amd64-linux")
	whole := []string{modulePath(module), filepath.Join(compiled, "form")}
	part := []string{
		modulePath(filepath.Join(dir, prefixNew+"1")), filepath.Join(compiled, "form.1.tmp"),
	}
	exist := func(files []string) (n int) {
		for _, name := range files {
			if _, err := os.Stat(name); err == nil {
				n++
			}
		}
		return n
	}
	leave := func() {
		for _, name := range append(whole, part...) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700),
				os.WriteFile(name, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave()
	m, err := openModules(dir)
	if err != nil || exist(part) != 0 || exist(whole) != len(whole) {
		t.Fatalf("%v, %d files are left, and %d modules", err, exist(part), exist(whole))
	}
	leave()
	other, err := openModules(dir)
	if err != nil || exist(part) != len(part) {
		t.Fatalf("%v, %d files are left of a running host", err, exist(part))
	}
	m.lock.Close()
	other.lock.Close()
	if _, err := openModules(dir); err != nil || exist(part) != 0 {
		t.Fatalf("%v, %d files are left", err, exist(part))
	}
}
