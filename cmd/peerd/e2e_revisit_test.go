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

// A visit is one request for a page of a diary.
type visit struct {
	ifNoneMatch string
	etag        string // of the page as it was then
	status      int
}

// A diary is a site of which some pages change each time they are looked at. It
// writes down who asked for what.
type diary struct {
	*httptest.Server
	mu     sync.Mutex
	visits map[string][]visit
}

const (
	stables  = 6
	changing = 2
)

func serveDiary(t *testing.T) *diary {
	t.Helper()
	d := &diary{visits: map[string][]visit{}}
	ln, err := net.Listen("tcp", "127.109.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.Server = httptest.NewUnstartedServer(d)
	d.Server.Listener.Close()
	d.Server.Listener = ln
	d.Start()
	t.Cleanup(d.Close)
	return d
}

func (d *diary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		text = fmt.Sprintf("page %s, version %d: %s", path, len(d.visits[path]), strings.Repeat("news ", len(d.visits[path])))
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
func (d *diary) seen() map[string][]visit {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string][]visit{}
	for path, vs := range d.visits {
		all[path] = slices.Clone(vs)
	}
	return all
}

// least is how often the page was visited that was visited least.
func (d *diary) least() int {
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

// A peer that keeps its pages fresh asks whether they have changed, takes what
// has, and goes on with it after a restart.
func TestPagesAreRevisited(t *testing.T) {
	t.Parallel()
	site := serveDiary(t)
	profile := filepath.Join(t.TempDir(), "fresh.toml")
	rules := "name = 'fresh'\nseeds = ['" + site.URL + "/']\n[scope]\nmode = 'hosts'\n" +
		"[revisit]\nenabled = true\nmin_interval = '1s'\ninitial_interval = '1s'\nmax_interval = '2s'\nprice = '1ms'\n"
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, "--profile", profile, "--listen", "/ip4/127.0.0.1/tcp/0", "--allow-net", "127.109.0.0/16", "--min-delay", "5ms", "--warc")
	d.run()
	visited := func(n int) func() (bool, any) {
		return func() (bool, any) { return site.least() >= n, site.seen() }
	}
	eventually(t, 30*time.Second, "each page is visited three times", visited(3))
	if code := d.terminate(10 * time.Second); code != 0 {
		t.Errorf("status %d after SIGTERM", code)
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
		t.Errorf("%d pages, want %d: a revisit is no page", s.PagesFetched, 1+stables+changing)
	}
	if r := s.Revisits; r.Done < r.NotModified+r.Changed || s.Fetches != s.PagesFetched+r.Done {
		t.Errorf("revisits %+v, %d fetches", r, s.Fetches)
	}
	links := d.links()
	if code := d.terminate(10 * time.Second); code != 0 {
		t.Errorf("status %d after SIGTERM", code)
	}
	notModified := checkVisits(t, site.seen())
	for i := range stables {
		if l := links[fmt.Sprintf("%s/stable/%d", site.URL, i)]; l.Outcome != "ok" || l.Status != http.StatusOK || l.Bytes == 0 {
			t.Errorf("after a visit that showed no change: %+v", l)
		}
	}
	kept := 0
	for _, r := range readWARC(t, []byte(peerd(t, "export", "warc", "--home", d.home))) {
		if r.header["warc-type"] == "revisit" {
			kept++
		}
	}
	if kept < notModified-stables || kept > notModified { // some were under way at a stop
		t.Errorf("%d revisits are archived, the server said 304 %d times", kept, notModified)
	}
}

// checkVisits wants each visit but the first to be conditional, with what the
// server said last, and returns how often it said that nothing has changed.
func checkVisits(t *testing.T, all map[string][]visit) (notModified int) {
	t.Helper()
	for path, vs := range all {
		for i, v := range vs {
			switch {
			case i == 0 && v.ifNoneMatch != "":
				t.Errorf("%s: the first visit has If-None-Match %s", path, v.ifNoneMatch)
			case i > 0 && path != "/" && v.ifNoneMatch == "":
				t.Errorf("%s: visit %d is not conditional", path, i)
			case strings.HasPrefix(path, "/changing/") && v.status != http.StatusOK,
				i > 0 && strings.HasPrefix(path, "/stable/") && v.status != http.StatusNotModified:
				t.Errorf("%s: visit %d: %+v", path, i, v)
			}
			if i > 0 && path != "/" && v.ifNoneMatch != vs[i-1].etag && v.ifNoneMatch != "" && (i < 2 || v.ifNoneMatch != vs[i-2].etag) {
				t.Errorf("%s: visit %d asks with %s, the page was %s", path, i, v.ifNoneMatch, vs[i-1].etag)
			}
			if v.status == http.StatusNotModified {
				notModified++
			}
		}
	}
	return notModified
}
