package robots

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/crawl/canon"
	"peerd/store"
)

// ok compiles a file that was fetched successfully.
func ok(body string) *Rules { return Result{Status: 200, Body: []byte(body)}.Compile() }

func mustParse(t testing.TB, s string) store.URL {
	t.Helper()
	u, err := canon.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAllowed(t *testing.T) {
	const merged = "user-agent: peerd\ndisallow: /a\nuser-agent: b\ndisallow: /b\n" +
		"user-agent: peerd\ndisallow: /c"
	for _, c := range []struct {
		name, body, agent, path string
		want                    bool
	}{
		// RFC 9309, section 2.2.1: user-agent lines.
		{"no group", "disallow: /", "peerd", "/x", true},
		{"star", "user-agent: *\ndisallow: /", "peerd", "/x", false},
		{"other's group", "user-agent: foo\ndisallow: /", "peerd", "/x", true},
		{"case", "USER-AGENT: PeerD\nDISALLOW: /X", "peerd", "/X", false},
		{"product token of line", "user-agent: peerd/1.0\ndisallow: /", "peerd", "/x", false},
		{"product token of agent", "user-agent: peerd\ndisallow: /", "peerd/0.1 (+http://x)", "/x", false},
		{"no prefix match", "user-agent: peer\ndisallow: /", "peerd", "/x", true},
		{"own before star", "user-agent: *\ndisallow: /\nuser-agent: peerd\ndisallow: /y", "peerd", "/x", true},
		{"own is empty", "user-agent: *\ndisallow: /\n\nuser-agent: peerd\ndisallow:", "peerd", "/x", true},
		{"own without rules", "user-agent: *\ndisallow: /\n\nuser-agent: peerd\n", "peerd", "/x", true},
		{"groups merge", merged, "peerd", "/c", false},
		{"merged keeps first", merged, "peerd", "/a", false},
		{"run of agents", "user-agent: a\nuser-agent: peerd\ndisallow: /", "peerd", "/x", false},
		{"other lines do not end a run",
			"user-agent: peerd\nsitemap: http://x/\ncrawl-delay: 1\nuser-agent: b\ndisallow: /",
			"peerd", "/x", false},
		// Section 2.2.2: the most octets win, allow between equals.
		{"longest disallow", "user-agent: *\nallow: /p\ndisallow: /p/x", "peerd", "/p/x", false},
		{"longest allow", "user-agent: *\ndisallow: /p/\nallow: /p/x", "peerd", "/p/xy", true},
		{"equal length", "user-agent: *\ndisallow: /p\nallow: /p", "peerd", "/p", true},
		{"order does not count", "user-agent: *\nallow: /p\ndisallow: /p", "peerd", "/p", true},
		{"empty path", "user-agent: *\ndisallow: /", "peerd", "", false},
		{"query counts", "user-agent: *\ndisallow: /a?b", "peerd", "/a?bc", false},
		{"letter case of paths", "user-agent: *\ndisallow: /A", "peerd", "/a", true},
		{"robots.txt itself", "user-agent: *\ndisallow: /", "peerd", "/robots.txt", true},
		{"its query is a page", "user-agent: *\ndisallow: /", "peerd", "/robots.txt?x", false},
		// The same section: octets as escapes.
		{"beyond ASCII in the rule", "user-agent: *\ndisallow: /foo/ツ", "peerd", "/foo/%E3%83%84", false},
		{"beyond ASCII in the URL", "user-agent: *\ndisallow: /foo/%E3%83%84", "peerd", "/foo/ツ", false},
		{"lower-case escapes", "user-agent: *\ndisallow: /foo/%e3%83%84", "peerd", "/foo/ツ", false},
		{"escaped unreserved in the rule", "user-agent: *\ndisallow: /foo/bar/%62%61%7A", "peerd", "/foo/bar/baz", false},
		{"escaped unreserved in the URL", "user-agent: *\ndisallow: /~joe", "peerd", "/%7ejoe", false},
		{"escaped reserved stays", "user-agent: *\ndisallow: /a/b", "peerd", "/a%2Fb", true},
		{"space", "user-agent: *\ndisallow: /a b", "peerd", "/a%20b", false},
		{"quote in a query", "user-agent: *\ndisallow: /?'", "peerd", "/?'", false},
		{"quote in a path", "user-agent: *\ndisallow: /'", "peerd", "/'", false},
		{"lone percent", "user-agent: *\ndisallow: /100%", "peerd", "/100%", false},
		// Section 2.2.3: special characters.
		{"star in the middle", "user-agent: *\ndisallow: /a*c", "peerd", "/abbc", false},
		{"star matches nothing", "user-agent: *\ndisallow: /a*c", "peerd", "/ac", false},
		{"end", "user-agent: *\ndisallow: /*.gif$", "peerd", "/a.gif", false},
		{"not the end", "user-agent: *\ndisallow: /*.gif$", "peerd", "/a.gif?", true},
		{"not the end, query", "user-agent: *\ndisallow: /*.gif$", "peerd", "/a.gif?b", true},
		{"escaped star", "user-agent: *\ndisallow: /file-with-a-%2A.html", "peerd", "/file-with-a-*.html", false},
		{"escaped star is no wildcard", "user-agent: *\ndisallow: /file-with-a-%2A.html", "peerd", "/file-with-a-b.html", true},
		{"escaped dollar", "user-agent: *\ndisallow: /foo-%24", "peerd", "/foo-$", false},
		{"dollar in the middle", "user-agent: *\ndisallow: /a$b", "peerd", "/a$bc", false},
		{"comment", "user-agent: * # all\ndisallow: /a # b", "peerd", "/a", false},
		// Tolerance.
		{"byte order mark", "\xef\xbb\xbfuser-agent: *\ndisallow: /", "peerd", "/x", false},
		{"two bytes of a mark", "\xef\xbbuser-agent: *\ndisallow: /", "peerd", "/x", false},
		{"a byte of a mark", "\xefuser-agent: *\ndisallow: /", "peerd", "/x", false},
		{"end of a mark", "\xbb\xbfuser-agent: *\ndisallow: /", "peerd", "/x", true},
		{"CR", "user-agent: *\rdisallow: /", "peerd", "/x", false},
		{"CRLF and blanks", "\r\n user-agent : * \r\n\r\n disallow : / \r\n", "peerd", "/x", false},
		{"typing error", "useragent: *\ndissallow: /", "peerd", "/x", false},
		{"no colon", "user-agent *\ndisallow /", "peerd", "/x", false},
		{"HTML", "<html><body>user-agent: *<br>disallow: /</body></html>", "peerd", "/x", true},
		{"index.html", "user-agent: *\ndisallow: /\nallow: /a/index.html", "peerd", "/a/", true},
		{"index.html, a page", "user-agent: *\ndisallow: /\nallow: /a/index.html", "peerd", "/a/x", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := mustParse(t, "http://example.org"+c.path)
			if strings.HasSuffix(c.path, "?") { // a canonical URL has no empty query
				u += "?"
			}
			if got := ok(c.body).Allowed(c.agent, u); got != c.want {
				t.Errorf("Allowed(%q) = %v, want %v", u, got, c.want)
			}
		})
	}
}

