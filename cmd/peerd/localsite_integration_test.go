//go:build integration

package main

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/node/config"
)

// When a file changes at the machine of one peer, its page is fetched again by the peer that owns
// the subnet; also if the peer at the site was killed meanwhile.
func TestLocalSite(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	fetched := map[string]int{}
	ln, err := net.Listen("tcp", "127.111.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(root))
	site := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			files.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			fetched[r.URL.Path]++
		}))
	site.Listener.Close()
	site.Listener = ln
	site.Start()
	t.Cleanup(site.Close)
	fetches := func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		return fetched[path]
	}
	awaitFetches := func(path string, n int) {
		t.Helper()
		eventually(t, 5*time.Minute, fmt.Sprintf("%s is fetched %d times", path, n),
			func() (bool, any) {
				mu.Lock()
				defer mu.Unlock()
				return fetched[path] >= n, maps.Clone(fetched)
			})
	}

	profile := filepath.Join(t.TempDir(), "sites.toml")
	rules := "name = 'sites'\n[scope]\nmode = 'any'\n[revisit]\nenabled = true\n" +
		"min_interval = '1h'\ninitial_interval = '24h'\n"
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--profile", profile, "--allow-net", "127.111.0.0/16", "--min-delay", "5ms",
		"--strategy", "keep"}
	addr := freeAddr(t, 33)
	owner := newDaemon(t, append([]string{"--listen", addr}, flags...)...)
	owner.run()
	local := newDaemon(t, append([]string{"--listen", freeAddr(t, 34),
		"--bootstrap", addr + "/p2p/" + owner.status().PeerID}, flags...)...)
	home, err := config.Open(local.home)
	if err != nil {
		t.Fatal(err)
	}
	id, err := home.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile(filepath.Join(local.home, "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	settings = fmt.Appendf(settings, "[local_sites]\n%q = %q\n", site.URL+"/", root)
	if err := os.WriteFile(filepath.Join(local.home, "config.toml"), settings, 0o600); err != nil {
		t.Fatal(err)
	}

	write("robots.txt", "Peerd-Peer: "+id.String()+"\n")
	write("index.html", `<a href="/a.html">a</a>`)
	write("a.html", "one")
	write("b/alone.html", "no page links here")
	peerd(t, "seed", "--home", owner.home, site.URL+"/")
	awaitFetches("/a.html", 1)
	local.run()
	awaitFetches("/b/alone.html", 1)

	write("a.html", "one and two")
	awaitFetches("/a.html", 2)
	local.kill()
	write("b/alone.html", "changed while no peer watches")
	write("b/new.html", "new")
	local.run()
	awaitFetches("/b/alone.html", 2)
	awaitFetches("/b/new.html", 1)
	peerd(t, "seed", "--changed", "--home", local.home, site.URL+"/a.html")
	awaitFetches("/a.html", 3)
	if n := fetches("/"); n != 1 {
		t.Errorf("%d requests of the page that has not changed, want 1", n)
	}
	subnets := peerd(t, "subnets", "--home", owner.home)
	if !strings.Contains(subnets, "127.111.0.0/24") {
		t.Errorf("subnets of the first peer are %q, want it to own the site's", subnets)
	}
}
