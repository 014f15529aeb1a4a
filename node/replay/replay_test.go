package replay

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"peerd/store/warc"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// put appends a response to an archive: n minutes after start.
func put(t *testing.T, a *warc.Archive, n int, url, head, body string) {
	t.Helper()
	_, err := a.Append(warc.Exchange{URL: url, Time: start.Add(time.Duration(n) * time.Minute),
		Response: []byte("HTTP/1.1 " + head + "\r\n\r\n"), Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
}

const htmlHead = "200 OK\r\nContent-Type: text/html; charset=iso-8859-1\r\nSet-Cookie: a=b" +
	"\r\nRefresh: 0;url=http://out.example/\r\nContent-Language: de"

// serve returns the address of a replay of an archive that fill has written.
func serve(t *testing.T, fill func(a *warc.Archive)) string {
	t.Helper()
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	fill(a)
	s := httptest.NewServer(New(Config{Archive: &a.Reader, Source: "peer Q1"}))
	t.Cleanup(s.Close)
	return s.URL
}

// get requests a path without following redirects.
func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func fill(t *testing.T) func(a *warc.Archive) {
	return func(a *warc.Archive) {
		put(t, a, 0, "http://a.example/", htmlHead, "<body>old caf\xe9 <a href=x?q=1#f>x</a>")
		put(t, a, 10, "http://a.example/", htmlHead, "<body>new")
		put(t, a, 1, "http://a.example/x?q=1", "404 Not Found\r\nContent-Type: text/plain", "none")
		put(t, a, 2, "http://r.example/", "301 Moved\r\nLocation: https://r.example/y", "")
		put(t, a, 3, "https://r.example/y", htmlHead, "<body>target")
		put(t, a, 4, "http://loop.example/", "301 Moved\r\nLocation: /", "")
		_, err := a.Append(warc.Exchange{
			URL: "http://a.example/", Time: start.Add(20 * time.Minute),
			Response: []byte("HTTP/1.1 304 Not Modified\r\n\r\n"),
			Revisit:  &warc.Revisit{Profile: warc.NotModified, URL: "http://a.example/"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemento(t *testing.T) {
	base := serve(t, fill(t))
	for _, c := range []struct {
		path     string
		code     int
		location string
		body     string // a part
	}{
		{"/web/20260102030405/http://a.example/", 200, "", "old café"},
		{"/web/20260102030405/http://a.example/", 200, "",
			`<a href="/web/20260102030405/http://a.example/x?q=1#f">`},
		{"/web/20260102030405/http://a.example/", 200, "", "2026-01-02 03:04:05 UTC by peer Q1"},
		{"/web/20260102030405id_/http://a.example/", 200, "", "<body>old caf\xe9 <a href=x?q=1#f>"},
		{"/web/20260102030904/http://a.example/", 302, "/web/20260102030405/http://a.example/", ""},
		{"/web/20260102030906/http://a.example/", 302, "/web/20260102031405/http://a.example/", ""},
		{"/web/2026if_/http://a.example/", 302, "/web/20260102030405if_/http://a.example/", ""},
		{"/web/20260102032405/http://a.example/", 200, "", "new"}, // a revisit
		{"/web/http:/a.example", 302, "/web/20260102032405/http://a.example/", ""},
		{"/web/20260102030505/http://a.example/x?q=1", 404, "", "none"},
		{"/web/20260102030605/http://r.example/", 301,
			"/web/20260102030605/https://r.example/y", ""},
		{"/web/20260102030605/https://r.example/y", 302,
			"/web/20260102030705/https://r.example/y", ""},
		{"/web/20260102030805/http://loop.example/", 404, "", "Not archived"},
		{"/web/2026/http://b.example/", 404, "", "<code>http://b.example/</code>"},
		{"/web/2026/ftp://b.example/", 400, "", ""},
		{"/web/2026x/http://b.example/", 400, "", ""},
		{"/web/20261301000000/http://b.example/", 400, "", ""},
		{"/web/*/http://a.example/", 200, "", "/web/20260102030505/http://a.example/x?q=1"},
		{"/web?url=http://a.example/", 302, "/web/*/http://a.example/", ""},
		{"/", 200, "", "<form"},
		{"/nothing", 404, "", ""},
	} {
		resp, body := get(t, base+c.path)
		if resp.StatusCode != c.code || resp.Header.Get("Location") != c.location ||
			!strings.Contains(body, c.body) {
			t.Errorf("%s: %d %q\n%s\nwant %+v", c.path, resp.StatusCode,
				resp.Header.Get("Location"), body, c)
		}
		if resp.Header.Get("Set-Cookie")+resp.Header.Get("Refresh") != "" ||
			resp.StatusCode < 300 && !strings.Contains(
				resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: header %v", c.path, resp.Header)
		}
	}
	resp, _ := get(t, base+"/web/20260102031405/http://a.example/")
	link := resp.Header.Get("Link")
	for _, want := range []string{`<http://a.example/>; rel="original"`,
		`/web/20260102030405/http://a.example/>; rel="prev memento"`,
		`/web/20260102032405/http://a.example/>; rel="next memento"`, `rel="timemap"`} {
		if !strings.Contains(link, want) {
			t.Errorf("Link is %s, want %s", link, want)
		}
	}
	if got := resp.Header.Get("Memento-Datetime"); got != "Fri, 02 Jan 2026 03:14:05 GMT" {
		t.Errorf("Memento-Datetime is %q", got)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "sandbox;") ||
		resp.Header.Get("Content-Language") != "de" {
		t.Errorf("header %v", resp.Header)
	}
}

// A redirect to a URL that is not archived, and has the same key, does not lead back to itself.
func TestRedirectToSameKey(t *testing.T) {
	base := serve(t, func(a *warc.Archive) {
		put(t, a, 0, "http://a.example/", "301 Moved\r\nLocation: https://a.example/", "")
		put(t, a, 0, "http://b.example/x", "301 Moved\r\nLocation: /x/", "")
		put(t, a, 1, "http://b.example/x/", htmlHead, "<body>target")
	})
	for url, want := range map[string]string{
		"http://a.example/":  "", // not archived
		"http://b.example/x": "/web/20260102030405/http://b.example/x/",
	} {
		resp, _ := get(t, base+"/web/20260102030405/"+url)
		if got := resp.Header.Get("Location"); got != want ||
			(resp.StatusCode == http.StatusNotFound) != (want == "") {
			t.Errorf("%s: %d %q, want %q", url, resp.StatusCode, got, want)
		}
	}
}

func TestTimeGate(t *testing.T) {
	base := serve(t, fill(t))
	for at, want := range map[string]string{
		"Fri, 02 Jan 2026 03:05:00 GMT": "20260102030405",
		"Fri, 02 Jan 2026 03:14:00 GMT": "20260102031405",
		"Fri, 02 Jan 1970 03:14:00 GMT": "20260102030405",
	} {
		resp, _ := get(t, base+"/web/http://a.example/", "Accept-Datetime", at)
		if got := resp.Header.Get("Location"); got != "/web/"+want+"/http://a.example/" ||
			resp.Header.Get("Vary") != "accept-datetime" {
			t.Errorf("%s: %q, %v", at, got, resp.Header)
		}
	}
	resp, _ := get(t, base+"/web/http://a.example/", "Accept-Datetime", "x")
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an invalid time: %d", resp.StatusCode)
	}
	_, body := get(t, base+"/web/timemap/link/http://a.example/")
	const want = `/web/20260102030405/http://a.example/>; rel="memento"; ` +
		`datetime="Fri, 02 Jan 2026 03:04:05`
	if n := strings.Count(body, `rel="memento"`); n != 3 || !strings.Contains(body, want) {
		t.Errorf("%d captures:\n%s", n, body)
	}
}

func TestHost(t *testing.T) {
	base := serve(t, fill(t))
	resp, _ := get(t, base+"/cdx?url=a.example", "Host", "evil.example")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a request for another host: %d", resp.StatusCode)
	}
	for addr, ok := range map[string]bool{"127.0.0.1:0": true, "[::1]:80": true,
		"0.0.0.0:80": false, "192.0.2.1:80": false, "localhost:80": false, ":80": false} {
		if err := CheckAddr(addr); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestCDX(t *testing.T) {
	base := serve(t, fill(t))
	for _, c := range []struct {
		query string
		lines int
		part  string
	}{
		{"url=http://a.example/", 3,
			`example,a)/ 20260102030405 {"url": "http://a.example/", "mime"`},
		{"url=a.example/*", 4, `"status": "404"`},
		{"url=a.example/&matchType=host", 4, ""},
		{"url=*.example", 7, "example,loop)/"},
		{"url=a.example&from=2026010203041&output=json", -1, ""},
		{"url=a.example&from=202601020314&output=json", 2, `"timestamp": "20260102031405"`},
		{"url=a.example&to=202601020314&fl=url,timestamp", 2,
			"http://a.example/ 20260102031405\n"},
		{"url=a.example&limit=1", 1, ""},
		{"url=zzz.example", 0, ""},
		{"url=a.example&filter=status:200", 2, ""},
		{"url=*.example&filter=!status:20.&filter=mime:^text", 1, `"status": "404"`},
		{"url=*.example&filter==mime:text&filter=~url:http:", 0, ""},
		{"url=*.example&filter=~url:https&fl=url", 1, "https://r.example/y\n"},
		{"url=a.example&filter=status:(", -1, "RE2"},
		{"url=a.example&filter=some:x", -1, "not a field"},
		{"url=a.example&filter=url:" + strings.Repeat("x", 200), -1, "200 bytes"},
		{"url=a.example" + strings.Repeat("&filter=url:x", 9), -1, "8 filters"},
		{"url=a.example&sort=closest&closest=20260102031500&limit=2&fl=timestamp", 2,
			"20260102031405\n20260102032405\n"},
		{"url=a.example&sort=closest&closest=2026&limit=100&fl=timestamp", 3, "20260102030405\n"},
		{"url=a.example&sort=closest&closest=&limit=1&fl=timestamp", 1, "20260102032405\n"},
		{"url=a.example&sort=up", -1, ""},
		{"url=a.example&resumeKey=x", -1, "resumeKey"},
		{"url=a.example&sort=closest&resumeKey=a+0", -1, "cannot be combined"},
		{"url=a.example&limit=-1", -1, "limit"},
		{"url=a.example&other=1", -1, "not supported"},
		{"url=a.example&matchType=some", -1, ""},
		{"", -1, "url is missing"},
	} {
		resp, body := get(t, base+"/cdx?"+c.query)
		n := strings.Count(body, "\n")
		if resp.StatusCode == 400 {
			n = -1
		}
		if n != c.lines || !strings.Contains(body, c.part) {
			t.Errorf("%s: %d, %d lines\n%s", c.query, resp.StatusCode, n, body)
		}
	}
}

// TestResume reads all captures by following the links to the next ones, among them several of the
// same second.
func TestResume(t *testing.T) {
	base := serve(t, func(a *warc.Archive) {
		for i := range 20 {
			put(t, a, i/7, "http://a.example/"+fmt.Sprint(i%2), htmlHead, fmt.Sprint(i))
		}
	})
	_, want := get(t, base+"/cdx?url=a.example/*")
	for _, limit := range []string{"1", "3", "7", "20"} {
		got := ""
		for path := "/cdx?url=a.example/*&limit=" + limit; path != ""; {
			resp, body := get(t, base+path)
			got += body
			path, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
			if len(got) > len(want) {
				break
			}
		}
		if got != want {
			t.Errorf("limit %s: got\n%s\nwant\n%s", limit, got, want)
		}
	}
}

// TestLarge shows that large bodies are sent as they are, and are not rewritten.
func TestLarge(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", maxRewrite/16+1)
	links := strings.Repeat("<a href=x>", 1<<20)
	base := serve(t, func(a *warc.Archive) {
		put(t, a, 0, "http://a.example/html", htmlHead, large)
		put(t, a, 0, "http://a.example/"+strings.Repeat("d", 1000)+"/", htmlHead, links)
		put(t, a, 0, "http://a.example/bin", "200 OK\r\nContent-Type: video/mp4", large)
	})
	for path, ok := range map[string]bool{"html": false, "bin": true,
		strings.Repeat("d", 1000) + "/": false} {
		resp, body := get(t, base+"/web/20260102030405/http://a.example/"+path)
		if ok && (body != large || resp.ContentLength != int64(len(large))) {
			t.Errorf("%.9s: %d bytes", path, len(body))
		}
		if !ok && (resp.StatusCode != 500 || !strings.Contains(body, "too large") ||
			!strings.Contains(body, "/web/20260102030405id_/http://a.example/"+path)) {
			t.Errorf("%.9s: %d, %.200s", path, resp.StatusCode, body)
		}
		resp, body = get(t, base+"/web/20260102030405id_/http://a.example/"+path)
		if body != large && body != links || resp.ContentLength != int64(len(body)) {
			t.Errorf("%.9s: %d bytes with id_", path, len(body))
		}
	}
}

func TestRewrite(t *testing.T) {
	const p = "/web/1if_/http://a.example"
	for _, c := range [][2]string{
		{`<a href="q">x</a>`, `<a href="R/d/q">x</a>`},
		{`<base href="/e/"><img src=i.png>`, `<img src="R/e/i.png">`},
		{`<a href="javascript:alert(1)" onclick="x()">`, `<a href="#">`},
		{`<a href=" java` + "\t" + `script:x">`, `<a href="#">`},
		{`<a href="#f" target=_top>`, `<a href="#f">`},
		{`<a href="//b.example/">`, `<a href="/web/1/http://b.example/">`},
		{`a<script>x("<b>")</script>b`, `ab`},
		{`a<script src=x />y</script>b`, `ab`},
		{`<meta http-equiv=refresh content="0;url=//b">`, ``},
		{`<iframe src="/f"></iframe>`, `<iframe src="` + p + `/f"></iframe>`},
		{`<img srcset="a.png 1x, b.png 2x">`, `<img srcset="R/d/a.png 1x, R/d/b.png 2x">`},
		{`<p style="background:url(x.png)">`, `<p style="background:url(&#34;R/d/x.png&#34;)">`},
		{`<style>@import "s.css";b{c:url( 'x' )}</style>`,
			`<style>@import "R/d/s.css";b{c:url( "R/d/x" )}</style>`},
		{`<noscript><img src=/i></noscript>`, `<noscript><img src="R/i"></noscript>`},
		{`<iframe srcdoc="<script>x</script><a href=/q>">`,
			`<iframe srcdoc="&lt;a href=&#34;R/q&#34;&gt;">`},
		{`<link rel=stylesheet href=s integrity=x>`, `<link rel="stylesheet" href="R/d/s">`},
		{`<img src="data:image/png;base64,AA">`, `<img src="data:image/png;base64,AA">`},
		{`<a href="data:text/html,x">`, `<a href="#">`},
		{`&lt;b&gt; <textarea><a href=x></textarea>`,
			`&lt;b&gt; <textarea>&lt;a href=x></textarea>`},
		{`<svg><style><script>x</script></style>`, `<svg><style>\3c script>x\3c /script></style>`},
		{`<svg><set attributeName="xlink:href" to=//b>`, `<svg><set to="//b">`},
		{`<<script></script>a href=//b>`, `&lt;a href=//b>`},
		{`<!-- <script> --><style><!-- b{} --></style>`, `<style> b{} --></style>`},
	} {
		in, want := c[0], strings.ReplaceAll(c[1], "R/", "/web/1/http://a.example/")
		w := rewriter{prefix: "/web/1", base: "http://a.example/d/p", room: 1000}
		var out bytes.Buffer
		if err := w.html(&out, []byte(in), ""); err != nil || out.String() != want {
			t.Errorf("%s\n got %s, %v\nwant %s", in, out.String(), err, want)
		}
	}
}

// FuzzRewrite parses rewritten pages as a browser does without scripts: they have no script, no
// event handler and no URL that leaves the replay.
func FuzzRewrite(f *testing.F) {
	f.Add(`<a href="//b.example/"><script>x</script><base href=x><img srcset="a 1x,b" onerror=x>`)
	f.Add(`<p style="a:url('b')"><style>@import url(x)</style><noscript><svg><script/>`)
	f.Add(`<svg><title><script>x</script></title><style><img src=//b></style>`)
	f.Add(`<svg><![CDATA[<a href=//b>]]>`)
	f.Add(`<math><xmp><a href=//b></xmp><plaintext><script>`)
	f.Add(`<iframe srcdoc="<a href=//b>" src=javascript:x><a href=//b></iframe><!--><script>-->`)
	f.Add(`<a =href=//b '"href=//b / xlink:href=//b><button formaction=//b><table background=//b>`)
	f.Fuzz(func(t *testing.T, page string) {
		w := rewriter{prefix: "/web/1", base: "http://a.example/", room: 1 << 30}
		var out bytes.Buffer
		if w.html(&out, []byte(page), "") != nil {
			return
		}
		root, err := html.ParseWithOptions(bytes.NewReader(out.Bytes()),
			html.ParseOptionEnableScripting(false))
		if err != nil {
			t.Skip()
		}
		for n := range root.Descendants() {
			if fault := faultOf(n); fault != "" {
				t.Errorf("%q becomes %q with %s", page, out.String(), fault)
			}
		}
	})
}

// faultOf says what is wrong with an element of a rewritten page; "": nothing.
func faultOf(n *html.Node) string {
	if n.Type != html.ElementNode {
		return ""
	}
	switch n.Data {
	case "script", "base":
		return n.Data
	}
	for _, a := range n.Attr {
		refs := []string{a.Val}
		switch {
		case strings.HasPrefix(a.Key, "on"):
			return a.Key
		case a.Key == "srcset":
			refs = nil
			for ref := range strings.SplitSeq(a.Val, ", ") {
				refs = append(refs, ref)
			}
		case !slices.Contains([]string{"href", "xlink:href", "src", "action", "formaction",
			"poster", "background", "data"}, a.Key):
			continue
		}
		for _, to := range refs {
			if to != "" && to[0] != '#' && !strings.HasPrefix(to, "/web/1/http") &&
				!strings.HasPrefix(to, "/web/1if_/http") &&
				!strings.HasPrefix(strings.ToLower(to), "data:image/") {
				return a.Key + "=" + to
			}
		}
	}
	return ""
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{
		"20260102030405id_/http://a.example/", "*/a.example", "http:/a", "2026",
		"timemap/link/http://a.example/?x=y", "1_/x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTarget(s)
		if err != nil {
			return
		}
		again, err := parseTarget(strings.TrimPrefix(mementoPath(got.at, got.modifier,
			string(got.url)), "/web/"))
		if got.kind == memento && (err != nil || again.url != got.url && got.exact) {
			t.Error(fmt.Errorf("%q: %+v, again %+v: %w", s, got, again, err))
		}
	})
}
