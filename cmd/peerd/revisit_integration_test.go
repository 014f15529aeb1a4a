//go:build integration

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A visit is one request for a page of a visitLog.
type visit struct {
	ifNoneMatch string
	etag        string // of the page as it was then
	status      int
}

// A visitLog is a site of which some pages change with each request. It records the requests.
type visitLog struct {
	*httptest.Server
	mu     sync.Mutex
	visits map[string][]visit
}

const (
	stables  = 6
	changing = 2
)

func serveVisitLog(t *testing.T) *visitLog {
	t.Helper()
	d := &visitLog{visits: map[string][]visit{}}
	ln, err := net.Listen("tcp", "127.109.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.Server = httptest.NewUnstartedServer(d)
	d.Listener.Close()
	d.Listener = ln
	d.Start()
	t.Cleanup(d.Close)
	return d
}

func (d *visitLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := r.URL.Path
	v := visit{ifNoneMatch: r.Header.Get("If-None-Match"), status: http.StatusOK, etag: `"v1"`}
	text := "always the same " + path
	switch {
	case path == "/":
		v.etag = "" // no way to ask for changes
		for i := range stables {
			text += fmt.Sprintf(`<a href="/stable/%d">s</a>`, i)
		}
		for i := range changing {
			text += fmt.Sprintf(`<a href="/changing/%d">c</a>`, i)
		}
	case strings.HasPrefix(path, "/changing/"):
		v.etag = fmt.Sprintf(`"c%d"`, len(d.visits[path]))
		text = fmt.Sprintf("page %s, version %d: %s", path, len(d.visits[path]),
			strings.Repeat("news ", len(d.visits[path])))
	case !strings.HasPrefix(path, "/stable/"):
		http.NotFound(w, r)
		return
	}
	if v.etag != "" {
		w.Header().Set("ETag", v.etag)
	}
	w.Header().Set("Content-Type", "text/html")
	if v.etag != "" && v.ifNoneMatch == v.etag {
		v.status = http.StatusNotModified
		w.WriteHeader(v.status)
	} else {
		fmt.Fprintf(w, "<title>%s</title>%s", path, text)
	}
	d.visits[path] = append(d.visits[path], v)
}

// seen returns the visits by path.
func (d *visitLog) seen() map[string][]visit {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string][]visit{}
	for path, vs := range d.visits {
		all[path] = slices.Clone(vs)
	}
	return all
}

// least returns the number of visits of the page with the fewest.
func (d *visitLog) least() int {
	n := 1 << 30
	all := d.seen()
	for _, vs := range all {
		n = min(n, len(vs))
	}
	if len(all) < 1+stables+changing {
		return 0
	}
	return n
}

// A peer that revisits its pages sends conditional requests, reads what has changed, and
// continues after a restart.
func TestRevisits(t *testing.T) {
	t.Parallel()
	site := serveVisitLog(t)
	profile := filepath.Join(t.TempDir(), "fresh.toml")
	rules := "name = 'fresh'\nseeds = ['" + site.URL + "/']\n[scope]\nmode = 'hosts'\n" +
		"[revisit]\nenabled = true\nmin_interval = '1s'\ninitial_interval = '1s'\n" +
		"max_interval = '2s'\n"
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, "--profile", profile, "--listen", "/ip4/127.0.0.1/tcp/0", "--allow-net",
		"127.109.0.0/16", "--min-delay", "5ms", "--warc")
	d.run()
	visited := func(n int) func() (bool, any) {
		return func() (bool, any) { return site.least() >= n, site.seen() }
	}
	eventually(t, 30*time.Second, "each page is visited three times", visited(3))
	if code := d.terminate(10 * time.Second); code != 0 {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
	again := site.least() + 2
	d.run()
	eventually(t, 30*time.Second, "visits go on after a restart", visited(again))
	eventually(t, 10*time.Second, "what was visited is counted", func() (bool, any) {
		s := d.status()
		return s.Revisits.NotModified > stables && s.Revisits.Changed > changing, s.Revisits
	})
	s := d.status()
	if s.PagesFetched != 1+stables+changing {
		t.Errorf("fetched %d pages, want %d without revisits", s.PagesFetched, 1+stables+changing)
	}
	if r := s.Revisits; r.Done < r.NotModified+r.Changed || s.Fetches != s.PagesFetched+r.Done {
		t.Errorf("revisits = %+v with %d fetches", r, s.Fetches)
	}
	links := d.links()
	if code := d.terminate(10 * time.Second); code != 0 {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
	notModified := checkVisits(t, site.seen())
	for i := range stables {
		if l := links[fmt.Sprintf("%s/stable/%d", site.URL, i)]; l.Outcome != "ok" ||
			l.Status != http.StatusOK || l.Bytes == 0 {
			t.Errorf("page after a visit without change = %+v", l)
		}
	}
	kept := 0
	for _, r := range readWARC(t, []byte(peerd(t, "export", "warc", "--home", d.home))) {
		if r.header["warc-type"] == "revisit" {
			kept++
		}
	}
	if kept < notModified-stables || kept > notModified { // some were under way at a stop
		t.Errorf("archived %d revisits, want the %d with status 304", kept, notModified)
	}
}

// checkVisits checks that each visit but the first is conditional, with the last validator of
// the server, and returns the number of visits without change.
func checkVisits(t *testing.T, all map[string][]visit) (notModified int) {
	t.Helper()
	for path, vs := range all {
		for i, v := range vs {
			switch {
			case i == 0 && v.ifNoneMatch != "":
				t.Errorf("%s: If-None-Match of the first visit = %s, want none",
					path, v.ifNoneMatch)
			case i > 0 && path != "/" && v.ifNoneMatch == "":
				t.Errorf("%s: visit %d is not conditional", path, i)
			case strings.HasPrefix(path, "/changing/") && v.status != http.StatusOK,
				i > 0 && strings.HasPrefix(path, "/stable/") && v.status != http.StatusNotModified:
				t.Errorf("%s: visit %d = %+v", path, i, v)
			}
			if i > 0 && path != "/" && v.ifNoneMatch != vs[i-1].etag && v.ifNoneMatch != "" &&
				(i < 2 || v.ifNoneMatch != vs[i-2].etag) {
				t.Errorf("%s: If-None-Match of visit %d = %s, want %s", path, i, v.ifNoneMatch,
					vs[i-1].etag)
			}
			if v.status == http.StatusNotModified {
				notModified++
			}
		}
	}
	return notModified
}
