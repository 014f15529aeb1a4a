//go:build integration

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A site that runs no peer tells one by IndexNow that a page has changed. Another peer, which owns
// the site's subnet, requests the key and then the page within seconds. For forged pings it
// requests at most one more file, and no page.
func TestPing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	site := serveFiles(t, "127.111.5.1:0", root)
	const key, forged = "0123456789abcdef", "fedcba9876543210"
	write("index.html", `<a href="/a.html">a</a> <a href="/b.html">b</a>`)
	write("a.html", "one")
	write("b.html", "calm")
	write(key+".txt", key)
	owner, other, _ := siteAndOwner(t, site.URL, t.TempDir(), "")
	// An address of its own: at 127.0.0.1 the port may be that of a connection by then.
	visit, err := net.Listen("tcp", "127.0.78.1:0")
	if err != nil {
		t.Fatal(err)
	}
	visit.Close()
	appendSettings(t, other.home, fmt.Sprintf("[page]\nlisten = %q\n", visit.Addr()))
	peerd(t, "seed", "--home", owner.home, site.URL+"/")
	other.run()
	awaitFetches := func(want map[string]int) (took time.Duration) {
		t.Helper()
		began := time.Now()
		eventually(t, 2*time.Minute, fmt.Sprintf("%v are fetched", want), func() (bool, any) {
			fetched := site.fetched()
			for path, n := range want {
				if fetched[path] != n {
					return false, fetched
				}
			}
			return true, nil
		})
		return time.Since(began)
	}
	awaitFetches(map[string]int{"/": 1, "/a.html": 1, "/b.html": 1})

	ping := func(query, body string) (status int) {
		t.Helper()
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		req, err := http.NewRequestWithContext(t.Context(), method,
			"http://"+visit.Addr().String()+"/indexnow"+query, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	write("a.html", "one and two")
	eventually(t, time.Minute, "a ping is taken", func() (bool, any) { // once it knows the owner
		status := ping("?key="+key+"&url="+site.URL+"/a.html", "")
		return status == http.StatusAccepted, status
	})
	t.Logf("the page was requested %v after the first ping",
		awaitFetches(map[string]int{"/a.html": 2}))

	write("new.html", "no page links here")
	body := fmt.Sprintf(`{"host":"127.111.5.1","key":%q,"urlList":["%s/a.html","%s/new.html"]}`,
		key, site.URL, site.URL)
	if status := ping("", body); status != http.StatusAccepted {
		t.Fatalf("status %d of a ping of two pages", status)
	}
	t.Logf("two pages were requested %v after the second ping",
		awaitFetches(map[string]int{"/a.html": 3, "/new.html": 1}))

	for i := range 20 {
		k := fmt.Sprintf("%s-%d", forged, i)
		if status := ping("?key="+k+"&url="+site.URL+"/b.html", ""); status != http.StatusAccepted {
			t.Fatalf("status %d of a forged ping", status)
		}
	}
	forgedReads := func() (n int) {
		for path, k := range site.fetched() {
			if strings.HasPrefix(path, "/"+forged) {
				n += k
			}
		}
		return n
	}
	eventually(t, 2*time.Minute, "a file of a forged ping is requested", func() (bool, any) {
		return forgedReads() == 1, site.fetched()
	})
	time.Sleep(10 * time.Second) // 20 files could be requested, and the page
	fetched := site.fetched()
	if forgedReads() != 1 || fetched["/b.html"] != 1 || fetched["/"] != 1 ||
		fetched["/"+key+".txt"] != 1 {
		t.Errorf("after forged pings: requests %v, want one of one forged key, and no page again",
			fetched)
	}
	// A ping is no reason to crawl another site.
	if status := ping("?key="+key+"&url=http://127.111.6.1/", ""); status != 422 {
		t.Errorf("status %d of a ping for a site that no peer crawls, want 422", status)
	}
	subnets := peerd(t, "subnets", "--home", owner.home)
	if !strings.Contains(subnets, "127.111.5.0/24") {
		t.Errorf("subnets of the first peer are %q, want it to own the site's", subnets)
	}
}
