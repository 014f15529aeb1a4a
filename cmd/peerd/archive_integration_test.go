//go:build integration

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/cmd/internal/cli"
	"peerd/lab/emulate/web"
)

// bodies fetches the pages of the web directly, without being audited.
func bodies(t *testing.T, w *web.Web) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for page := range w.Pages() {
		u, err := url.Parse(page)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+w.BindAddr().String()+u.RequestURI(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = u.Host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", page, resp.Status, err)
		}
		all[page] = body
	}
	return all
}

// checkArchive reads the archive of a home and all its exports, and returns the pages in it.
func checkArchive(t *testing.T, home string, want map[string][]byte) (pages map[string]bool) {
	t.Helper()
	out := peerd(t, "export", "warc", "--home", home)
	all := readWARC(t, []byte(out))
	checkWARC(t, all)
	pages = map[string]bool{}
	answers := 0
	for _, r := range all {
		if r.header["warc-type"] != "response" {
			continue
		}
		answers++
		status, body := r.http()
		if page, ok := want[r.url()]; ok && status == "200" {
			pages[r.url()] = true
			if !bytes.Equal(page, body) {
				t.Errorf("archived %[2]d bytes of %[1]s, want %[3]d", r.url(), len(body), len(page))
			}
		}
	}
	index := readCDX(t, peerd(t, "export", "cdx", "--home", home))
	checkCDX(t, index, archiveFiles(t, home))
	if len(index) < answers { // a peer that runs may have added some since
		t.Errorf("index has %d lines for %d responses", len(index), answers)
	}
	texts := readTexts(t, peerd(t, "export", "text", "--home", home))
	for u := range pages {
		if texts[u].Title == "" || texts[u].Text == "" || texts[u].Charset != "utf-8" {
			t.Errorf("%s: text %.60q, title %q, charset %q", u, texts[u].Text, texts[u].Title,
				texts[u].Charset)
		}
	}
	return pages
}

// After a kill at any time, the archive is complete and holds every listed page.
func TestArchiveAfterKills(t *testing.T) {
	t.Parallel()
	const gap = 3 * time.Millisecond
	w, flags := serveWeb(t, web.Config{Sites: 2, Pages: 240, Seed: 31, MinDelay: gap,
		Delay: 5 * time.Millisecond, Bind: "127.0.0.1:0"}, 107)
	want := bodies(t, w)
	home := filepath.Join(t.TempDir(), "home")
	args := append([]string{"crawl", w.Seed(), "--home", home, "--warc", "--scope", "any"},
		flags...)
	seed := uint64(time.Now().UnixNano())
	t.Logf("kills follow from seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	least := 1
	if testing.Short() { // fewer kills: each is followed by a dozen commands
		least = 60
	}
	for pages := 0; pages < 180; {
		pages += least + rng.IntN(60)
		p := start(t, args...)
		eventually(t, 20*time.Second, "more pages", func() (bool, any) {
			got := w.Audit().PagesFetched
			return got >= pages || !p.running(), got
		})
		if p.running() { // it alone has the store open; the archive is open to all
			checkArchive(t, home, want)
			if p.pause(); w.Audit().PagesFetched < 220 { // it has the store open
				refused(t, cli.ExitFailed, "in use by another process: "+home, "export", "links",
					"--home", home)
			}
		}
		p.kill()
		// The archive is valid even before it is repaired.
		checkArchive(t, home, want)
	}
	var r crawlReport
	if err := json.Unmarshal([]byte(peerd(t, append(args, "--json")...)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Pages != 240 || r.End != "done" || r.Left != 0 {
		t.Errorf("summary = %+v", r)
	}
	got := checkArchive(t, home, want)
	if len(got) != 240 {
		t.Errorf("archived %d of 240 pages", len(got))
	}
	checkFinished(t, home)
	listed, edges, ofFirst := map[string]bool{}, 0, 0
	host := w.Sites()[0].Host
	for line := range strings.Lines(peerd(t, "export", "links", "--home", home, "-o", "-")) {
		var l struct {
			URL, Outcome string
			Outlinks     []string
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		listed[l.URL] = l.Outcome == "ok"
		edges += len(l.Outlinks)
		if u, err := url.Parse(l.URL); err == nil && u.Hostname() == host {
			ofFirst += len(l.Outlinks)
		}
	}
	for rows, args := range map[int][]string{edges: nil, ofFirst: {"--host", host},
		0: {"--since", "2999-01-01"}} {
		args = append([]string{"export", "graph", "--home", home}, args...)
		got := strings.Count(peerd(t, args...), "\n") - 1
		if got != rows {
			t.Errorf("peerd %v = %d rows, want %d", args, got, rows)
		}
	}
	for u := range want {
		if !listed[u] {
			t.Errorf("export links does not list %s", u)
		}
	}
	if n := w.Audit().RobotsViolations; n > 0 {
		t.Errorf("sent %d requests against robots.txt", n)
	}
}

// checkFinished compares the exports with the files of a complete archive.
func checkFinished(t *testing.T, home string) {
	t.Helper()
	files := archiveFiles(t, home)
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var whole []byte
	for _, name := range names {
		checkWARC(t, readWARC(t, files[name]))
		whole = append(whole, files[name]...)
	}
	if open, _ := filepath.Glob(filepath.Join(home, "archive", "*.open")); len(open) > 0 {
		t.Errorf("unfinished files: %q", open)
	}
	out := filepath.Join(t.TempDir(), "all.warc.gz")
	peerd(t, "export", "warc", "--home", home, "-o", out)
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("export warc = %d bytes, want %d, %v", len(got), len(whole), err)
	}
}

// The pages of a running peer can be exported at any time.
func TestExportsFromARunningPeer(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 1, Pages: 150, Seed: 32,
		MinDelay: 10 * time.Millisecond, Bind: "127.0.0.1:0"}, 108)
	want := bodies(t, w)
	ds := network(t, w, append(flags, "--warc"), "/ip4/127.0.0.1/tcp/0")
	peerd(t, "seed", "--home", ds[0].home, w.Seed())
	for pages := 20; pages <= 120; pages += 50 {
		eventually(t, 20*time.Second, "more pages", func() (bool, any) {
			s, err := ds[0].ask()
			return err == nil && s.PagesFetched >= int64(pages), s.PagesFetched
		})
		listed := pagesOf(ds[0].links())
		got := checkArchive(t, ds[0].home, want)
		for _, u := range listed {
			if !got[u] {
				t.Errorf("%s is listed but not archived", u)
			}
		}
		if len(listed) < pages {
			t.Errorf("listed %d of %d pages", len(listed), pages)
		}
	}
	awaitIdle(t, 30*time.Second, ds)
	s := ds[0].status()
	if s.Archive == nil || s.Archive.Files != 1 || s.Archive.Bytes == 0 ||
		s.Archive.Exchanges < 150 || s.Archive.Refused != 0 || len(s.Blocked) > 0 {
		t.Errorf("archive = %+v, blocked = %q", s.Archive, s.Blocked)
	}
	before := checkArchive(t, ds[0].home, want)
	if code := ds[0].terminate(10 * time.Second); code != 0 {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
	if after := checkArchive(t, ds[0].home, want); len(before) != 150 || len(after) != 150 {
		t.Errorf("exported %d pages before the stop and %d after it, want 150",
			len(before), len(after))
	}
	checkFinished(t, ds[0].home)
}
