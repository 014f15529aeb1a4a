package robots

import (
	"strings"
	"testing"

	"peerd/crawl/canon"
)

func FuzzCompile(f *testing.F) {
	f.Add([]byte("user-agent: *\ndisallow: /a*b$\nallow: /%7e\ncrawl-delay: 1.5\nsitemap: http://x/"), "/ab")
	f.Add([]byte("\xef\xbb\xbfUser-agent peerd\r\rDisallow\t/%e3%zz\x00"), "/%e3")
	f.Add([]byte("crawl-delay:\n:\n a \nuser-agent\nallow:/index.html"), "/?")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		r := Verdict{Status: 200, Body: body}.Compile()
		if d, found := r.CrawlDelay("peerd"); d < 0 || d > MaxCrawlDelay || !found && d != 0 {
			t.Fatalf("delay %v, %v", d, found)
		}
		r.Sitemaps()
		u, err := canon.Parse("http://example.org" + path)
		if err != nil {
			return
		}
		if len(r.byAgent) == 0 && !r.Allowed("peerd", u) {
			t.Fatalf("no group, but %q is denied", u)
		}
		r.Allowed("peerd", u)
	})
}

// FuzzMatch: the line that decides exists, and is a rule of that kind.
func FuzzMatch(f *testing.F) {
	f.Add([]byte("user-agent: *\ndisallow: /a\rallow: /a/index.html\r\ndissallow: /b*$"), "peerd/1 (x)", "/a/")
	f.Add([]byte("\xef\xbb\xbfuser-agent: a b\n\n\ndisallow /%e3"), "a", "/%e3?")
	f.Fuzz(func(t *testing.T, body []byte, agent, path string) {
		u, err := canon.Parse("http://example.org" + path)
		if err != nil {
			return
		}
		r := Verdict{Status: 200, Body: body}.Compile()
		allowed, line := r.Match(agent, u)
		if again := r.Allowed(agent, u); again != allowed {
			t.Fatalf("Allowed %v, Match %v", again, allowed)
		}
		if line == 0 && !allowed || line < 0 {
			t.Fatalf("%v by line %d", allowed, line)
		}
		if line > 0 {
			text := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\r", "\n")
			lines := strings.Split(text, "\n")
			if line > len(lines) {
				t.Fatalf("line %d of %d", line, len(lines))
			}
			if is := strings.ToLower(strings.Trim(lines[line-1], "\xef\xbb\xbf \t\v\f")); strings.HasPrefix(is, "d") == allowed {
				t.Fatalf("%v by line %q", allowed, is)
			}
		}
	})
}
