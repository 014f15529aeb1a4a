package web

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/jimsmart/grobotstxt"
	"pgregory.net/rapid"
)

func TestSharesAddUpAndAreUneven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sites := rapid.IntRange(1, 200).Draw(t, "sites")
		pages := sites + rapid.IntRange(0, 5000).Draw(t, "more")
		sum := 0
		for _, n := range shares(sites, pages, rapid.Uint64().Draw(t, "seed")) {
			if n < 1 {
				t.Fatal("a site without a page")
			}
			sum += n
		}
		if sum != pages {
			t.Fatalf("%d pages, want %d", sum, pages)
		}
	})
	least, most := 3000, 0
	for _, n := range shares(24, 3000, 7) {
		least, most = min(least, n), max(most, n)
	}
	if most < 2*least || most > 400 {
		t.Errorf("sites of %d to %d pages", least, most)
	}
}

func TestEqualWebsServeEqualBytes(t *testing.T) {
	t.Parallel()
	make2 := func(seed uint64) *Web {
		w, err := New(testConfig(6, 200, seed))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	a, b, other := make2(1), make2(1), make2(2)
	same := true
	for i, s := range a.sites {
		for k := range s.pages {
			one := a.render(nil, s, k)
			if !bytes.Equal(one, b.render(nil, b.sites[i], k)) {
				t.Fatalf("page %d of site %d differs", k, i)
			}
			same = same && k < len(other.sites[i].pages) &&
				bytes.Equal(one, other.render(nil, other.sites[i], k))
			if size := len(one); k > 0 && (size < minBytes || size > maxBytes+2000) {
				t.Errorf("page %d of site %d has %d bytes", k, i, size)
			}
		}
	}
	if same {
		t.Error("webs of different seeds are equal")
	}
}

func TestDelaysStayNearTheirSite(t *testing.T) {
	t.Parallel()
	cfg := testConfig(24, 1000, 7)
	cfg.Delay = 40 * time.Millisecond
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range w.sites {
		if s.delay < 10*time.Millisecond || s.delay > 140*time.Millisecond {
			t.Errorf("%s takes %v", s.host, s.delay)
		}
		for k := range s.pages {
			if f := float64(s.pages[k].delay) / float64(s.delay); f < 0.699 || f > 1.301 {
				t.Errorf("%s page %d is %.2f of its site", s.host, k, f)
			}
		}
	}
}

// The audit and a robots.txt library, which reads the served file, agree on the forbidden
// paths.
func TestForbidsAgreesWithALibrary(t *testing.T) {
	t.Parallel()
	keys := []string{"/", "/robots.txt", "/private", "/private/", "/private/a/b/",
		"/internal/x.html", "/internal/public/x.html",
		"/internal/public", "/list?sort=name", "/list?a=1&sort=name", "/run/report.cgi",
		"/run/report.cgi.html", "/run/a/b.cgi", "/run.cgi", "/a-1/b-2.html"}
	for _, k := range []robotsKind{robotsPlain, robotsPatterns, robotsMoved} {
		text := k.text(40 * time.Millisecond)
		for _, key := range keys {
			if want := !grobotstxt.AgentAllowed(text, "peerd", "http://x.test"+key); k.forbids(
				key) != want {
				t.Errorf("kind %d forbids %s: %v, the library says %v", k, key, !want, want)
			}
		}
		if grobotstxt.AgentAllowed(text, "greedybot", "http://x.test/") != (k != robotsPatterns) {
			t.Errorf("kind %d and the other crawler", k)
		}
	}
	if !strings.Contains(robotsPatterns.text(40*time.Millisecond), "Crawl-delay: 0.02\n") {
		t.Error("no crawl-delay")
	}
}

func TestRelative(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, key, want string }{
		{"/", "/", "./"}, {"/", "/a/b.html", "a/b.html"}, {"/a/", "/a/b", "b"},
		{"/a/", "/a/", "./"},
		{"/a/b/", "/a/c/d", "../c/d"}, {"/a/b/", "/", "../../"}, {"/ab/", "/ac/x", "../ac/x"},
		{"/a/", "/a/x.php?id=1", "x.php?id=1"},
	} {
		if got := relative(c.base, c.key); got != c.want {
			t.Errorf("from %s to %s: %q, want %q", c.base, c.key, got, c.want)
		}
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Config{Sites: 0, Pages: -1, Port: -1, MinDelay: -1, Delay: -1,
		Place: func(int, int) int { return 0 }}
	_, err := New(bad)
	for _, field := range []string{"Sites", "Pages", "Addrs", "Port", "MinDelay", "Delay",
		"World"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
}