func TestCrawlDelay(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       time.Duration
		found      bool
	}{
		{"none", "user-agent: *\ndisallow: /", 0, false},
		{"star", "user-agent: *\ncrawl-delay: 2", 2 * time.Second, true},
		{"after rules", "user-agent: *\ndisallow: /a\nallow: /b\ncrawl-delay: 2", 2 * time.Second, true},
		{"fraction", "user-agent: *\nCrawl-Delay: 0.25", 250 * time.Millisecond, true},
		{"zero", "user-agent: *\ncrawl-delay: 0", 0, true},
		{"own before star", "user-agent: *\ncrawl-delay: 9\nuser-agent: peerd\ncrawl-delay: 2", 2 * time.Second, true},
		{"own without", "user-agent: *\ncrawl-delay: 9\nuser-agent: peerd\ndisallow: /a", 0, false},
		{"other's", "user-agent: foo\ncrawl-delay: 9", 0, false},
		{"other's, right before", "user-agent: foo\ncrawl-delay: 9\nuser-agent: *\ndisallow: /x", 0, false},
		{"each its own", "user-agent: foo\ncrawl-delay: 9\nuser-agent: *\ncrawl-delay: 1", time.Second, true},
		{"run of agents", "user-agent: peerd\nuser-agent: foo\ncrawl-delay: 9", 9 * time.Second, true},
		{"longest of several", "user-agent: peerd\ncrawl-delay: 3\nuser-agent: peerd\ncrawl-delay: 2", 3 * time.Second, true},
		{"twice", "user-agent: peerd\ncrawl-delay: 3\ncrawl-delay: 2", 3 * time.Second, true},
		{"before any agent", "crawl-delay: 3\nuser-agent: *", 0, false},
		{"bounded", "user-agent: *\ncrawl-delay: 1e300", MaxCrawlDelay, true},
		{"infinite", "user-agent: *\ncrawl-delay: inf", MaxCrawlDelay, true},
		{"negative", "user-agent: *\ncrawl-delay: -1", 0, false},
		{"no number", "user-agent: *\ncrawl-delay: NaN", 0, false},
		{"with unit", "user-agent: *\ncrawl-delay: 5s", 0, false},
	} {
		if got, found := ok(c.body).CrawlDelay("peerd"); got != c.want || found != c.found {
			t.Errorf("%s: CrawlDelay = %v, %v; want %v, %v", c.name, got, found, c.want, c.found)
		}
	}
}

