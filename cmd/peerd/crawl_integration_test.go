//go:build integration

package main

import (
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/cmd/internal/cli"
	"peerd/lab/emulate/web"
)

// crawlOf runs `peerd crawl` to its end and returns its report.
func crawlOf(t *testing.T, w *web.Web, home string, flags []string) crawlReport {
	t.Helper()
	var r crawlReport
	out := peerd(t, append([]string{"crawl", w.Seed(), "--home", home, "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return r
}

func TestCrawlSite(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 1, Pages: 80, Seed: 21,
		MinDelay: 2 * time.Millisecond}, 103)
	home := filepath.Join(t.TempDir(), "home")
	r := crawlOf(t, w, home, flags)
	a := w.Audit()
	if a.PagesFetched != 80 || a.Fetches != 80 || a.Politeness.Violations+a.RobotsViolations > 0 {
		t.Errorf("audit = %+v, missing %q", a, w.Missing(5))
	}
	if r.Pages != 80 || r.Hosts != 1 {
		t.Errorf("summary = %+v, want 80 pages of 1 host", r)
	}
	d := &daemon{t: t, home: home}
	if got := pagesOf(d.links()); !slices.Equal(got, slices.Sorted(w.Pages())) {
		t.Errorf("links lists %d pages, want 80", len(got))
	}

	again := crawlOf(t, w, home, flags)
	if n := w.Audit().Requests; n != a.Requests {
		t.Errorf("the crawl of a finished home sent %d requests, want none", n-a.Requests)
	}
	if again.Pages != r.Pages || again.Bytes != r.Bytes {
		t.Errorf("second summary = %+v, want %+v", again, r)
	}
}

// A crawl that was stopped, and then killed, continues where it was.
func TestCrawlContinues(t *testing.T) {
	t.Parallel()
	const gap = 15 * time.Millisecond
	still := stalls(t)
	w, flags := serveWeb(t, web.Config{Sites: 1, Pages: 120, Seed: 22, MinDelay: gap,
		Delay: 15 * time.Millisecond}, 104)
	home := filepath.Join(t.TempDir(), "home")
	args := append([]string{"crawl", w.Seed(), "--home", home}, flags...)
	fetched := func(n int) func() (bool, any) {
		return func() (bool, any) {
			got := w.Audit().PagesFetched
			return got >= n, got
		}
	}

	w.Slow(150 * time.Millisecond) // so that the crawl is far from its end at the stop and the kill
	p := start(t, args...)
	eventually(t, 15*time.Second, "30 pages", fetched(30))
	if code := p.terminate(10 * time.Second); code != cli.ExitFailed {
		t.Errorf("status after SIGTERM = %d, want %d", code, cli.ExitFailed)
	}
	if lines := strings.Split(strings.TrimSpace(p.stderrText()),
		"\n"); lines[len(lines)-1] != "peerd: crawl: interrupted before the end" {
		t.Errorf("stderr after SIGTERM = %q", lines)
	}
	stopped := time.Now()

	p = start(t, args...)
	eventually(t, 15*time.Second, "70 pages", fetched(70))
	killed := time.Now()
	p.kill()

	w.Slow(0)
	r := crawlOf(t, w, home, flags)
	a := w.Audit()
	if a.PagesFetched != 120 || a.Politeness.Violations+a.RobotsViolations > 0 {
		t.Errorf("audit = %+v, missing %q", a, w.Missing(5))
	}
	checkRepeats(t, w.Log(), []time.Time{stopped, killed}, still)
	if got := pagesOf((&daemon{t: t, home: home}).links()); r.Pages != 120 ||
		!slices.Equal(got, slices.Sorted(w.Pages())) {
		t.Errorf("summary = %+v with %d links, want 120", r, len(got))
	}
}

// A crawl of a site that does not answer says what it waits for, and says so again only when
// something has changed.
func TestCrawlSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, stderr, code := tryPeerd(t, "crawl", "http://"+addr+"/", "--allow-net", "127.0.0.1/32",
		"--patience", "12s")
	if code != cli.ExitFailed || !strings.Contains(stderr, "\nwaiting for 127.0.0.1 until ") ||
		!strings.Contains(stderr, "connection refused\n") {
		t.Errorf("status %d, stderr %q, want the host and the reason", code, stderr)
	}
	count, last := "", ""
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "waiting") {
			count = line
			continue
		}
		// While the host is asked again, its URL is not queued.
		if count+line == last {
			t.Errorf("the same progress twice: %q", stderr)
		}
		last = count + line
	}
}
