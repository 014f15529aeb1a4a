//go:build integration

package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A peer has a site that runs crawllets deliver most of its pages, and archives all of them. If the
// crawllets read other files than the site serves, of one page in ten, the peer requests all pages.
func TestCrawllet(t *testing.T) {
	t.Parallel()
	const n = 300
	module := filepath.Join(t.TempDir(), "crawllet.wasm")
	build := exec.Command("go", "build", "-p", "2", "-buildvcs=false", "-trimpath",
		"-ldflags=-s -w", "-o", module, "peerd/crawl/crawllet/agent")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cache := t.TempDir()
	compile(t, module, cache)
	for i, lies := range []bool{false, true} {
		t.Run(fmt.Sprintf("lies=%v", lies), func(t *testing.T) {
			t.Parallel()
			root, served := t.TempDir(), t.TempDir()
			writePages(t, served, n, func(i int) int { return i })
			writePages(t, root, n, func(i int) int {
				if lies && i%10 == 7 {
					return n + i
				}
				return i
			})
			site := serveFiles(t, fmt.Sprintf("127.111.%d.1:0", 10+i), served)
			serveCrawllets(t, site, root, cache)
			flags := []string{"--allow-net", "127.111.0.0/16", "--min-delay", "5ms", "--strategy",
				"keep", "--listen", freeAddr(t, byte(35+i))}
			d := newDaemon(t, flags...)
			name := filepath.Join(d.home, "config.toml")
			old, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Appendf(old, "[crawl]\ncrawllet = %q\n[archive]\nenabled = true\n", module)
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
			d.run()
			peerd(t, "seed", "--home", d.home, site.URL+"/p0.html")
			eventually(t, 3*time.Minute, "all pages are stored", func() (bool, any) {
				s := d.status()
				return s.PagesFetched >= n && left(s) == 0, s.Marked
			})
			requested := 0
			for path, times := range site.fetched() {
				if strings.HasPrefix(path, "/p") {
					requested++
				}
				if times > 1 && strings.HasPrefix(path, "/p") && !lies {
					t.Errorf("%s was requested %d times", path, times)
				}
			}
			marked := d.status().Marked
			t.Logf("%d of %d pages were requested, %v", requested, n, marked)
			switch {
			case lies && requested != n:
				t.Errorf("%d of %d pages of a site that lies were requested", requested, n)
			case !lies && (requested > n/2+50 || int(marked["crawllet_pages"]) != n-requested):
				t.Errorf("%d of %d pages were requested, and %d delivered, want half, and the rest",
					requested, n, marked["crawllet_pages"])
			}
			texts := readTexts(t, peerd(t, "export", "text", "--home", d.home))
			for i := range n {
				page := fmt.Sprintf("%s/p%d.html", site.URL, i)
				if want := fmt.Sprintf("wordb%d wordc%d ", i, 2*i); !strings.Contains(
					texts[page].Text, want) {
					t.Fatalf("the archive has %.60q for %s, want %q in it", texts[page].Text, page,
						want)
				}
			}
		})
	}
}

// writePages writes n pages, of which page i links to two others and has a text that depends on
// text(i).
func writePages(t *testing.T, dir string, n int, text func(int) int) {
	t.Helper()
	for i := range n {
		words := "<p>"
		for k := range 100 {
			words += fmt.Sprintf("word%c%d ", 'a'+k%26, text(i)*k)
		}
		page := fmt.Sprintf("%s<a href=/p%d.html>1</a><a href=/p%d.html>2</a>", words,
			(2*i+1)%n, (2*i+2)%n)
		name := filepath.Join(dir, fmt.Sprintf("p%d.html", i))
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compile has a site compile the module, which takes seconds of both processors.
func compile(t *testing.T, module, cache string) {
	t.Helper()
	root := t.TempDir()
	writePages(t, root, 1, func(i int) int { return i })
	site := serveFiles(t, "127.111.9.1:0", root)
	serveCrawllets(t, site, root, cache)
	eventually(t, 5*time.Minute, "the module is compiled", func() (bool, any) {
		_, stderr, code := tryPeerd(t, "crawllet", "fetch", site.URL+"/", "--module", module,
			"--to", filepath.Join(t.TempDir(), "one"))
		return code == 0, stderr
	})
}

// serveCrawllets runs `peerd crawllet serve` for a directory, and has the site forward to it.
func serveCrawllets(t *testing.T, site *fileSite, root, cache string) {
	t.Helper()
	p := start(t, "crawllet", "serve", "--root", root, "--prefix", site.URL+"/", "--listen",
		"127.111.255.1:0", "--cache", cache)
	ready := regexp.MustCompile(`policy=(http://[0-9.:]+)/`)
	var to *url.URL
	eventually(t, time.Minute, "crawllets are served", func() (bool, any) {
		m := ready.FindStringSubmatch(p.stderrText())
		if m == nil {
			return false, p.stderrText()
		}
		var err error
		to, err = url.Parse(m[1])
		return err == nil, err
	})
	proxy := httputil.NewSingleHostReverseProxy(to)
	files := site.Config.Handler
	site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/crawllet") {
			proxy.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})
}
