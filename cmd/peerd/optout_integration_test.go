//go:build integration

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// TestOptOut: at the page of a running peer, the server of a site stops requests, and the site opts
// out and comes back, also through a restart. The site's log is the judge.
func TestOptOut(t *testing.T) {
	t.Parallel()
	var pages, out atomic.Int64
	ln, err := net.Listen("tcp", "127.0.0.1:0") // the address from which the test stops requests
	if err != nil {
		t.Fatal(err)
	}
	site := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/robots.txt",
				r.URL.Path == "/.well-known/peerd-optout" && out.Load() == 0:
				http.NotFound(w, r)
			case r.URL.Path == "/.well-known/peerd-optout":
				fmt.Fprintln(w, "crawler: peerd")
			default:
				n := pages.Add(1)
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, "<title>%d</title><a href=/%d>a</a> <a href=/%d>b</a>", n, 2*n,
					2*n+1)
			}
		})}
	go func() { _ = site.Serve(ln) }()
	t.Cleanup(func() { site.Close() })
	origin := "http://" + ln.Addr().String()

	// An address of its own: at 127.0.0.1 the port may be that of a connection by then.
	visit, err := net.Listen("tcp", "127.0.77.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + visit.Addr().String()
	visit.Close()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0", "--allow-net", "127.0.0.0/8",
		"--min-delay", "50ms", "--strategy", "keep")
	appendSettings(t, d.home, fmt.Sprintf("[page]\nlisten = %q\n", visit.Addr()))
	d.run()
	post := func(path string, want int) {
		t.Helper()
		resp, err := http.PostForm(base+path, url.Values{"site": {origin}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Fatalf("POST %s: %s, want %d", path, resp.Status, want)
		}
	}
	crawled := func(more bool, what string) {
		t.Helper()
		n := pages.Load()
		if !more {
			time.Sleep(2 * time.Second) // 40 requests would fit
			if got := pages.Load() - n; got != 0 {
				t.Fatalf("%d pages fetched %s", got, what)
			}
			return
		}
		eventually(t, time.Minute, "pages are fetched "+what, func() (bool, any) {
			return pages.Load() > n+5, pages.Load()
		})
	}
	peerd(t, "seed", "--home", d.home, origin+"/")
	crawled(true, "at first")
	post("/opt-out", http.StatusOK) // there is no file: forged
	crawled(true, "after a forged opt-out")
	post("/stop", http.StatusOK)
	crawled(false, "after a stop")
	d.terminate(time.Minute)
	d.run() // a stop is forgotten, but its wait was not
	peerd(t, "seed", "--home", d.home, origin+"/another")
	out.Store(1)
	eventually(t, time.Minute, "the page answers", func() (bool, any) {
		resp, err := http.Get(base)
		if err != nil {
			return false, err
		}
		resp.Body.Close()
		return true, nil
	})
	post("/opt-out", http.StatusOK)
	crawled(false, "after the opt-out")
	d.terminate(time.Minute)
	d.run()
	peerd(t, "seed", "--home", d.home, origin+"/more")
	crawled(false, "after a restart")
	out.Store(0)
	post("/opt-out", http.StatusOK)
	peerd(t, "seed", "--home", d.home, origin+"/withdrawn")
	crawled(true, "after the withdrawal")
	if code := d.terminate(time.Minute); code != 0 {
		t.Errorf("status %d\n%s", code, d.stderrText())
	}
}
