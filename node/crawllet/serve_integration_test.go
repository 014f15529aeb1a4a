//go:build integration

package crawllet

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"peerd/crawl/crawllet"
	"peerd/crawl/crawllet/record"
	"peerd/node/config"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// pages is the number of pages that it was given.
type pages int

func (p *pages) Write(r record.Record) error {
	if r.Status == 200 {
		*p++
	}
	return nil
}

// A web server forwards the requests for crawllets to Serve. A peer that is admitted fetches the
// pages of the site, which are those that the web server serves; another one is refused.
func TestServeAndFetch(t *testing.T) {
	dir := t.TempDir()
	module := filepath.Join(dir, "crawllet.wasm")
	cmd := exec.Command("go", "build", "-p", "2", "-buildvcs=false", "-trimpath", "-o", module,
		"peerd/crawl/crawllet/agent")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	root := filepath.Join(dir, "site")
	for name, text := range map[string]string{
		"index.html": "<title>A</title><a href=sub/b.html>b</a>", "sub/b.html": "<p>b",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	home, err := config.Init(filepath.Join(dir, "home"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := home.PeerID()
	if err != nil {
		t.Fatal(err)
	}

	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	defer web.Close()
	mux.Handle("/", http.FileServer(http.Dir(root)))
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, ServeOptions{Root: root, Prefix: web.URL + "/", Listen: "127.0.0.1:0",
			Cache: filepath.Join(dir, "cache"), Limits: DefaultLimits, Types: DefaultTypes,
			Peers: []string{id.String()}, Ready: func(policy string) { ready <- policy }})
	}()
	var host *url.URL
	select {
	case err := <-done:
		t.Fatal(err)
	case policy := <-ready:
		if host, err = url.Parse(strings.TrimSuffix(policy, crawllet.Path)); err != nil {
			t.Fatal(err)
		}
	}
	proxy := httputil.NewSingleHostReverseProxy(host)
	mux.Handle(crawllet.Path, proxy)
	mux.Handle(crawllet.Path+"/", proxy)

	var n pages
	o := FetchOptions{URL: web.URL + "/", Module: module, To: &n, Check: 5}
	if _, err := Fetch(t.Context(), o); !errors.Is(err, crawllet.NotAllowed) {
		t.Errorf("a crawler with another key: %v, want %v", err, crawllet.NotAllowed)
	}
	o.Home = &home
	res, err := Fetch(t.Context(), o)
	if err != nil || n != 2 || res.Pages != 2 || res.Checked.Same != 2 || res.Usage.Pages != 2 {
		t.Errorf("%d pages, %+v, %v", n, res, err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve() = %v, want %v", err, context.Canceled)
	}
}
