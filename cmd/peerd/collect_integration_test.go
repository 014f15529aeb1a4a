//go:build integration

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/node/config"
)

// A collector finds a change of a page within ten seconds, and has every version of every page once
// although both peers are killed.
func TestCollect(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.112.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewUnstartedServer(http.FileServer(http.Dir(root)))
	site.Listener.Close()
	site.Listener = ln
	site.Start()
	t.Cleanup(site.Close)

	profile := filepath.Join(t.TempDir(), "collect.toml")
	rules := "name = 'collect'\n[scope]\nmode = 'any'\n[revisit]\nenabled = true\n" +
		"min_interval = '1h'\ninitial_interval = '24h'\n"
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t, 35)
	watcher := newDaemon(t, "--listen", addr, "--profile", profile, "--allow-net",
		"127.112.0.0/16", "--min-delay", "5ms", "--strategy", "keep")
	home, err := config.Open(watcher.home)
	if err != nil {
		t.Fatal(err)
	}
	id, err := home.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	appendSettings(t, watcher.home,
		fmt.Sprintf("[archive]\nenabled = true\n[local_sites]\n%q = %q\n", site.URL+"/", root))
	write("robots.txt", "Peerd-Peer: "+id.String()+"\n")
	write("index.html", "start")
	watcher.run()
	to := filepath.Join(t.TempDir(), "collector")
	args := []string{"collect", "--to", to, "--profile", profile, "--listen", freeAddr(t, 36),
		"--bootstrap", addr + "/p2p/" + id.String(), "--allow-net", "127.112.0.0/16"}
	collector := start(t, args...)
	found := func(query string) (bool, any) {
		out, stderr, code := tryPeerd(t, "export", "text", "--home", to)
		if code != 0 || !strings.Contains(out, query) {
			return false, stderr
		}
		out, stderr, code = tryPeerd(t, "search", "--home", to, "--json", query)
		return code == 0 && strings.Contains(out, site.URL), out + stderr
	}
	eventually(t, time.Minute, "the first page is collected",
		func() (bool, any) { return found("start") })

	write("index.html", "changed apple")
	begin := time.Now()
	eventually(t, time.Minute, "the change is found", func() (bool, any) { return found("apple") })
	took := time.Since(begin)
	t.Logf("found a change after %s", took.Round(100*time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("found a change after %s, want at most 10 s", took)
	}

	var want []string
	for i := range 60 {
		name := fmt.Sprintf("p%d.html", i)
		write(name, fmt.Sprintf("pear number%d", i))
		want = append(want, site.URL+"/"+name)
		switch i {
		case 10, 30, 50:
			time.Sleep(2 * time.Second) // some are on their way
			collector.kill()
			collector = start(t, args...)
		case 20, 40:
			time.Sleep(2 * time.Second)
			watcher.kill()
			watcher.run()
		}
	}
	slices.Sort(want)
	eventually(t, 3*time.Minute, "all pages are collected", func() (bool, any) {
		got := pearsOf(t, to, site.URL)
		return len(slices.Compact(slices.Clone(got))) == len(want), len(got)
	})
	if got, all := pearsOf(t, to, site.URL), pearsOf(t, watcher.home, site.URL); !slices.Equal(got,
		all) || !slices.Equal(slices.Compact(got), want) {
		t.Errorf("collected %d pages %q, want the %d of the watcher", len(got), got, len(all))
	}
	if n := len(peerd(t, "export", "links", "--home", to)); n > 0 {
		t.Errorf("the collector has fetched pages: %d bytes of links", n)
	}
}

// A collector with topics is sent the pages that one of them finds, and no other page, also after
// its next start.
func TestCollectTopic(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	// A page that links to the next one is archived before it.
	write := func(page, next, text string) {
		t.Helper()
		text = fmt.Sprintf("<a href=/%s.html>next</a> %s", next, text)
		if err := os.WriteFile(filepath.Join(root, page+".html"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	large := func() string {
		var b strings.Builder
		for b.Len() < 1<<20 {
			fmt.Fprintf(&b, "%x ", random.Uint64())
		}
		return b.String()
	}
	write("a", "b", "apple")
	write("b", "c", "apple pie "+large())
	write("c", "d", "plum jam")
	write("d", "e", "jam of plum "+large())
	write("e", "none", "apple, the last")
	site := serveFiles(t, "127.114.0.1:0", root)
	profile := filepath.Join(t.TempDir(), "topics.toml")
	if err := os.WriteFile(profile, []byte("name = 'topics'\n[scope]\nmode = 'any'\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--profile", profile, "--allow-net", "127.114.0.0/16"}
	addr := freeAddr(t, 43)
	crawler := newDaemon(t, append([]string{"--listen", addr, "--min-delay", "5ms", "--strategy",
		"keep"}, flags...)...)
	appendSettings(t, crawler.home, "[archive]\nenabled = true\n")
	crawler.run()
	to := filepath.Join(t.TempDir(), "collector")
	args := append([]string{"collect", "--to", to, "--listen", freeAddr(t, 44), "--bootstrap",
		addr + "/p2p/" + crawler.status().PeerID}, flags...)
	topics := []string{"--topic", "apple -pie", "--topic", `"plum jam"`}
	collector := start(t, slices.Concat(args, topics)...)
	// untilSent crawls from a page and waits until the last one is collected.
	untilSent := func(page, last string) {
		t.Helper()
		peerd(t, "seed", "--home", crawler.home, site.URL+"/"+page+".html")
		eventually(t, time.Minute, last+" is collected", func() (bool, any) {
			out, stderr, _ := tryPeerd(t, "export", "cdx", "--home", to)
			return strings.Contains(out, site.URL+"/"+last+".html"), stderr
		})
		s, err := (&daemon{t: t, home: to}).ask()
		if err != nil {
			t.Fatal(err)
		}
		if n := s.ControlBytes.Received; n > 256<<10 {
			t.Errorf("%d bytes were sent to the collector, so also pages without a topic", n)
		}
	}
	untilSent("a", "e")

	collector.terminate(time.Minute)
	start(t, args...) // the topics are in config.toml
	write("f", "g", "jam and plum "+large())
	write("g", "none", "apple, the second last")
	untilSent("f", "g")
	var got []string
	for _, c := range readCDX(t, peerd(t, "export", "cdx", "--home", to)) {
		got = append(got, strings.TrimPrefix(c.URL, site.URL+"/"))
	}
	slices.Sort(got)
	if want := []string{"a.html", "c.html", "e.html", "g.html"}; !slices.Equal(got, want) {
		t.Errorf("collected %q, want %q", got, want)
	}
}

// pearsOf returns the URLs of the archived versions of the numbered pages, sorted.
func pearsOf(t *testing.T, home, site string) (all []string) {
	t.Helper()
	for line := range strings.Lines(peerd(t, "export", "cdx", "--home", home)) {
		_, rest, _ := strings.Cut(line, `"url": "`)
		url, _, _ := strings.Cut(rest, `"`)
		if strings.HasPrefix(url, site+"/p") && strings.Contains(line, `"status": "200"`) {
			all = append(all, url)
		}
	}
	slices.Sort(all)
	return all
}
