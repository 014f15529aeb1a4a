package node

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"peerd/node/admin"
)

// A peer that has crawled a site tells its pages, why it owns the subnet, and what limits it.
func TestViewsOfACrawl(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>page %s</title>text", r.URL.Path)
	}))
	defer site.Close()
	at, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Config.Strategy = "keep"
	o.Config.Crawl.Resolve = map[string][]netip.Addr{
		"site.test": {netip.MustParseAddr("127.0.0.1")}}
	if _, err := AddDenied(o.Home, ".private.example"); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, o)
	defer running(t, n)()
	base := "http://site.test:" + at.Port()
	if _, err := n.Seed(t.Context(), []string{base + "/a", base + "/b"}); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "both pages are fetched", func() bool {
		return n.db.Counters().Pages == 2 && n.Idle()
	})

	pages := n.RecentPages()
	if len(pages) != 2 || !strings.HasPrefix(pages[0].URL, base) || pages[0].Outcome != "ok" ||
		!strings.HasPrefix(pages[0].Title, "page /") || pages[0].Status != http.StatusOK {
		t.Errorf("pages = %+v", pages)
	}
	const subnet = "127.0.0.0/24"
	moves := n.Moves()
	if len(moves) != 1 || moves[0].Subnet != subnet || moves[0].Kind != admin.EventGained {
		t.Errorf("moves = %+v", moves)
	}
	if all := n.Subnets(); len(all) != 1 || all[0].Why != "claimed subnet" {
		t.Errorf("subnets = %+v", all)
	}
	for of, found := range map[string]string{"site.test": "queue", "127.0.0.9": "given",
		subnet: "given"} {
		p, err := n.Placement(t.Context(), of)
		if err != nil || p.Subnet != subnet || !p.Own || p.Found != found || p.Epoch == 0 ||
			!strings.Contains(p.Why, "This peer is the owner.") || len(p.Moves) != 1 {
			t.Errorf("placement of %s = %+v, %v", of, p, err)
		}
	}
	if p, err := n.Placement(t.Context(), "203.0.113.1"); err != nil || p.Owner != "" ||
		!strings.Contains(p.Why, "No owner is known") {
		t.Errorf("placement of a subnet without owner = %+v, %v", p, err)
	}
	if _, err := n.Placement(t.Context(), "nothing.invalid"); !errors.Is(err, admin.ErrBadRequest) {
		t.Errorf("placement of an unknown host: %v", err)
	}
	if h := n.History(); len(h) == 0 || h[0].Free <= 0 {
		t.Errorf("history = %+v", h)
	}
	if d := n.Disk(); d.Free <= 0 || d.FullAt != nil {
		t.Errorf("disk = %+v", d)
	}
	for _, l := range n.Limits() {
		if l.Blocked {
			t.Errorf("%s blocks the peer: %s", l.Name, l.Advice)
		}
	}
	if rules, err := n.DenyList(); err != nil || len(rules) != 1 {
		t.Errorf("deny list = %v, %v", rules, err)
	}
	if e := n.Events(); len(e) == 0 {
		t.Error("no events")
	}
}

// Peers that join and leave are events.
func TestPresence(t *testing.T) {
	t.Parallel()
	other := newNode(t, options(t))
	stop := running(t, other)
	defer stop()
	o := options(t)
	o.Config.Bootstrap = other.Addrs()[:1]
	n := newNode(t, o)
	n.journal.presence = 100 * time.Millisecond
	defer running(t, n)()
	until(t, time.Minute, "the other peer joined", func() bool {
		for _, e := range n.Events() {
			if e.Kind == admin.EventPeer && e.Peer == other.ID().String() {
				return e.Text == "peer joined"
			}
		}
		return false
	})
}

// A peer that waits for a limit continues at once when the limit is gone.
func TestReloadEndsWait(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p>page %s", r.URL.Path)
	}))
	defer site.Close()
	at := strings.TrimPrefix(site.URL, "http://127.0.0.1:")
	o := options(t)
	o.Config.Strategy, o.Config.Crawl.PagesPerDay = "keep", 1
	o.Config.Crawl.Resolve = map[string][]netip.Addr{
		"site.test": {netip.MustParseAddr("127.0.0.1")}}
	n := newNode(t, o)
	defer running(t, n)()
	if _, err := n.Seed(t.Context(), []string{"http://site.test:" + at + "/"}); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "robots.txt has used the limit up", func() bool {
		s := n.frontier.Stats()
		return n.quota.RequestWait(time.Now()) > time.Hour && s.InFlight == 0 && s.Pending == 1
	})
	if _, err := n.Reload(); err != nil { // config.toml has no limit
		t.Fatal(err)
	}
	until(t, time.Minute, "the page is fetched", func() bool { return n.db.Counters().Pages == 1 })
}
