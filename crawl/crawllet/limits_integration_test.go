//go:build integration

package crawllet

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/crawl/crawllet/record"
)

// built holds the modules that tests build, one for each package.
var built sync.Map

// build returns a package as a module.
func build(t testing.TB, pkg string) []byte {
	t.Helper()
	f, _ := built.LoadOrStore(pkg, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "crawllet-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "module.wasm")
		cmd := exec.Command("go", "build", "-p", "2", "-buildvcs=false", "-trimpath",
			"-ldflags=-s -w", "-o", file, pkg)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, errors.New(string(out))
		}
		return os.ReadFile(file)
	}))
	code, err := f.(func() ([]byte, error))()
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	return code
}

// world is a site with crawllets, and a client.
type world struct {
	root   string
	server *httptest.Server
	client *Client
	policy Policy
}

// newWorld returns a site with the files of a map.
func newWorld(t testing.TB, files map[string]string, change func(*Config)) *world {
	t.Helper()
	w := &world{root: filepath.Join(t.TempDir(), "site")}
	if err := os.Mkdir(w.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(w.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.server = httptest.NewUnstartedServer(nil)
	c := Config{
		Root: w.root, Prefix: "http://" + w.server.Listener.Addr().String() + "/", Cache: cache,
		Limits: Limits{CPU: 20, Memory: 64, Pages: 1000, Output: 1 << 20, Wall: 600},
	}
	if change != nil {
		change(&c)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.server.Config.Handler = h
	w.server.Start()
	t.Cleanup(w.server.Close)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.client = &Client{HTTP: NewHTTPClient(w.server.Client().Transport), Key: key, Agent: "test"}
	if w.policy, err = w.client.Discover(t.Context(), c.Prefix); err != nil {
		t.Fatal(err)
	}
	return w
}

// outcome is what a run has written, and how it ended.
type outcome struct {
	out string
	err error
	end *End
}

// run runs a module and reads its output, which need not be records.
func (w *world) run(t testing.TB, j Job) outcome {
	t.Helper()
	r, err := w.client.Run(t.Context(), w.policy, j)
	if err != nil {
		return outcome{err: err}
	}
	defer r.Close()
	out, err := io.ReadAll(r.zstd)
	if err == nil {
		err = r.failure(io.EOF)
	} else {
		err = r.failure(err)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return outcome{string(out), err, r.End()}
}

// Each limit is exceeded on purpose. The run ends with the name of the limit, and with what was
// written before.
func TestLimits(t *testing.T) {
	evil := build(t, "./testdata/evil")
	w := newWorld(t, map[string]string{"a.html": "a page"}, nil)
	for _, tt := range []struct {
		name   string
		args   []string
		limits Limits
		want   Reason
		output string // that begins with this
	}{
		{"memory", []string{"memory"}, Limits{Memory: 32}, MemoryLimit, ""},
		{"memory of the site", []string{"memory"}, Limits{Memory: 4000}, MemoryLimit, ""},
		{"cpu", []string{"cpu"}, Limits{CPU: 1}, CPULimit, "started\n"},
		// A busy machine may need all of the time until the module runs.
		{"deadline", []string{"cpu"}, Limits{Wall: 5}, Deadline, ""},
		{"sleep", []string{"sleep"}, Limits{CPU: 1}, CPULimit, "started\n"},
		{"output", []string{"flood"}, Limits{Output: 100_000}, OutputLimit, "0123456789abcdef"},
		{"output of the site", []string{"flood"}, Limits{Output: 1 << 30}, OutputLimit, "0123"},
		{"pages", []string{"many", "a.html"}, Limits{Pages: 7}, PageLimit, "got: 7\n"},
		{"exit", []string{"exit"}, Limits{}, Crashed, "partial\n"},
		{"panic", []string{"panic"}, Limits{}, Crashed, "partial\n"},
		{"messages", []string{"errors"}, Limits{}, "", "done\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			got := w.run(t, Job{Module: evil, Args: tt.args, Limits: tt.limits})
			t.Logf("%v after %v, %+v", got.err, time.Since(start).Round(time.Millisecond), got.end)
			if tt.want == "" && got.err != nil || tt.want != "" && !errors.Is(got.err, tt.want) {
				t.Errorf("error %v, want %v", got.err, tt.want)
			}
			if !strings.HasPrefix(got.out, tt.output) {
				t.Errorf("output %.100q, want %q at its beginning", got.out, tt.output)
			}
			if got.end == nil {
				t.Fatal("there is no last frame")
			}
			// Processor time is counted in whole seconds from the start of the process.
			if cpu := w.policy.Limits.grant(tt.limits).CPU; got.end.Usage.CPU > int64(cpu+2)*1000 {
				t.Errorf("%d ms of processor time, granted %d s", got.end.Usage.CPU, cpu)
			}
			if n := uint64(len(got.out)); n != got.end.Usage.Output ||
				n > w.policy.Limits.grant(tt.limits).Output {
				t.Errorf("%d bytes of output, %d reported", n, got.end.Usage.Output)
			}
		})
	}
}

// A crawllet reads what the site serves, and nothing else.
func TestContainment(t *testing.T) {
	evil := build(t, "./testdata/evil")
	secret := filepath.Join(t.TempDir(), "secret.html")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, map[string]string{
		"a.html": "a page", "sub/b.html": "b page", ".git/config.txt": "git", ".htaccess": "deny",
		"index.php": "password", "noextension": "key", "private/p.html": "private",
		"robots.txt": "User-agent: *\nDisallow: /private/\n",
	}, nil)
	for name, to := range map[string]string{
		"out.html": secret,
		"up.html":  "../../" + filepath.Base(filepath.Dir(secret)) + "/secret.html",
		"etc":      "/etc", "in.html": "a.html", "loop.html": "loop.html",
	} {
		if err := os.Symlink(to, filepath.Join(w.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ what, arg, want string }{
		{"read", "a.html", "got: a page"},
		{"read", "/sub/b.html", "got: b page"},
		{"read", "in.html", "got: a page"},
		{"read", "robots.txt", "got: User-agent"},
		{"stat", "sub", "got: true"},
		{"read", "out.html", "refused"},
		{"read", "up.html", "refused"},
		{"read", "loop.html", "refused"},
		{"read", "etc/passwd", "refused"},
		{"read", "/etc/passwd", "refused"},
		{"read", "../../../../../../../../etc/passwd", "refused"},
		{"read", "sub/../../../../../../etc/hostname", "refused"},
		{"read", "/proc/self/environ", "refused"},
		{"read", secret, "refused"},
		{"read", ".htaccess", "refused"},
		{"read", ".git/config.txt", "refused"},
		{"read", "index.php", "refused"},
		{"read", "noextension", "refused"},
		{"read", "private/p.html", "refused"},
		{"list", "/", "refused"},
		{"list", "sub", "refused"},
		{"create", "new.html", "refused"},
		{"create", "/tmp/new.html", "refused"},
		{"append", "a.html", "refused"},
		{"truncate", "a.html", "refused"},
		{"remove", "a.html", "refused"},
		{"mkdir", "new", "refused"},
		{"symlink", "new.html", "refused"},
		{"rename", "a.html", "refused"},
		{"dial", w.server.Listener.Addr().String(), "refused"},
		{"exec", "/bin/true", "refused"},
		{"environment", "", "0 [crawllet environment ]"},
		{"clock", "", "0 true\ntrue"}, //nolint:dupword // it is what the program prints
	} {
		t.Run(tt.what+" "+tt.arg, func(t *testing.T) {
			got := w.run(t, Job{Module: evil, Args: []string{tt.what, tt.arg}})
			if got.err != nil || !strings.HasPrefix(got.out, tt.want) {
				t.Errorf("%q, %v, want %q", got.out, got.err, tt.want)
			}
		})
	}
	entries, err := os.ReadDir(w.root)
	if err != nil || len(entries) != 13 {
		t.Errorf("the site has %d entries, %v, want 13", len(entries), err)
	}
	if b, err := os.ReadFile(filepath.Join(w.root, "a.html")); string(b) != "a page" {
		t.Errorf("a.html = %q, %v", b, err)
	}
}

// Modules that the host refuses, or that misuse its functions, are written by hand.
func TestModules(t *testing.T) {
	w := newWorld(t, nil, func(c *Config) { c.ModuleBytes = 10_000 })
	loop := []byte{0x03, 0x40, 0x0c, 0x00, 0x0b}
	call := func(args ...byte) []byte { // i32.const each, call 0, drop
		var b []byte
		for _, a := range args {
			b = append(b, 0x41, a)
		}
		return append(b, 0x10, 0x00, 0x1a)
	}
	const minus1 = 0x7f // in i32.const
	for _, tt := range []struct {
		name string
		code []byte
		want Reason
	}{
		{"nothing", nil, BadModule},
		{"text", []byte("<html>"), BadModule},
		{"cut off", wasm("", "", 0, 1, loop)[:20], BadModule},
		{"too large", bytes.Repeat([]byte{0}, 10_001), ModuleSize},
		{"empty", wasm("", "", 0, 1, nil), ""},
		{"loop", wasm("", "", 0, 1, loop), CPULimit},
		{"unreachable", wasm("", "", 0, 1, []byte{0x00}), Crashed},
		{"recursion", wasm("", "", 0, 1, []byte{0x10, 0x00}), Crashed},
		{"too much memory at the start", wasm("", "", 0, 2000, nil), MemoryLimit},
		{"foreign function", wasm("env", "system", 1, 1, nil), BadImport},
		{"socket", wasm(wasi, "sock_accept", 3, 1, nil), BadImport},
		{"unknown function", wasm(wasi, "sock_open", 3, 1, nil), BadImport},
		{"wrong parameters", wasm(wasi, "fd_close", 2, 1, nil), BadImport},
		{"later version", wasm("peerd_crawllet_2", digestName, 3, 1, nil), BadImport},
		{"unknown function of the host", wasm(own, "sha_256", 3, 1, nil), BadImport},
		{"digest with wrong parameters", wasm(own, digestName, 2, 1, nil), BadImport},
		{"digest", wasm(own, digestName, 3, 1, trapUnless(errnoSuccess, 0, 9, 32)), ""},
		{"digest of nothing", wasm(own, digestName, 3, 1, trapUnless(errnoSuccess, 0, 0, 0)), ""},
		{"digest without memory", wasm(own, digestName, 3, 0, trapUnless(errnoFault, 0, 1, 0)), ""},
		{"digest of memory outside", wasm(own, digestName, 3, 1,
			trapUnless(errnoFault, -1, 9, 0)), ""},
		{"digest beyond the memory", wasm(own, digestName, 3, 1,
			trapUnless(errnoFault, 1, 1<<16, 0)), ""},
		{"digest of too much", wasm(own, digestName, 3, 200,
			trapUnless(errnoInvalid, 0, record.MaxBody+1, 0)), ""},
		{"digest of negative size", wasm(own, digestName, 3, 1,
			trapUnless(errnoInvalid, 0, -1, 0)), ""},
		{"digest to outside", wasm(own, digestName, 3, 1,
			trapUnless(errnoFault, 0, 9, 1<<16-31)), ""},
		{"digests without end", wasm(own, digestName, 3, 200, append(append([]byte{0x03, 0x40},
			trapUnless(errnoSuccess, 0, record.MaxBody, 0)...), 0x0c, 0x00, 0x0b)), CPULimit},
		{"random bytes outside", wasm(wasi, "random_get", 2, 1, call(minus1, minus1)), ""},
		{"random bytes, then a loop", wasm(wasi, "random_get", 2, 1, append(call(0, 9), loop...)),
			CPULimit},
		{"write from outside", wasm(wasi, "fd_write", 4, 1, call(1, minus1, minus1, minus1)), ""},
		{"write to the site", wasm(wasi, "fd_write", 4, 1, call(3, 0, 0, 0)), ""},
		{"close output", wasm(wasi, "fd_close", 1, 1, append(call(1), loop...)), CPULimit},
		{"read of an unknown file", wasm(wasi, "fd_read", 4, 1, call(9, 0, 1, 0)), ""},
		{"poll of nothing", wasm(wasi, "poll_oneoff", 4, 1, call(0, 0, 0, 0)), ""},
		{"poll of too many", wasm(wasi, "poll_oneoff", 4, 1, call(0, 0, minus1, 0)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.run(t, Job{Module: tt.code, Limits: Limits{CPU: 1}})
			t.Logf("%v", got.err)
			if tt.want == "" && got.err != nil || tt.want != "" && !errors.Is(got.err, tt.want) {
				t.Errorf("error %v, want %q", got.err, tt.want)
			}
		})
	}
}

// trapUnless returns code that calls the imported function with args, and traps unless it returns
// want.
func trapUnless(want int32, args ...int32) (b []byte) {
	number := func(v int32) { // i32.const
		b = append(b, 0x41)
		for ; v < -64 || v > 63; v >>= 7 {
			b = append(b, byte(v)|0x80)
		}
		b = append(b, byte(v)&0x7f)
	}
	for _, a := range args {
		number(a)
	}
	b = append(b, 0x10, 0x00)
	number(want)
	return append(b, 0x47, 0x04, 0x40, 0x00, 0x0b) // i32.ne, if unreachable
}

// wasm returns a module with one imported function, if module is not "", of n parameters of type
// i32 and a result, a memory of some pages, and a function _start.
func wasm(module, name string, n, pages int, body []byte) []byte {
	leb := func(v int) (b []byte) {
		for ; v >= 0x80; v >>= 7 {
			b = append(b, byte(v)|0x80)
		}
		return append(b, byte(v))
	}
	vec := func(b []byte) []byte { return append(leb(len(b)), b...) }
	section := func(id byte, parts ...[]byte) []byte {
		return append([]byte{id}, vec(bytes.Join(parts, nil))...)
	}
	start := byte(0)
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = append(out, section(1, []byte{2, 0x60, 0, 0, 0x60}, vec(bytes.Repeat([]byte{0x7f}, n)),
		[]byte{1, 0x7f})...)
	if module != "" {
		out = append(out, section(2, []byte{1}, vec([]byte(module)), vec([]byte(name)),
			[]byte{0, 1})...)
		start = 1
	}
	out = append(out, section(3, []byte{1, 0})...)
	out = append(out, section(5, []byte{1, 0}, leb(pages))...)
	out = append(out, section(7, []byte{2}, vec([]byte("_start")), []byte{0, start},
		vec([]byte("memory")), []byte{2, 0})...)
	code := append(append([]byte{0}, body...), 0x0b)
	return append(out, section(10, []byte{1}, vec(code))...)
}
