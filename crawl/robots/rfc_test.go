package robots

import (
	"errors"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

// TestRFC9309 tests the requirements of the RFC on the content of the file, by section, with the
// line that must decide.
func TestRFC9309(t *testing.T) {
	const u, deny = "user-agent: *\n", "user-agent: *\ndisallow: /\n"
	for _, c := range []struct {
		section, what, robots, agent, path string
		allowed                            bool
		line                               int
	}{
		{"2.1", "rules before any group are ignored", "disallow: /\n" + u + "allow: /", "a", "/x", true, 3},
		{"2.1", "an empty file allows all", "", "a", "/x", true, 0},
		{"2.2", "lines end in LF", "user-agent: *\ndisallow: /x\n", "a", "/x", false, 2},
		{"2.2", "lines end in CR", "user-agent: *\r\rdisallow: /x\r", "a", "/x", false, 3},
		{"2.2", "lines end in CRLF", "user-agent: *\r\n\r\ndisallow: /x\r\n", "a", "/x", false, 3},
		{"2.2", "the last line needs no end", "user-agent: *\ndisallow: /x", "a", "/x", false, 2},
		{"2.2", "blanks around name and value", " user-agent :\t* \n\tdisallow\t: /x \n", "a", "/x", false, 2},
		{"2.2", "names in any letter case", "USER-agent: *\nDISallow: /x", "a", "/x", false, 2},
		{"2.2", "a comment ends a line", "user-agent: * # all\ndisallow: /x#y", "a", "/xz", false, 2},
		{"2.2", "a comment line stands within a group", u + "# c\ndisallow: /x", "a", "/x", false, 3},
		{"2.2", "a blank line ends no group", u + "\n\ndisallow: /x", "a", "/x", false, 4},
		{"2.2", "an empty value matches nothing", u + "disallow:\n", "a", "/x", true, 0},
		{"2.2", "a byte order mark is skipped", "\xef\xbb\xbf" + deny, "a", "/x", false, 2},
		{"2.2", "UTF-8 in a path", u + "disallow: /ü", "a", "/%C3%BC", false, 2},

		{"2.2.1", "tokens in any letter case", "user-agent: ExampleBot\ndisallow: /x", "EXAMPLEBOT", "/x", false, 2},
		{"2.2.1", "the token of a header", "user-agent: ExampleBot\ndisallow: /x", "ExampleBot/0.1 (+http://a/)", "/x", false, 2},
		{"2.2.1", "of one with a comment but no version", "user-agent: ExampleBot\ndisallow: /x",
			"ExampleBot (+http://a/)", "/x", false, 2},
		{"2.2.1", "an empty token has no group", "user-agent: 007\ndisallow: /", "", "/x", true, 0},
		{"2.2.1", "letters, - and _", "user-agent: a_B-c\ndisallow: /x", "A_b-C", "/x", false, 2},
		{"2.2.1", "the token ends at other bytes", "user-agent: foo/1\ndisallow: /x", "foo", "/x", false, 2},
		{"2.2.1", "no match of a part", "user-agent: foo\ndisallow: /", "foobar", "/x", true, 0},
		{"2.2.1", "no match by a longer one", "user-agent: foobar\ndisallow: /", "foo", "/x", true, 0},
		{"2.2.1", "all groups of a token are one", "user-agent: a\ndisallow: /x\n" + u +
			"disallow: /y\nuser-agent: a\ndisallow: /z", "a", "/z", false, 6},
		{"2.2.1", "and its first group counts too", "user-agent: a\ndisallow: /x\n" + u +
			"disallow: /y\nuser-agent: a\ndisallow: /z", "a", "/x", false, 2},
		{"2.2.1", "its own group alone", "user-agent: a\ndisallow: /x\n" + u + "disallow: /y", "a", "/y", true, 0},
		{"2.2.1", "one group for several tokens", "user-agent: a\nuser-agent: b\ndisallow: /x", "a", "/x", false, 3},
		{"2.2.1", "without a group of its own, that of *", "user-agent: b\ndisallow: /x\n" + u + "disallow: /y", "a", "/y", false, 4},
		{"2.2.1", "several groups of * are one", u + "disallow: /x\nuser-agent: b\ndisallow: /\n" +
			u + "disallow: /y", "a", "/y", false, 6},
		{"2.2.1", "no group at all, no rules", "user-agent: b\ndisallow: /", "a", "/x", true, 0},

		{"2.2.2", "paths compare from their beginning", u + "disallow: /y", "a", "/x/y", true, 0},
		{"2.2.2", "in their letter case", u + "disallow: /X", "a", "/x", true, 0},
		{"2.2.2", "the most octets win", u + "allow: /x/page.\ndisallow: /x", "a", "/x/page.html", true, 2},
		{"2.2.2", "whatever their order", u + "disallow: /x/page.\nallow: /x", "a", "/x/page.html", false, 2},
		{"2.2.2", "allow between equals", u + "disallow: /x\nallow: /x", "a", "/x", true, 3},
		{"2.2.2", "no match, allowed", u + "disallow: /x", "a", "/y", true, 0},
		{"2.2.2", "no rules, allowed", u, "a", "/y", true, 0},
		{"2.2.2", "/robots.txt itself", deny, "a", "/robots.txt", true, 0},
		{"2.2.2", "table: path with a query", u + "disallow: /foo/bar?baz=quz", "a", "/foo/bar?baz=quz", false, 2},
		{"2.2.2", "table: reserved bytes", u + "disallow: /foo/bar?baz=https://foo.bar", "a", "/foo/bar?baz=https://foo.bar", false, 2},
		{"2.2.2", "table: beyond ASCII", u + "disallow: /foo/bar/\u30C4", "a", "/foo/bar/%E3%83%84", false, 2},
		{"2.2.2", "table: escaped on both sides", u + "disallow: /foo/bar/%E3%83%84", "a", "/foo/bar/%E3%83%84", false, 2},
		{"2.2.2", "table: escaped without need", u + "disallow: /foo/bar/%62%61%7A", "a", "/foo/bar/baz", false, 2},
		{"2.2.2", "escapes in any letter case", u + "disallow: /%e3", "a", "/%E3", false, 2},

		{"2.2.3", "# begins a comment", u + "disallow: /x # /y\nallow: / # comment in line", "a", "/x", false, 2},
		{"2.2.3", "$ is the end", u + "allow: /this/path/exactly$\ndisallow: /", "a", "/this/path/exactly", true, 2},
		{"2.2.3", "$ is the end, so not this", u + "allow: /this/path/exactly$\ndisallow: /", "a", "/this/path/exactly/", false, 3},
		{"2.2.3", "* is anything", u + "allow: /this/*/exactly\ndisallow: /", "a", "/this/path/exactly", true, 2},
		{"2.2.3", "* is nothing too", u + "disallow: /*.gif$", "a", "/.gif", false, 2},
		{"2.2.3", "* as itself is escaped", u + "disallow: /path/file-with-a-%2A.html", "a", "/path/file-with-a-*.html", false, 2},
		{"2.2.3", "$ as itself is escaped", u + "disallow: /path/foo-%24", "a", "/path/foo-$", false, 2},
		{"2.2.3", "an escaped $ is no end", u + "disallow: /path/foo-%24", "a", "/path/foo-", true, 0},

		{"2.2.4", "a sitemap ends no group", "user-agent: a\nsitemap: https://a/\nuser-agent: b\ndisallow: /", "a", "/x", false, 4},
		{"2.2.4", "nor does an unknown line", "user-agent: a\nfoo: bar\nuser-agent: b\ndisallow: /", "a", "/x", false, 4},
		{"2.2.4", "nor between rules", u + "foo: bar\ndisallow: /x", "a", "/x", false, 3},

		{"2.3.1.5", "unreadable lines spare the others", "\x00\xff\n:::\n" + u + "\xfe\ndisallow: /x", "a", "/x", false, 5},
		{"2.3.1.5", "an HTML page has no rules", "<html>\n<p>user-agent: *<br>disallow: /", "a", "/x", true, 0},

		{"5.1", "example: foobot", example, "foobot", "/example/page.html", true, 9},
		{"5.1", "example: foobot elsewhere", example, "foobot", "/example/other.html", false, 8},
		{"5.1", "example: bazbot", example, "bazbot", "/example/page.html", false, 14},
		{"5.1", "example: quxbot", example, "quxbot", "/example/page.html", true, 0},
		{"5.1", "example: others", example, "a", "/publications/x", true, 4},
		{"5.1", "example: others, GIF", example, "a", "/a.gif", false, 2},
		{"5.2", "longest match",
			"user-agent: foobot\nallow: /example/page/\ndisallow: /example/page/disallowed.gif",
			"foobot", "/example/page/disallowed.gif", false, 3},

		{"Google", "no colon", "user-agent *\ndisallow /x", "a", "/x", false, 2},
		{"Google", "useragent", "useragent: *\ndisallow: /x", "a", "/x", false, 2},
		{"Google", "user agent", "user agent: *\ndisallow: /x", "a", "/x", false, 2},
		{"Google", "dissallow", u + "dissallow: /x", "a", "/x", false, 2},
		{"Google", "dissalow", u + "dissalow: /x", "a", "/x", false, 2},
		{"Google", "disalow", u + "disalow: /x", "a", "/x", false, 2},
		{"Google", "diasllow", u + "diasllow: /x", "a", "/x", false, 2},
		{"Google", "disallaw", u + "disallaw: /x", "a", "/x", false, 2},
		{"Google", "allowing index.html allows the folder", deny + "allow: /x/index.html", "a", "/x/", true, 3},
	} {
		got, line := ok(c.robots).Match(c.agent, mustParse(t, "http://example.org"+c.path))
		if got != c.allowed || line != c.line {
			t.Errorf("section %s, %s: Match() = %v, %d, want %v, %d",
				c.section, c.what, got, line, c.allowed, c.line)
		}
	}
}

// example is modelled on section 5.1 of the RFC.
const example = `User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
# what is allowed
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
`

// TestRFC9309Access tests sections 2.3 to 2.5: what follows from the outcome of the fetch. TestGet
// tests the redirects of section 2.3.1.2.
func TestRFC9309Access(t *testing.T) {
	file := response{status: 200, body: "user-agent: *\ndisallow: /x"}
	for _, c := range []struct {
		section, what string
		response      response
		x, y          bool // whether /x and /y are allowed
		lifetime      time.Duration
	}{
		{"2.3.1.1", "a file is followed", file, false, true, Lifetime},
		{"2.3.1.1", "an empty one too", response{status: 204}, true, true, Lifetime},
		{"2.3.1.3", "bad request: allow", response{status: 400, body: file.body}, true, true, Lifetime},
		{"2.3.1.3", "unauthorized: allow", response{status: 401}, true, true, Lifetime},
		{"2.3.1.3", "forbidden: allow", response{status: 403}, true, true, Lifetime},
		{"2.3.1.3", "not found: allow", response{status: 404}, true, true, Lifetime},
		{"2.3.1.3", "gone: allow", response{status: 410}, true, true, Lifetime},
		{"2.3.1.3", "too many requests: MAY allow, better not", response{status: 429}, false, false, RetryUnreachable},
		{"2.3.1.4", "server error: disallow", response{status: 500, body: file.body}, false, false, RetryUnreachable},
		{"2.3.1.4", "bad gateway: disallow", response{status: 502}, false, false, RetryUnreachable},
		{"2.3.1.4", "unavailable: disallow", response{status: 503}, false, false, RetryUnreachable},
		{"2.3.1.4", "gateway time-out: disallow", response{status: 504}, false, false, RetryUnreachable},
		{"2.3.1.4", "no answer: disallow", response{err: errors.New("time-out")}, false, false, RetryUnreachable},
		{"2.5", "at least 500 KiB are read", response{status: 200, body: padded(MaxBody)}, false, true, Lifetime},
	} {
		s := &script{responses: map[store.URL]response{robotsURL: c.response}}
		result, _ := Get(t.Context(), s, "https://example.org:8443")
		r := result.Compile()
		x, y := r.Allowed("a", "https://example.org/x"), r.Allowed("a", "https://example.org/y")
		lifetime := result.Expires.Sub(result.Fetched)
		if x != c.x || y != c.y || lifetime != c.lifetime {
			t.Errorf("section %s, %s: /x allowed %v, /y allowed %v, for %v, want %v, %v, %v",
				c.section, c.what, x, y, lifetime, c.x, c.y, c.lifetime)
		}
	}
	if MaxLifetime > 24*time.Hour || MaxBody < 500<<10 || maxRedirects < 5 {
		t.Errorf("MaxLifetime %v, MaxBody %d, maxRedirects %d violate sections 2.4, 2.5 or 2.3.1.2",
			MaxLifetime, MaxBody, maxRedirects)
	}
}

// padded returns a file of n bytes with a last line that disallows /x.
func padded(n int) string {
	const head, tail = "user-agent: *\n#", "\ndisallow: /x\n"
	return head + strings.Repeat(".", n-len(head)-len(tail)) + tail
}

// TestWithFallback tests sections 2.3.1.4 and 2.4: a file that becomes unreachable.
func TestWithFallback(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	known := Result{
		Fetched: start, Expires: start.Add(Lifetime), Status: 200,
		Body: []byte("user-agent: *\ndisallow: /x"),
	}
	absent := Result{Fetched: start, Expires: start.Add(Lifetime), Status: 404}
	down := func(d time.Duration) Result {
		at := start.Add(d)
		return Result{
			Fetched: at, Expires: at.Add(RetryUnreachable), Status: 503, Unreachable: true,
		}
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		what string
		old  Result
		now  []Result
		x, y bool
		day  int // on which it was first unreachable, -1 if it is not
	}{
		{"never known", Result{}, []Result{down(day)}, false, false, 1},
		{"down before", down(day), []Result{down(2 * day)}, false, false, 1},
		{"not yet long", Result{}, []Result{down(day), down(30 * day)}, false, false, 1},
		{"long", Result{}, []Result{down(day), down(30 * day), down(31 * day)}, true, true, 1},
		{"longer", Result{}, []Result{down(day), down(31 * day), down(99 * day)}, true, true, 1},
		{"back", Result{}, []Result{down(day), down(31 * day), known}, false, true, -1},
		{"known", known, []Result{down(day)}, false, true, 1},
		{"known, for long", known, []Result{down(day), down(40 * day)}, false, true, 1},
		{"known to be absent", absent, []Result{down(day)}, true, true, 1},
		{"gone", known, []Result{down(day), absent}, true, true, -1},
	} {
		result := c.old
		for _, now := range c.now {
			result = now.WithFallback(result)
			if result.Fetched != now.Fetched || result.Expires != now.Expires {
				t.Errorf("%s: in force from %v to %v, want %v to %v", c.what, result.Fetched,
					result.Expires, now.Fetched, now.Expires)
			}
		}
		r := result.Compile()
		x, y := r.Allowed("a", "http://h/x"), r.Allowed("a", "http://h/y")
		if x != c.x || y != c.y {
			t.Errorf("%s: /x allowed %v, /y allowed %v, want %v, %v", c.what, x, y, c.x, c.y)
		}
		var want time.Time
		if c.day >= 0 {
			want = start.Add(time.Duration(c.day) * day)
		}
		if result.UnreachableSince != want {
			t.Errorf("%s: unreachable since %v, want %v", c.what, result.UnreachableSince, want)
		}
	}
}