func TestSitemaps(t *testing.T) {
	got := ok("sitemap: http://a/1\nuser-agent: *\nSiteMap: http://a/2#x\ndisallow:").Sitemaps()
	if strings.Join(got, " ") != "http://a/1 http://a/2" {
		t.Errorf("Sitemaps() = %q", got)
	}
}

func TestCompileResults(t *testing.T) {
	deny := []byte("user-agent: *\ndisallow: /")
	u := mustParse(t, "http://example.org/x")
	for _, c := range []struct {
		result Result
		want   bool
	}{
		{Result{Status: 200, Body: deny}, false},
		{Result{Status: 204}, true},
		{Result{Status: 404, Body: deny}, true},
		{Result{Status: 301}, true},
		{Result{Status: 503, Unreachable: true}, false},
		{Result{}, true},
	} {
		if got := c.result.Compile().Allowed("peerd", u); got != c.want {
			t.Errorf("status %d, unreachable %v: Allowed() = %v, want %v",
				c.result.Status, c.result.Unreachable, got, c.want)
		}
	}
	if !(Result{Unreachable: true}).Compile().Allowed("peerd", "http://example.org/robots.txt") {
		t.Error("Allowed(/robots.txt) = false while it is unreachable, want true")
	}
}

// TestTruncatedLine verifies that a line that was cut is ignored.
func TestTruncatedLine(t *testing.T) {
	head := "user-agent: *\n"
	tail := "disallow: /"
	pad := "#" + strings.Repeat("x", MaxBody-len(head)-len(tail)-2) + "\n"
	u := mustParse(t, "http://example.org/x")
	if full := head + pad + tail; len(full) != MaxBody || !ok(full).Allowed("peerd", u) {
		t.Errorf("a partial line of a file of %d bytes was used", len(full))
	}
	if whole := head + pad[1:] + tail; ok(whole).Allowed("peerd", u) {
		t.Error("a complete line was ignored")
	}
}

// The work for one URL is bounded, and what is beyond the bound allows nothing.
func TestManyStars(t *testing.T) {
	const n = 5_000
	stars := "user-agent: *\n" + strings.Repeat("disallow:*ab*b\n", n)
	short, long := store.URL("http://h/"+strings.Repeat("a", 80)),
		store.URL("http://h/"+strings.Repeat("a", 2000))
	for _, c := range []struct {
		name, more  string
		u           store.URL
		want        bool
		line, lines int
	}{
		{"few bytes", "", short, true, 0, 0},
		{"a rule decides", "disallow: /\nallow: *a", short, true, n + 3, 0},
		{"many bytes", "", long, false, 0, n + 1},
		{"allowed beyond the bound", "disallow: /\nallow: /*a", long, false, 0, n + 1},
		{"allowed without stars", "allow: /aaaaaaa", long, true, n + 2, 0},
		{"another prefix", "disallow: /b*" + strings.Repeat("b", 20), short, true, 0, 0},
	} {
		allowed, line := ok(stars+c.more).Match("peerd", c.u)
		if allowed != c.want || c.lines == 0 && line != c.line ||
			c.lines > 0 && (line < 500 || line > c.lines) {
			t.Errorf("%s: Match() = %v by line %d", c.name, allowed, line)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := ok("user-agent: *\ndisallow: /*b$\ncrawl-delay: 1\nuser-agent: x\ndisallow: /")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				u := store.URL("http://h/" + strconv.Itoa(i*j) + "%2Ab")
				if r.Allowed("peerd", u) || r.Allowed("X", u) {
					t.Errorf("Allowed(%q) = true, want false", u)
				}
				r.CrawlDelay("peerd")
			}
		})
	}
	wg.Wait()
}
