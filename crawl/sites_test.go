package crawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
)

// words returns a text of which the words depend on the seed.
func words(seed, n int) string {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "word%c%c%c ", 'a'+rng.IntN(26), 'a'+rng.IntN(26), 'a'+rng.IntN(26))
	}
	return b.String()
}

// filesRig returns the owner of a site with n pages, and asks a peer for them that the robots.txt
// names. That peer reports what file returns. The web server adds what is different each time.
func filesRig(t *testing.T, s *site, n int, file func(i int, page string) string) (
	o *rig, asked *atomic.Int64,
) {
	t.Helper()
	asked = new(atomic.Int64)
	s.text("/robots.txt", "Peerd-Peer: local\n")
	page := func(i int) string {
		return fmt.Sprintf("<p>%s<a href=/p%d>1</a><a href=/p%d>2</a>", words(i, 120),
			(2*i+1)%n, (2*i+2)%n)
	}
	var requests atomic.Int64
	for i := range n {
		s.mux.HandleFunc(fmt.Sprintf("/p%d", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "%s<p>%d visitors, %s", page(i), requests.Add(1),
				time.Now().Format(time.TimeOnly))
		})
	}
	e := newRig(t, "", 0, nil)
	e.file = func(u store.URL) (crawl.SiteFile, error) {
		i := 0
		_, path, _ := strings.Cut(strings.TrimPrefix(string(u), "http://"), "/p")
		if _, err := fmt.Sscan(path, &i); err != nil {
			return crawl.SiteFile{}, err
		}
		text := file(i, page(i))
		if text == "" {
			return crawl.SiteFile{}, fmt.Errorf("no file for %s", u)
		}
		return crawl.SiteFile{Body: []byte(text), Type: "text/html"}, nil
	}
	e.resolves("a.test", s.addr.Addr())
	o = newRig(t, "", 0, func(c *crawl.Config) { c.Workers = 2 })
	o.own("a.test", s)
	o.remote = func(_ context.Context, peer string, q store.FetchRequest) (
		store.FetchReport, error,
	) {
		asked.Add(1)
		if peer != "local" || !q.File {
			t.Errorf("%s was asked for %+v", peer, q)
		}
		rep, err := e.c.RemoteFetch(t.Context(), q, nil)
		if err != nil {
			err = fmt.Errorf("%w: %w", crawl.ErrNotSent, err)
		}
		return rep, err
	}
	return o, asked
}

// requestedPages returns how many of the pages were requested, and the most requests of one.
func requestedPages(s *site, n int) (pages, most int) {
	count := s.count()
	for i := range n {
		k := count[fmt.Sprintf("/p%d", i)]
		if most = max(most, k); k > 0 {
			pages++
		}
	}
	return pages, most
}

// TestReportsFromFiles verifies that pages are not requested that a peer reports from their files,
// but for a sample.
func TestReportsFromFiles(t *testing.T) {
	const n = 400
	s := newSite(t, 35, 1)
	o, asked := filesRig(t, s, n, func(_ int, page string) string { return page })
	o.seed(s.url("a.test", "/p0"))
	o.crawl()
	pages, most := requestedPages(s, n)
	trust := o.c.SiteReports("local")
	if pages < 50 || pages > 100 || most != 1 || asked.Load() != n {
		t.Errorf("%d pages were requested, up to %d times, and %d asked for; want 50 to 100, "+
			"once, and %d", pages, most, asked.Load(), n)
	}
	if len(trust) != 1 || trust[0].Trust != crawl.Trusted || o.c.Doubts("local") {
		t.Errorf("the peer is %+v, want trusted", trust)
	}
	if left := o.db.Counters(); left.EstimationsRequested != 0 {
		t.Errorf("counters %+v, want no estimations", left)
	}
}

// TestLiesAboutSite verifies that a peer that lies about one page in ten is found out, that no
// false page stays, and that no peer is found out that does not lie.
func TestLiesAboutSite(t *testing.T) {
	const n = 600
	lie := func(i int) bool { return i%10 == 7 }
	other := func(i int, page string) string {
		_, links, _ := strings.Cut(page, "<a")
		return words(1000+i, 120) + "<a" + links
	}
	var reported atomic.Int64
	for name, test := range map[string]struct {
		file  func(i int, page string) string
		trust crawl.Trust
	}{
		"another text": {func(i int, page string) string {
			if lie(i) {
				return other(i, page)
			}
			return page
		}, crawl.Liar},
		"another text, later": {func(i int, page string) string {
			if reported.Add(1) > 55 {
				return other(i, page)
			}
			return page
		}, crawl.Liar},
		"other links": {func(i int, page string) string {
			if lie(i) {
				return strings.ReplaceAll(page, "href=/", "href=http://b.test/") +
					"<a href=http://b.test/3>3</a>"
			}
			return page
		}, crawl.Liar},
		"withheld": {func(i int, page string) string {
			if lie(i) {
				return ""
			}
			return page
		}, crawl.Trusted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 35, byte(2+len(name)))
			o, _ := filesRig(t, s, n, test.file)
			o.seed(s.url("a.test", "/p0"))
			o.crawl()
			count := s.count()
			for i := range n {
				if lie(i) && count[fmt.Sprintf("/p%d", i)] == 0 {
					t.Errorf("/p%d was not requested", i)
				}
			}
			trust := o.c.SiteReports("local")
			if len(trust) != 1 || trust[0].Trust != test.trust {
				t.Fatalf("the peer is %+v, want %v", trust, test.trust)
			}
			if last := trust[0].Checks[len(trust[0].Checks)-1]; last.Agrees !=
				(test.trust != crawl.Liar) || last.Said == "" || last.Found == "" {
				t.Errorf("the evidence is %+v", last)
			}
			pages, _ := requestedPages(s, n)
			if all := pages == n; all != (test.trust == crawl.Liar) {
				t.Errorf("%d of %d pages were requested from a peer that is %v", pages, n,
					trust[0].Trust)
			}
		})
	}
}

// TestPagesThatDiffer verifies that a peer does not count as a liar because a page is another one
// at each request.
func TestPagesThatDiffer(t *testing.T) {
	const n = 60
	s := newSite(t, 35, 1)
	o, _ := filesRig(t, s, n, func(_ int, page string) string { return page })
	var k atomic.Int64
	s.mux.HandleFunc("/random", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, words(5000+int(k.Add(1)), 120))
	})
	remote := o.remote
	o.remote = func(ctx context.Context, p string, q store.FetchRequest) (
		store.FetchReport, error,
	) {
		if strings.HasSuffix(string(q.URL), "/random") {
			q.URL = s.url("a.test", "/p1")
		}
		return remote(ctx, p, q)
	}
	o.seed(s.url("a.test", "/random"), s.url("a.test", "/p0"))
	o.crawl()
	if got := s.count()["/random"]; got != 2 {
		t.Errorf("the page was requested %d times, want twice", got)
	}
	if trust := o.c.SiteReports("local"); len(trust) != 1 || trust[0].Trust != crawl.Trusted {
		t.Errorf("the peer is %+v, want trusted", trust)
	}
}
