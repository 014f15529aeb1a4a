package robots

import (
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
