package web

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"
	"golang.org/x/net/html"
)

// truth is a plain breadth-first crawler: an HTML parser, net/url and a
// robots.txt library, and nothing of this package.
type truth struct {
	t      *testing.T
	client *http.Client
	robots map[string]string // by origin
	seen   map[string]bool
	queue  []string
	pages  []string
	status map[int]int
}

func (c *truth) crawl(seed string) {
	c.add(seed)
	for len(c.queue) > 0 {
		u := c.queue[0]
		c.queue = c.queue[1:]
		c.visit(u)
	}
}

// add queues a URL in its one form, if robots.txt allows it.
func (c *truth) add(raw string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" {
		return
	}
	u.Host, u.Fragment = strings.ToLower(u.Host), ""
	if u.Path == "" {
		u.Path = "/"
	}
	// one way to escape
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawQuery: u.RawQuery}
	key := u.String()
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	if grobotstxt.AgentAllowed(c.robotsOf("http://"+u.Host), "truth", key) {
		c.queue = append(c.queue, key)
	}
}

func (c *truth) robotsOf(origin string) string {
	if text, ok := c.robots[origin]; ok {
		return text
	}
	resp, body := get(c.t, c.client, origin+"/robots.txt")
	if to := resp.Header.Get("Location"); to != "" {
		resp, body = get(c.t, c.client, origin+to)
	}
	if resp.StatusCode != http.StatusOK {
		body = nil
	}
	c.robots[origin] = string(body)
	return string(body)
}

func (c *truth) visit(u string) {
	resp, body := get(c.t, c.client, u)
	c.status[resp.StatusCode]++
	if loc, err := resp.Location(); err == nil {
		c.add(loc.String())
		return
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode != 200 ||
		kind != "text/html" {
		return
	}
	c.pages = append(c.pages, u)
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	base := resp.Request.URL
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if n.Type != html.ElementNode || a.Key != "href" || n.Data != "a" && n.Data != "base" {
				continue
			}
			to, err := base.Parse(strings.TrimSpace(a.Val))
			if err != nil {
				c.t.Fatalf("%s links to %q: %v", u, a.Val, err)
			}
			if n.Data == "base" {
				base = to
			} else {
				c.add(to.String())
			}
		}
	}
}

// Pages yields exactly the pages that a crawl from the seed finds, for any size, and a
// complete crawl passes the audit.
func TestCrawlFindsExactlyThePages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sites, pages int
		seed         uint64
	}{{1, 1, 1}, {1, 90, 2}, {3, 3, 3}, {2, 40, 4}, {12, 300, 5}, {40, 400, 6}, {24, 1500, 7}} {
		w := serve(t, testConfig(c.sites, c.pages, c.seed))
		tr := &truth{t: t, client: client(t, w), robots: make(map[string]string),
			seen: make(map[string]bool), status: make(map[int]int)}
		tr.crawl(w.Seed())
		want := slices.Sorted(w.Pages())
		slices.Sort(tr.pages)
		if len(want) != c.pages || !slices.Equal(tr.pages, want) {
			t.Errorf("%+v: crawl found %d pages, want %d", c, len(tr.pages), len(want))
		}
		a := w.Audit()
		if a.PagesFetched != c.pages || a.Fetches != c.pages || a.PagesExpected != c.pages ||
			a.RobotsViolations != 0 {
			t.Errorf("%+v: %+v", c, a)
		}
		if m := w.Missing(9); len(m) != 0 {
			t.Errorf("missing %v", m)
		}
		if c.pages == 1500 {
			t.Logf("statuses %v", tr.status)
			for _, s := range []int{301, 302, 303, 307, 308, 404, 500} {
				if tr.status[s] == 0 {
					t.Errorf("no link leads to a %d", s)
				}
			}
		}
	}
}
