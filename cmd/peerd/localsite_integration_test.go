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
	site := serveFiles(t, "127.111.0.1:0", root)
	awaitFetches := func(path string, n int) {
		t.Helper()
		eventually(t, 5*time.Minute, fmt.Sprintf("%s is fetched %d times", path, n),
			func() (bool, any) {
				fetched := site.fetched()
				return fetched[path] >= n, fetched
			})
	}

	owner, local, id := siteAndOwner(t, site.URL, root, "")
	write("robots.txt", "Peerd-Peer: "+id+"\n")
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
	if n := site.fetched()["/"]; n != 1 {
		t.Errorf("%d requests of the page that has not changed, want 1", n)
	}
	subnets := peerd(t, "subnets", "--home", owner.home)
	if !strings.Contains(subnets, "127.111.0.0/24") {
		t.Errorf("subnets of the first peer are %q, want it to own the site's", subnets)
	}
}

// fileSite is a web server of a directory that counts requests by path.
type fileSite struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int
}

func serveFiles(t *testing.T, addr, root string) *fileSite {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(root))
	s := &fileSite{requests: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			files.ServeHTTP(w, r)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests[r.URL.Path]++
		}))
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *fileSite) fetched() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// siteAndOwner starts a peer that owns the site's subnet as soon as it knows a URL there, and
// returns one that has the site's files in root, which does not run yet, and its ID.
func siteAndOwner(t *testing.T, url, root, settings string) (owner, local *daemon, id string) {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "sites.toml")
	rules := "name = 'sites'\n[scope]\nmode = 'any'\n[revisit]\nenabled = true\n" +
		"min_interval = '1h'\ninitial_interval = '24h'\n"
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--profile", profile, "--allow-net", "127.111.0.0/16", "--min-delay", "5ms",
		"--strategy", "keep"}
	addr := freeAddr(t, 33)
	owner = newDaemon(t, append([]string{"--listen", addr}, flags...)...)
	owner.run()
	local = newDaemon(t, append([]string{"--listen", freeAddr(t, 34),
		"--bootstrap", addr + "/p2p/" + owner.status().PeerID}, flags...)...)
	home, err := config.Open(local.home)
	if err != nil {
		t.Fatal(err)
	}
	key, err := home.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(local.home, "config.toml")
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Appendf(nil, "%s%s\n[local_sites]\n%q = %q\n", settings, old, url+"/", root)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return owner, local, key.String()
}

// A peer that reports the pages of its site from their files spares the site most requests. If the
// files are not what the web server sends, of one page in ten, the owner finds out, shows why, and
// requests all pages.
func TestLocalSiteReports(t *testing.T) {
	t.Parallel()
	const n = 150
	for i, lies := range []bool{false, true} {
		t.Run(fmt.Sprintf("lies=%v", lies), func(t *testing.T) {
			t.Parallel()
			root, served := t.TempDir(), t.TempDir()
			page := func(i, text int) string {
				words := "<p>"
				for k := range 100 {
					words += fmt.Sprintf("word%c%d ", 'a'+k%26, text*k)
				}
				return fmt.Sprintf("%s<a href=/p%d.html>1</a><a href=/p%d.html>2</a>", words,
					(2*i+1)%n, (2*i+2)%n)
			}
			for i := range n {
				write := func(dir, text string) {
					name := filepath.Join(dir, fmt.Sprintf("p%d.html", i))
					if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				write(served, page(i, i))
				if lies && i%10 == 7 {
					write(root, page(i, n+i))
				} else {
					write(root, page(i, i))
				}
			}
			site := serveFiles(t, fmt.Sprintf("127.111.%d.1:0", 1+i), served)
			owner, local, id := siteAndOwner(t, site.URL, root, "report_local_sites = true\n")
			robots := []byte("Peerd-Peer: " + id + "\n")
			if err := os.WriteFile(filepath.Join(served, "robots.txt"), robots, 0o644); err != nil {
				t.Fatal(err)
			}
			peerd(t, "seed", "--home", owner.home, site.URL+"/robots.txt")
			eventually(t, time.Minute, "robots.txt is known", func() (bool, any) {
				return owner.status().Fetches > 0, nil
			})
			local.run()
			awaitIdle(t, time.Minute, []*daemon{owner, local})
			eventually(t, time.Minute, "all pages are fetched", func() (bool, any) {
				s, r := owner.status().Fetches, local.status().Fetches
				requested := 0
				for path := range site.fetched() {
					if strings.HasPrefix(path, "/p") {
						requested++
					}
				}
				ok := requested >= 50 && s+r >= n
				if lies {
					ok = requested == n
				}
				return ok, fmt.Sprint(requested, s, r)
			})
			why := peerd(t, "peers", "--home", owner.home, "--why", id)
			requested := len(site.fetched())
			t.Logf("%d URLs were requested of %d pages; %d reports counted", requested, n,
				owner.status().Marked["site_reports"])
			if strings.Contains(why, "differs") != lies {
				t.Errorf("the reports of a peer that lies: %v, were found to be %s", lies, why)
			}
			if !lies && requested > n/2+20 {
				t.Errorf("%d pages of %d were requested, want 50 and a few", requested, n)
			}
		})
	}
}
