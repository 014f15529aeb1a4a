//go:build integration && linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/lab/emulate/web"
	"peerd/node/admin"
)

// collector is a collector of traces that counts spans by name, and the URLs of fetches.
type collector struct {
	mu      sync.Mutex
	spans   map[string]int
	fetched map[string]bool
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					Name       string
					Attributes []struct {
						Key   string
						Value struct{ StringValue string }
					}
				}
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range body.ResourceSpans[0].ScopeSpans[0].Spans {
		c.spans[s.Name]++
		for _, a := range s.Attributes {
			if s.Name == "fetch" && a.Key == "url.full" {
				c.fetched[a.Value.StringValue] = true
			}
		}
	}
}

// TestDashboard crawls a small web and watches the peer as a browser does, with the cookie that the
// address of "peerd dashboard" gives, by its feed, and by its traces.
func TestDashboard(t *testing.T) {
	t.Parallel()
	traces := &collector{spans: map[string]int{}, fetched: map[string]bool{}}
	srv := httptest.NewServer(traces)
	t.Cleanup(srv.Close)
	w, flags := serveWeb(t, web.Config{Sites: 3, Pages: 90, Seed: 5, MinDelay: time.Millisecond,
		Bind: "127.0.0.1:0"}, 121)
	d := newDaemon(t, append(flags, "--listen", "/ip4/127.0.0.1/tcp/0")...)
	config := filepath.Join(d.home, "config.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = fmt.Appendf(text, "[traces]\nendpoint = '%s/v1/traces'\n", srv.URL)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	d.run()
	feed := d.follow("/v1/feed?after=0")
	peerd(t, "seed", "--home", d.home, w.Seed())
	eventually(t, time.Minute, "all pages are fetched", func() (bool, any) {
		n := w.Audit().PagesFetched
		return n == 90, n
	})
	awaitIdle(t, time.Minute, []*daemon{d})
	links := d.links()
	eventually(t, time.Minute, "all pages are in the feed", func() (bool, any) {
		return feed.has(links), fmt.Sprint(len(links), " pages")
	})
	eventually(t, time.Minute, "all fetches are traced", func() (bool, any) {
		traces.mu.Lock()
		defer traces.mu.Unlock()
		for u := range links {
			if !traces.fetched[u] {
				return false, fmt.Sprint(traces.spans, " without ", u)
			}
		}
		return traces.spans["body"] > 0, fmt.Sprint(traces.spans)
	})
	d.browse()
	d.measureCost()

	before := d.moves()
	if len(before) == 0 {
		t.Fatal("the peer has no moves")
	}
	d.terminate(patience)
	d.run()
	if after := d.moves(); len(after) < len(before) {
		t.Errorf("after a restart the moves are %v, want those of before: %v", after, before)
	}
}

// moves returns the moves that the peer remembers.
func (d *daemon) moves() (all []admin.Move) {
	d.t.Helper()
	resp := d.get("/v1/moves", nil)
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		d.t.Fatal(err)
	}
	return all
}

// messages are the pages of a feed.
type messages struct {
	mu   sync.Mutex
	urls map[string]bool
}

func (m *messages) has(links map[string]admin.Link) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for u := range links {
		if !m.urls[u] {
			return false
		}
	}
	return true
}

// follow reads a stream of the peer until the test ends.
func (d *daemon) follow(path string) *messages {
	d.t.Helper()
	m := &messages{urls: map[string]bool{}}
	resp := d.get(path, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var p struct{ URL string }
				_ = json.Unmarshal([]byte(data), &p) // also other messages
				m.mu.Lock()
				m.urls[p.URL] = true
				m.mu.Unlock()
			}
		}
	}()
	d.t.Cleanup(func() {
		resp.Body.Close()
		<-done
	})
	return m
}

// get requests a path with the token for reading, or with a client that has a cookie.
func (d *daemon) get(path string, browser *http.Client) *http.Response {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.home, "api.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	var api struct{ Addr string }
	if err := json.Unmarshal(data, &api); err != nil {
		d.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(d.t.Context()), http.MethodGet,
		"http://"+api.Addr+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if browser == nil {
		token, err := os.ReadFile(filepath.Join(d.home, "read.token"))
		if err != nil {
			d.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		browser = &http.Client{}
	}
	resp, err := browser.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp
}

// browse does what a browser does with the address of the dashboard.
func (d *daemon) browse() {
	t := d.t
	t.Helper()
	url := strings.TrimSpace(peerd(t, "dashboard", "--home", d.home))
	page, code, ok := strings.Cut(url, "#code=")
	if !ok {
		t.Fatalf("peerd dashboard prints %q", url)
	}
	header, status, body := fetched(t, page)
	if status != http.StatusOK || !strings.Contains(body, "app.js") ||
		!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("%s: status %d, %v, %s", page, status, header, body)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	base := strings.TrimSuffix(page, "/dashboard/")
	for i, want := range []int{http.StatusOK, http.StatusUnauthorized} { // a code works once
		resp, err := browser.Post(base+"/v1/login", "application/json",
			strings.NewReader(fmt.Sprintf(`{"code":%q}`, code)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("login %d: status %d, want %d", i+1, resp.StatusCode, want)
		}
	}
	for _, path := range []string{"status", "peers", "subnets", "servers", "moves", "queue",
		"pages", "limits", "settings", "denied", "history", "disk", "gain", "journal",
		"placement?of=127.121.0.10"} {
		resp := d.get("/v1/"+path, browser)
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !json.Valid(data) {
			t.Errorf("%s: status %d, %v: %.100s", path, resp.StatusCode, err, data)
		}
		var g admin.Gain
		if path == "gain" && (json.Unmarshal(data, &g) != nil || g.Strategy != "proxy" ||
			g.Pages != 0) { // a peer that is alone locates no servers
			t.Errorf("gain = %+v", g)
		}
	}
	resp, err := browser.Post(base+"/v1/stop", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a browser may stop the peer: status %d", resp.StatusCode)
	}
}

// measureCost compares the CPU time of an idle peer with that of one that serves an open overview
// and map.
func (d *daemon) measureCost() {
	const span = 20 * time.Second
	cpu := func() time.Duration {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
		if err != nil {
			d.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		var ticks int
		for _, f := range strings.Fields(rest)[11:13] { // user and system time
			n, _ := strconv.Atoi(f)
			ticks += n
		}
		return time.Duration(ticks) * 10 * time.Millisecond
	}
	used := func(what func()) time.Duration {
		before := cpu()
		for end := time.Now().Add(span); time.Now().Before(end); {
			what()
			time.Sleep(10 * time.Second)
		}
		return cpu() - before
	}
	closed := used(func() {})
	d.follow("/v1/events")
	open := used(func() {
		for _, path := range []string{"peers", "servers", "limits", "history", "disk"} {
			d.get("/v1/"+path, nil).Body.Close()
		}
	})
	share := func(c time.Duration) float64 { return 100 * c.Seconds() / span.Seconds() }
	d.t.Logf("CPU of a processor over %v: %.2f %% closed, %.2f %% open", span, share(closed),
		share(open))
	if share(open)-share(closed) > 2 {
		d.t.Error("the dashboard costs more than 2 %")
	}
}
