package robots

import (
	"strings"
	"testing"

	"peerd/crawl/canon"
)

func FuzzCompile(f *testing.F) {
	f.Add([]byte("user-agent: *\ndisallow: /a*b$\nallow: /%7e\ncrawl-delay: 1.5\n"+
		"sitemap: http://x/"), "/ab")
	f.Add([]byte("\xef\xbb\xbfUser-agent peerd\r\rDisallow\t/%e3%zz\x00"), "/%e3")
	f.Add([]byte("crawl-delay:\n:\n a \nuser-agent\nallow:/index.html"), "/?")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		r := Result{Status: 200, Body: body}.Compile()
		if d, found := r.CrawlDelay("peerd"); d < 0 || d > MaxCrawlDelay || !found && d != 0 {
			t.Fatalf("CrawlDelay() = %v, %v, want 0 to %v, and 0 if there is none", d, found,
				MaxCrawlDelay)
		}
		r.Sitemaps()
		u, err := canon.Parse("http://example.org" + path)
		if err != nil {
			return
		}
		if len(r.byAgent) == 0 && !r.Allowed("peerd", u) {
			t.Fatalf("Allowed(%q) = false without any group", u)
		}
		r.Allowed("peerd", u)
	})
}

// FuzzMatch verifies that the line that decides exists, and is a rule of the right kind.
func FuzzMatch(f *testing.F) {
	f.Add([]byte("user-agent: *\ndisallow: /a\rallow: /a/index.html\r\ndissallow: /b*$"),
		"peerd/1 (x)", "/a/")
	f.Add([]byte("\xef\xbb\xbfuser-agent: a b\n\n\ndisallow /%e3"), "a", "/%e3?")
	f.Fuzz(func(t *testing.T, body []byte, agent, path string) {
		u, err := canon.Parse("http://example.org" + path)
		if err != nil {
			return
		}
		r := Result{Status: 200, Body: body}.Compile()
		allowed, line := r.Match(agent, u)
		if again := r.Allowed(agent, u); again != allowed {
			t.Fatalf("Allowed() = %v, Match() = %v", again, allowed)
		}
		if line == 0 && !allowed || line < 0 {
			t.Fatalf("Match() = %v, %d, want a line above 0 if not allowed", allowed, line)
		}
		if line > 0 {
			text := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\r", "\n")
			lines := strings.Split(text, "\n")
			if line > len(lines) {
				t.Fatalf("Match() = %v, %d, want a line up to %d", allowed, line, len(lines))
			}
			rule := strings.ToLower(strings.Trim(lines[line-1], "\xef\xbb\xbf \t\v\f"))
			if strings.HasPrefix(rule, "d") == allowed {
				t.Fatalf("Match() = %v by line %q", allowed, rule)
			}
		}
	})
}
