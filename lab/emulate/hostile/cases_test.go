package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hrefs returns the links of a page, as written.
func hrefs(body string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`<a href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		out = append(out, strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	return out
}

// The traps are endless: each page links to pages that were not seen before.
func TestTrapsGoOn(t *testing.T) {
	entries := map[string]string{
		"calendar": "/events/2026/11/", "session-query": "/item?id=1",
		"session-path": "/s/0/item/1", "session-param": "/item/1",
		"counter": "/n/1", "soft-404": "/missing/page", "long-query": "/list?p=1",
		"random": "/maze/",
	}
	var names []string
	for name := range entries {
		names = append(names, name)
	}
	w := serve(t, names...)
	for name, path := range entries {
		seen := map[string]bool{}
		for range 8 {
			resp, body := get(t, w, name+"."+Domain+path)
			links := hrefs(body)
			if resp.StatusCode != 200 || len(links) == 0 {
				t.Fatalf("%s%s: %d, links %v", name, path, resp.StatusCode, links)
			}
			path = links[0]
			if seen[path] {
				t.Errorf("%s: %s comes again", name, path)
			}
			seen[path] = true
		}
	}
}

func TestTrapPages(t *testing.T) {
	w := serve(t, "calendar", "subdomains", "refresh", "facets", "repeating")
	_, root := get(t, w, "calendar."+Domain+"/")
	if n := len(hrefs(root)); n != realPages+1 {
		t.Errorf("the root has %d links", n)
	}
	_, one := get(t, w, "calendar."+Domain+"/real/1")
	_, two := get(t, w, "calendar."+Domain+"/real/2")
	if one == two || len(one) < 500 {
		t.Error("real pages look alike")
	}
	if resp, _ := get(t, w, "calendar."+Domain+"/events/2026/13/"); resp.StatusCode != 404 {
		t.Errorf("a 13th month: %d", resp.StatusCode)
	}
	if _, b := get(t, w, "calendar."+Domain+"/events/2026/12/"); !strings.Contains(b,
		`"/events/2027/01/"`) || !strings.Contains(b, `"/events/2026/11/"`) {
		t.Errorf("December: %s", b)
	}
	_, host := get(t, w, "xyz.subdomains."+Domain+"/")
	links := hrefs(host)
	if m := regexp.MustCompile(`^http://[0-9a-f]{32}\.subdomains\.` + Domain + `:\d+/$`); len(
		links) != 3 || !m.MatchString(links[len(links)-1]) {
		t.Errorf("a subdomain: %v", links)
	}
	if _, b := get(t, w, "refresh."+Domain+"/refresh/7"); !strings.Contains(b, "url=/refresh/8\"") {
		t.Errorf("refresh: %s", b)
	}
	if _, b := get(t, w, "facets."+Domain+"/shop?color=red"); !strings.Contains(b,
		"/shop?color=red&amp;size=s") || strings.Contains(b, "color=red&amp;color=") {
		t.Errorf("facets: %s", b)
	}
	if _, b := get(t, w, "repeating."+Domain+"/docs/docs/"); !strings.Contains(b, `"docs/"`) {
		t.Errorf("repeating: %s", b)
	}
}

