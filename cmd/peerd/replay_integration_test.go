//go:build integration

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// replaySite serves three pages, of which the first has a script, and links to the others.
func replaySite(t *testing.T, addr string) *httptest.Server {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{
		"/": "<html><head><title>caf\xe9</title><script>alert(1)</script></head>" +
			"<body><a href=a>first</a><a href=/b?x=1&amp;y=2>second</a></body></html>",
		"/a":         "<html><body>page a</body></html>",
		"/b?x=1&y=2": "<html><body>page b</body></html>",
	}
	site := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			body, ok := pages[r.URL.RequestURI()]
			if !ok {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			w.Header().Set("Set-Cookie", "a=b")
			_, _ = io.WriteString(w, body) // the crawler may have gone
		}))
	site.Listener.Close()
	site.Listener = ln
	site.Start()
	t.Cleanup(site.Close)
	return site
}

// fetched requests a URL, follows redirects, and returns the last answer.
func fetched(t *testing.T, url string) (header http.Header, status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header, resp.StatusCode, string(text)
}

// filesIn lists the files below a directory with their sizes.
func filesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			all = append(all, fmt.Sprint(path, " ", info.Size()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReplay crawls a site, shows it after the site has gone, and stops.
func TestReplay(t *testing.T) {
	t.Parallel()
	site := replaySite(t, "127.113.0.1:0")
	home := filepath.Join(t.TempDir(), "home")
	peerd(t, "crawl", site.URL+"/", "--home", home, "--warc", "--allow-net", "127.113.0.0/16",
		"--min-delay", "5ms")
	site.Close()
	before := filesIn(t, home)

	stdout, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	p := startTo(t, stdout, "replay", "--home", home)
	var base string
	eventually(t, time.Minute, "the address is printed", func() (bool, any) {
		text, err := os.ReadFile(stdout.Name())
		line, _, ok := strings.Cut(string(text), "\n")
		base = line
		return ok || !p.running(), err
	})
	if !strings.HasPrefix(base, "http://127.0.0.1:") || !strings.HasSuffix(base, "/") {
		t.Fatalf("printed %q", base)
	}
	checkReplay(t, base, site.URL)

	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(time.Minute); code != 0 {
		t.Errorf("status %d after SIGINT\n%s", code, p.stderrText())
	}
	if after := filesIn(t, home); !slices.Equal(before, after) {
		t.Errorf("files before %q, after %q", before, after)
	}
	_, stderr, code := tryPeerd(t, "replay", "--home", home, "--listen", "0.0.0.0:0")
	if code == 0 || strings.Count(stderr, "\n") != 1 ||
		!strings.Contains(stderr, "not an address of this machine alone") {
		t.Errorf("an address for other machines: status %d\n%s", code, stderr)
	}
}

// checkReplay requests what the replay at base has of a site.
func checkReplay(t *testing.T, base, site string) {
	t.Helper()
	for _, c := range []struct {
		path string
		want []string
	}{
		{"", []string{"<form"}},
		{"web/" + site + "/",
			[]string{"<title>café</title>", "Archived page", "/" + site + "/a\""}},
		{"web/2026id_/" + site + "/", []string{"<title>caf\xe9</title>", "alert(1)", "href=a>"}},
		{"web/" + site + "/b?x=1&y=2", []string{"page b"}},
		{"web/timemap/link/" + site + "/a", []string{`rel="memento"; datetime=`}},
		{"cdx?url=" + site + "/a&sort=closest&closest=2026&limit=5", []string{`"status": "200"`}},
		{"cdx?matchType=host&fl=url&filter=status:200&url=" + site,
			[]string{site + "/\n", site + "/a\n", site + "/b?x=1&y=2\n"}},
	} {
		header, status, body := fetched(t, base+c.path)
		for _, want := range c.want {
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d, want %q in\n%s", c.path, status, want, body)
			}
		}
		if header.Get("Set-Cookie") != "" || header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: header %v", c.path, header)
		}
		if strings.HasPrefix(c.path, "web/"+site) && strings.Contains(body, "alert") {
			t.Errorf("%s has a script:\n%s", c.path, body)
		}
	}
}

// TestReplayOfRunningPeer shows a page that the peer has fetched a moment ago.
func TestReplayOfRunningPeer(t *testing.T) {
	t.Parallel()
	site := replaySite(t, "127.113.0.2:0")
	d := newDaemon(t, "--listen", freeAddr(t, 37), "--allow-net", "127.113.0.0/16", "--min-delay",
		"5ms", "--strategy", "keep")
	appendSettings(t, d.home,
		"[archive]\nenabled = true\n[replay]\nlisten = '127.0.0.1:0'\n")
	d.run()
	base := d.status().Replay
	if !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Fatalf("status has the address %q", base)
	}
	if out := peerd(t, "status", "--home", d.home); !strings.Contains(out, base) {
		t.Errorf("status does not show %s:\n%s", base, out)
	}
	if _, status, _ := fetched(t, base+"web/"+site.URL+"/"); status != http.StatusNotFound {
		t.Errorf("a page that was not fetched: %d", status)
	}
	peerd(t, "seed", "--home", d.home, site.URL+"/")
	eventually(t, time.Minute, "all pages are shown", func() (bool, any) {
		_, _, body := fetched(t, base+"cdx?matchType=host&fl=url&filter=status:200&url="+site.URL)
		return strings.Contains(body, "/a\n") && strings.Contains(body, "/b?x=1&y=2\n"), body
	})
	checkReplay(t, base, site.URL)
	if code := d.terminate(time.Minute); code != 0 {
		t.Errorf("status %d\n%s", code, d.stderrText())
	}
}
