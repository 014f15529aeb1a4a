//go:build integration

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/cmd/internal/cli"
)

// serveCounter serves an endless site: each page links to the next two.
func serveCounter(t *testing.T) *httptest.Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.110.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if r.URL.Path != "/" {
			if _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &n); err != nil {
				http.NotFound(w, r)
				return
			}
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w,
			`<title>page %d</title><a href="/page/%d">next</a><a href="/page/%d">after</a>`, n, n+1,
			n+2)
	}))
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestEndlessSites(t *testing.T) {
	t.Parallel()
	site := serveCounter(t)
	profile := filepath.Join(t.TempDir(), "traps.toml")
	rules := "name = 'x'\n[scope]\nmode = 'any'\n[traps]\nlimits = { yield = 40 }\n"
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	crawl := func(args ...string) (r crawlReport, text string) {
		t.Helper()
		args = append([]string{"crawl", site.URL + "/", "--allow-net", "127.110.0.0/16",
			"--min-delay", "1ms"}, args...)
		if err := json.Unmarshal([]byte(peerd(t, append(args, "--json")...)), &r); err != nil {
			t.Fatal(err)
		}
		return r, peerd(t, args...)
	}
	says := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !regexp.MustCompile(`(?m)^` + w + `$`).MatchString(text) {
				t.Errorf("want a line %q in\n%s", w, text)
			}
		}
	}

	r, text := crawl("--profile", profile)
	if r.Pages < 40 || r.Pages > 80 || r.End != "done" || r.Left != 0 || r.Dropped == 0 ||
		r.DroppedBy["yield"] != r.Dropped {
		t.Errorf("crawl with the limits of a profile = %+v", r)
	}
	says(text, `pages +\d\d`, `dropped +\d+ URLs`, `  yield +\d+`, `answered +\d\d URLs`,
		`  ok +\d\d`, `end +nothing is left`)

	r, text = crawl("--max-pages", "15")
	if r.Pages != 15 || r.End != "max_pages" || r.Left == 0 || r.Dropped != 0 ||
		len(r.DroppedBy) != 0 {
		t.Errorf("crawl with --max-pages = %+v", r)
	}
	says(text, `pages +15`, `end +reached --max-pages`, `left +\d+ URLs`)
	if strings.Contains(text, "dropped") {
		t.Errorf("the summary has no dropped URLs:\n%s", text)
	}
}

// A crawl without free space says why it ended, and prints a summary.
func TestCrawlWithoutSpace(t *testing.T) {
	t.Parallel()
	site := serveCounter(t)
	home := filepath.Join(t.TempDir(), "home")
	peerd(t, "init", "--home", home)
	if err := os.WriteFile(filepath.Join(home, "config.toml"),
		[]byte("[crawl]\nmin_free = '1000000TiB'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := tryPeerd(t, "crawl", site.URL+"/", "--home", home, "--allow-net",
		"127.110.0.0/16")
	if code != cli.ExitFailed || !strings.Contains(stdout, "no free space") ||
		!strings.Contains(stderr, "(crawl.min_free)") {
		t.Errorf("status %d, stdout %s\nstderr %s", code, stdout, stderr)
	}
	if lines := strings.Split(strings.TrimSpace(stderr), "\n"); !strings.HasPrefix(
		lines[len(lines)-1], "peerd: crawl: no space: ") {
		t.Errorf("stderr = %q", lines)
	}
}

// A peer without free space waits, logs that once, and stops on request.
func TestPeerWithoutSpace(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0", "--log-level", "info")
	if err := os.WriteFile(filepath.Join(d.home, "config.toml"),
		[]byte("[crawl]\nmin_free = '1000000TiB'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.run()
	eventually(t, 10*time.Second, "the peer logs why it fetches nothing", func() (bool, any) {
		return strings.Contains(d.stderrText(), "(crawl.min_free)"), d.stderrText()
	})
	if s := d.status(); len(s.Blocked) != 1 || !strings.Contains(s.Blocked[0], "(crawl.min_free)") {
		t.Errorf("blocked = %q", s.Blocked)
	}
	if text := peerd(t, "status", "--home", d.home); !strings.Contains(text, "\nblocked ") {
		t.Errorf("status = %s, want a line \"blocked\"", text)
	}
	if code := d.terminate(10 * time.Second); code != cli.ExitOK {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
	if n := strings.Count(d.stderrText(), "(crawl.min_free)"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// A response that does not fit into the archive is fetched once.
func TestCrawlWithFullArchive(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 700_000)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	noise = bytes.ReplaceAll(noise, []byte("<"), []byte(" "))
	var asked atomic.Int64
	ln, err := net.Listen("tcp", "127.112.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `<a href="1">1</a><a href="2">2</a><a href="3">3</a>`)
		case "/1", "/2", "/3":
			if asked.Add(1) > 20 {
				panic(http.ErrAbortHandler)
			}
			w.Write(noise)
		default:
			http.NotFound(w, r)
		}
	}))
	site.Listener.Close()
	site.Listener = ln
	site.Start()
	defer site.Close()
	home := filepath.Join(t.TempDir(), "home")
	peerd(t, "init", "--home", home)
	if err := os.WriteFile(filepath.Join(home, "config.toml"),
		[]byte("[archive]\nenabled = true\nquota = '1MB'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"crawl", site.URL + "/", "--home", home, "--allow-net", "127.112.0.0/16",
		"--min-delay", "1ms"}
	stdout, stderr, code := tryPeerd(t, args...)
	if code != cli.ExitFailed || !strings.Contains(stdout, "no free space") ||
		!strings.Contains(stderr, "(archive.quota)") {
		t.Errorf("status %d, stdout %s\nstderr %s", code, stdout, stderr)
	}
	// One page fits and one is cut. Another may be requested before the space is measured again.
	full := asked.Load()
	if full < 2 || full > 3 {
		t.Errorf("sent %d requests for pages of which one fits", full)
	}
	// warcinfo, and two pages of three records
	if n := len(readWARC(t, []byte(peerd(t, "export", "warc", "--home", home)))); n < 7 {
		t.Errorf("archived %d records", n)
	}
	// With more space it continues.
	if err := os.WriteFile(filepath.Join(home, "config.toml"),
		[]byte("[archive]\nenabled = true\nquota = '100MB'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	peerd(t, args...)
	if n := asked.Load(); n != full+1 {
		t.Errorf("sent %d requests after there was space, want 1", n-full)
	}
}