func TestHeads(t *testing.T) {
	w := serve(t, "head-huge", "head-many", "head-1xx", "head-cut", "head-odd")
	at := func(name string) string { return name + "." + Domain + "/bad/1" }
	if n := len(raw(t, w, at("head-huge"), 1<<30)); n < 10<<20 {
		t.Errorf("a head of %d bytes", n)
	}
	if n := strings.Count(raw(t, w, at("head-many"), 1<<30), "\r\nX-Field-"); n != 100_000 {
		t.Errorf("%d fields", n)
	}
	if s := raw(t, w, at("head-1xx"), 1<<20); len(s) != 1<<20 || strings.Contains(s, " 200 ") ||
		strings.Count(s, "103 Early") < 10_000 {
		t.Error("interim answers end")
	}
	if s := raw(t, w, at("head-cut"), 1<<20); s != "HTTP/1.1 200 OK\r\nContent-Ty" {
		t.Errorf("half a head is %q", s)
	}
	for name, want := range odd {
		if got := raw(t, w, "head-odd."+Domain+"/odd/"+name, 1<<20); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Slow answers send one byte per second, or nothing.
func TestSlow(t *testing.T) {
	w := serve(t, "head-drip", "head-none", "body-stall")
	begin := time.Now()
	if s := raw(t, w, "head-drip."+Domain+"/bad/1", 2); s != "HT" {
		t.Errorf("%q", s)
	}
	if d := time.Since(begin); d < time.Second {
		t.Errorf("two bytes came within %v", d)
	}
	for name, want := range map[string]string{"head-none": "", "body-stall": "<p>half"} {
		nc := ask(t, w, name+"."+Domain+"/bad/1")
		br := bufio.NewReader(nc)
		for want != "" {
			line, err := br.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line != "\r\n" {
				continue
			}
			body := make([]byte, len(want))
			if _, err := io.ReadFull(br, body); err != nil || string(body) != want {
				t.Errorf("%s: %q, %v", name, body, err)
			}
			break
		}
		_ = nc.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if b, err := br.ReadByte(); err == nil {
			t.Errorf("%s: %q comes behind", name, b)
		}
	}
}

func TestBodies(t *testing.T) {
	w := serve(t, "body-50mb", "body-endless", "links-many", "links-denied", "links-hosts",
		"smuggle", "lengths", "chunks", "types")
	if resp, body := get(t, w, "body-50mb."+Domain+"/bad/1"); len(body) < 50_000_000 ||
		resp.ContentLength != int64(len(body)) {
		t.Errorf("%d bytes", len(body))
	}
	if s := raw(t, w, "body-endless."+Domain+"/bad/1", 8<<20); len(s) != 8<<20 {
		t.Errorf("the end came after %d bytes", len(s))
	}
	for name, want := range map[string]int{"links-many": 200_000, "links-denied": 200_001,
		"links-hosts": 20_001} {
		if _, body := get(t, w, name+"."+Domain+"/"); strings.Count(body, "<a href=") != want {
			t.Errorf("%s: %d links", name, strings.Count(body, "<a href="))
		}
	}
	if s := raw(t, w, "lengths."+Domain+"/framing/two", 1<<20); strings.Count(s,
		"Content-Length:") != 2 {
		t.Errorf("two lengths: %q", s)
	}
	if s := raw(t, w, "chunks."+Domain+"/framing/size-text", 1<<20); !strings.Contains(s,
		"chunked\r\n\r\nzz\r\n") {
		t.Errorf("chunks: %q", s)
	}
	if resp, body := get(t, w, "types."+Domain+"/html-as-png"); resp.Header.Get(
		"Content-Type") != "image/png" || !strings.Contains(body, "/hidden/1") {
		t.Errorf("types: %v", resp.Header)
	}
	nc := ask(t, w, "smuggle."+Domain+"/page/1")
	br := bufio.NewReader(nc)
	for _, poison := range []bool{false, true} { // two answers to one request
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); err != nil ||
			strings.Contains(string(b), "/poison") != poison {
			t.Errorf("smuggle: %q, %v", b, err)
		}
	}
}

func TestRobots(t *testing.T) {
	var names []string
	for _, c := range robotsCases() {
		names = append(names, c.Name)
	}
	w := serve(t, names...)
	for name, want := range map[string]string{
		"bom": "\ufeffUser-agent", "utf16": "\xff\xfeU\x00s\x00", "cr": "*\rDisallow: /private/\r",
		"crlf": "# all\r\n", "html": "<!doctype html>",
		"delay-absurd-1": "Crawl-delay: 1000000000\n", "gzip": "\x1f\x8b",
	} {
		if _, body := get(t, w, "robots-"+name+"."+Domain+"/robots.txt"); !strings.Contains(body,
			want) {
			t.Errorf("%s: %.60q", name, body)
		}
	}
	_, big := get(t, w, "robots-megabyte."+Domain+"/robots.txt")
	early, late := strings.Index(big, "Disallow: /private/"), strings.Index(big, "Disallow: /late/")
	if early < 50<<10 || early > 500<<10 || late < 500<<10 || len(big) < 1e6 {
		t.Errorf("the rules are at %d and %d of %d", early, late, len(big))
	}
	for name, codes := range map[string][]int{"recovers": {503, 200}, "403": {403, 403},
		"503": {503, 503}} {
		for i, code := range codes {
			if resp, _ := get(t, w, "robots-"+name+"."+Domain+
				"/robots.txt"); resp.StatusCode != code {
				t.Errorf("%s, answer %d: %d", name, i, resp.StatusCode)
			}
		}
	}
	for name, hops := range map[string]int{"redirect-path": 1, "redirect-five": 5,
		"redirect-host": 1} {
		url := "robots-" + name + "." + Domain + "/robots.txt"
		for i := 0; ; i++ {
			resp, body := get(t, w, url)
			to := resp.Header.Get("Location")
			if to == "" {
				if i != hops || body != forbids {
					t.Errorf("%s: %d redirects, then %q", name, i, body)
				}
				break
			}
			if host, rest, ok := strings.Cut(strings.TrimPrefix(to, "http://"), ":"); ok {
				url = host + rest[strings.IndexByte(rest, '/'):]
			} else {
				url = "robots-" + name + "." + Domain + to
			}
		}
	}
}

func TestThrottle(t *testing.T) {
	w := serve(t, "throttle-seconds", "throttle-date", "throttle-always")
	begin := time.Now()
	resp, _ := get(t, w, "throttle-seconds."+Domain+"/")
	if again, _ := get(t, w, "throttle-seconds."+Domain+"/"); resp.StatusCode != 429 ||
		resp.Header.Get("Retry-After") != "2" || again.StatusCode != 200 {
		t.Errorf("%d %v, then %d", resp.StatusCode, resp.Header, again.StatusCode)
	}
	late := time.Since(begin) > time.Second // or else what follows came too early
	begin = time.Now()
	resp, _ = get(t, w, "throttle-date."+Domain+"/")
	at, err := http.ParseTime(resp.Header.Get("Retry-After"))
	if d := at.Sub(begin); err != nil || d < time.Second || d > 4*time.Second+time.Since(begin) {
		t.Errorf("a date in %v, %v", d, err)
	}
	if faults := w.Judge("throttle-seconds", 0); !late &&
		!strings.Contains(strings.Join(faults, "\n"), "too early") {
		t.Errorf("a client that does not wait: %q", faults)
	}
}

// All spellings denote the same address, according to the parsers of the standard library
// for the forms that they support.
func TestSpellings(t *testing.T) {
	a := netip.MustParseAddr("127.67.3.9")
	seen := map[string]bool{}
	for _, s := range spellings(a) {
		if seen[s] {
			t.Errorf("%s twice", s)
		}
		seen[s] = true
		if n, err := strconv.ParseUint(s, 0, 32); err == nil && n != 127<<24|67<<16|3<<8|9 {
			t.Errorf("%s is another address", s)
		}
		if p, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil && p.Is4In6() &&
			p.Unmap() != a {
			t.Errorf("%s is another address", s)
		}
	}
	w := serve(t, "private-links", "private-redirects")
	_, body := get(t, w, "private-links."+Domain+"/")
	for _, want := range []string{"http://169.254.169.254:", "http://[::1]:", "http://localhost:",
		fmt.Sprintf("http://%v:", w.cases[0].forbid)} {
		if !strings.Contains(body, want) {
			t.Errorf("no link to %s", want)
		}
	}
	if resp, _ := get(t, w, "private-redirects."+Domain+"/to/0"); resp.Header.Get(
		"Location") != w.caseOf("private-redirects."+Domain).forbidURL(w) {
		t.Errorf("redirect to %v", resp.Header)
	}
}

func (c *Case) forbidURL(w *Web) string {
	return fmt.Sprintf("http://%v:%d/latest/meta-data/", c.forbid, w.Port())
}
