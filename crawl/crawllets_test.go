package crawl_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"

	"peerd/crawl"
	"peerd/crawl/crawllet"
	output "peerd/crawl/crawllet/record"
	"peerd/store"
)

// crawlletRequest is a run of a crawllet, as the site sees it.
type crawlletRequest struct {
	seeds, known []string
	ctx          context.Context
	// send sends a record. Its error is that of the connection.
	send func(output.Record) error
}

// frames writes what it is given as data frames.
type frames struct{ w io.Writer }

func (f frames) Write(p []byte) (int, error) {
	head := binary.BigEndian.AppendUint32([]byte{'d'}, uint32(len(p)))
	if _, err := f.w.Write(head); err != nil {
		return 0, err
	}
	return f.w.Write(p)
}

// runsCrawllets has a site answer as one that runs crawllets, with the reply of a function instead
// of that of the module. It returns the number of runs.
func (s *site) runsCrawllets(
	t *testing.T, host string, reply func(crawlletRequest) crawllet.Reason,
) *atomic.Int64 {
	t.Helper()
	runs := new(atomic.Int64)
	prefix := string(s.url(host, "/"))
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	limits := crawllet.DefaultLimits
	s.mux.HandleFunc("GET "+crawllet.Path, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, crawllet.Policy{Version: crawllet.Version, Runtime: crawllet.Runtime,
			Prefix: prefix, Limits: limits, Module: 1 << 20})
	})
	s.mux.HandleFunc("POST "+crawllet.Path, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, crawllet.Grant{Ticket: "ticket", Limits: limits})
	})
	s.mux.HandleFunc("PUT "+crawllet.Path+"/ticket",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s.mux.HandleFunc("POST "+crawllet.Path+"/ticket",
		func(w http.ResponseWriter, r *http.Request) {
			runs.Add(1)
			q := crawlletRequest{ctx: r.Context()}
			list := &q.seeds
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				if lines.Text() == "" {
					list = &q.known
					continue
				}
				*list = append(*list, lines.Text())
			}
			w.Header().Set("Content-Type", crawllet.OutputType)
			z, err := zstd.NewWriter(frames{w})
			if err != nil {
				t.Error(err)
				return
			}
			defer z.Close()
			flush := http.NewResponseController(w)
			q.send = func(rec output.Record) error {
				if err := output.Write(z, &rec); err != nil {
					return err
				}
				if err := z.Flush(); err != nil {
					return err
				}
				return flush.Flush()
			}
			reason := reply(q)
			if reason == crawllet.CutOff {
				return
			}
			z.Close()
			end, err := cbor.Marshal(crawllet.End{Reason: reason})
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(binary.BigEndian.AppendUint32([]byte{'e'}, uint32(len(end))))
			_, _ = w.Write(end)
		})
	return runs
}

// pageRecord is the record of a page.
func pageRecord(u, text string) output.Record {
	return output.Record{URL: u, Status: 200, Type: "text/html", Modified: 1e9,
		Size: int64(len(text)), Body: []byte(text)}
}

// withCrawllets is a change of a Config.
func withCrawllets(t *testing.T) func(*crawl.Config) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *crawl.Config) {
		c.Workers = 2
		c.Crawllet = &crawl.Crawllet{Module: []byte("module"), Key: key, Agent: "peerd-test"}
	}
}

// manual is a site of n pages, of which page i links to two others. If wide, page 0 links to all.
type manual struct {
	*site
	n    int
	wide bool
}

func newManual(t *testing.T, x, y byte, n int, wide bool) *manual {
	t.Helper()
	m := &manual{newSite(t, x, y), n, wide}
	for i := range n {
		s := m.text(i, i)
		m.mux.HandleFunc(fmt.Sprintf("/p%d", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, s)
		})
	}
	return m
}

// text returns page i with the words of another one.
func (m *manual) text(i, of int) string {
	s := fmt.Sprintf("<p>%s<a href=/p%d>1</a><a href=/p%d>2</a>", words(of, 120),
		(2*i+1)%m.n, (2*i+2)%m.n)
	for k := range m.n {
		if m.wide && i == 0 {
			s += fmt.Sprintf("<a href=/p%d>x</a>", k)
		}
	}
	return s
}

// page returns which page of the site a URL is.
func (m *manual) page(u string) (i int, ok bool) {
	n, err := fmt.Sscanf(strings.TrimPrefix(u, string(m.url("a.test", "/"))), "p%d", &i)
	return i, n == 1 && err == nil
}

// crawled replies to a run as the reference crawllet does: with all pages that can be reached from
// the seeds without those that are known, each as text says.
func (m *manual) crawled(
	q crawlletRequest, text func(i int) string,
) crawllet.Reason {
	seen := map[int]bool{}
	for _, u := range q.known {
		if i, ok := m.page(u); ok {
			seen[i] = true
		}
	}
	var queue []int
	add := func(i int) {
		if !seen[i] {
			seen[i] = true
			queue = append(queue, i)
		}
	}
	for _, u := range q.seeds {
		if i, ok := m.page(u); ok {
			add(i)
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if q.send(pageRecord(string(m.url("a.test", fmt.Sprintf("/p%d", i))), text(i))) != nil {
			return crawllet.CutOff
		}
		add((2*i + 1) % m.n)
		add((2*i + 2) % m.n)
	}
	return ""
}

// wantAll fails unless all pages are stored as the site serves them.
func (m *manual) wantAll(t *testing.T, r *rig) {
	t.Helper()
	for i := range m.n {
		u := m.url("a.test", fmt.Sprintf("/p%d", i))
		p, ok := r.page(u)
		if !ok || p.Outcome != store.OutcomeOK || p.Digest != crawl.DigestOf(m.text(i, i)) {
			t.Fatalf("%s is stored: %v, %v, or not as it is", u, ok, p.Outcome)
		}
	}
	if n := r.db.Counters().Pages; n < int64(m.n) {
		t.Errorf("%d pages counted, want %d", n, m.n)
	}
}

// TestCrawllets verifies that a site that runs crawllets is requested few of its pages, that those
// which a crawllet follows links to are committed, too, and that it is told what was crawled.
func TestCrawllets(t *testing.T) {
	const n = 600
	m := newManual(t, 37, 1, n, false)
	var mu sync.Mutex
	var known []int
	runs := m.runsCrawllets(t, "a.test", func(q crawlletRequest) crawllet.Reason {
		mu.Lock()
		known = append(known, len(q.known))
		mu.Unlock()
		if len(q.seeds) < 64 {
			t.Errorf("a run has %d seeds, want 64", len(q.seeds))
		}
		return m.crawled(q, func(i int) string { return m.text(i, i) })
	})
	r := newRig(t, "", 0, withCrawllets(t))
	r.own("a.test", m.site)
	r.seed(m.url("a.test", "/p0"))
	r.crawl()
	m.wantAll(t, r)
	pages, most := requestedPages(m.site, n)
	got := r.db.NamedCounters()["crawllet_pages"]
	if pages < 50 || pages > 300 || most != 1 || got != int64(n-pages) {
		t.Errorf("%d pages were requested, up to %d times, and crawllets delivered %d; "+
			"want 50 to 300, once, and the rest", pages, most, got)
	}
	if asked := m.count()[crawllet.Path]; runs.Load() < 2 || int64(asked) != 1+runs.Load() {
		t.Errorf("%d runs and %d requests to the endpoint, want one for the policy and one for "+
			"each of at least 2 runs", runs.Load(), asked)
	}
	for i, k := range known {
		if k < 60 || i > 0 && k <= known[i-1] {
			t.Errorf("the runs were told of %v crawled pages, want more each time", known)
		}
	}
	if p, _ := r.page(m.url("a.test", "/p5")); len(p.Links) != 2 {
		t.Errorf("links of a page are %v", p.Links)
	}
}

// TestCrawlletLies verifies that a site of which the crawllets report other pages than it serves
// is found out, and that no such page stays.
func TestCrawlletLies(t *testing.T) {
	const n = 400
	for name, tc := range map[string]struct {
		from  int64 // pages before the first lie
		every int   // of the pages one is a lie
	}{
		"at once": {0, 5},
		// Of more than 300 pages 3 % are compared: that one of them is a lie must not be chance.
		"when trusted": {70, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManual(t, 37, byte(2+len(name)), n, true)
			var sent atomic.Int64
			runs := m.runsCrawllets(t, "a.test", func(q crawlletRequest) crawllet.Reason {
				return m.crawled(q, func(i int) string {
					if sent.Add(1) > tc.from && i%tc.every == 0 {
						return m.text(i, n+i)
					}
					return m.text(i, i)
				})
			})
			r := newRig(t, "", 0, withCrawllets(t))
			r.own("a.test", m.site)
			r.seed(m.url("a.test", "/p0"))
			r.crawl()
			trust := r.c.SiteReports(crawllet.Path)
			if len(trust) != 1 || trust[0].Trust != crawl.Liar {
				t.Fatalf("the site is %+v after %d runs, want a liar", trust, runs.Load())
			}
			m.wantAll(t, r)
		})
	}
}

// TestCrawlletRefused verifies that the pages of a site that has no crawllets, or of which the
// crawllets fail, are requested, and that it is left alone with crawllets.
func TestCrawlletRefused(t *testing.T) {
	const n = 200
	for name, tc := range map[string]struct {
		fail      func(m *manual)
		requests  int // to the endpoint
		delivered int64
	}{
		"no policy": {func(*manual) {}, 1, 0},
		"refused": {func(m *manual) {
			m.runsCrawllets(t, "a.test", nil)
		}, 2, 0},
		"cut off": {func(m *manual) {
			m.runsCrawllets(t, "a.test", func(q crawlletRequest) crawllet.Reason {
				for _, u := range q.seeds[:10] {
					if i, ok := m.page(u); ok {
						_ = q.send(pageRecord(u, m.text(i, i)))
					}
				}
				return crawllet.CutOff
			})
		}, 2, 10},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManual(t, 38, byte(1+len(name)), n, true)
			tc.fail(m)
			if name == "refused" {
				old := m.mux
				m.mux = http.NewServeMux()
				m.mux.Handle("/", old)
				refuse := func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprint(w, `{"reason":"not-allowed"}`)
				}
				m.mux.HandleFunc("POST "+crawllet.Path, refuse)
			}
			r := newRig(t, "", 0, withCrawllets(t))
			r.c.TrustCrawllets("a.test")
			r.own("a.test", m.site)
			r.seed(m.url("a.test", "/p0"))
			r.crawl()
			m.wantAll(t, r)
			pages, most := requestedPages(m.site, n)
			if got := r.db.NamedCounters()["crawllet_pages"]; got != tc.delivered || most != 1 ||
				pages != n-int(tc.delivered) || m.count()[crawllet.Path] != tc.requests {
				t.Errorf("%d pages delivered, %d requested, up to %d times, and %d requests to "+
					"the endpoint; want %d, the rest, once, %d", got, pages, most,
					m.count()[crawllet.Path], tc.delivered, tc.requests)
			}
		})
	}
}

// TestCrawlletLimits verifies that a run ends when the site has sent as many pages as it was asked
// for, and that nothing is stored that is not in the queue or that robots.txt forbids.
func TestCrawlletLimits(t *testing.T) {
	const n, most = 100, 1_000_000
	m := newManual(t, 39, 1, n, true)
	m.site.text("/robots.txt", "User-agent: *\nDisallow: /p7$\n")
	var sent atomic.Int64
	m.runsCrawllets(t, "a.test", func(q crawlletRequest) crawllet.Reason {
		for i := range most {
			u := m.url("a.test", fmt.Sprintf("/q%d", i))
			if i == 0 {
				u = m.url("a.test", "/p7")
			}
			if q.send(pageRecord(string(u), "<p>text")) != nil {
				break
			}
			sent.Add(1)
		}
		return crawllet.CutOff
	})
	r := newRig(t, "", 0, withCrawllets(t))
	r.c.TrustCrawllets("a.test")
	r.own("a.test", m.site)
	r.seed(m.url("a.test", "/p0"))
	r.crawl()
	if got := sent.Load(); got < crawl.CrawlletPages || got > most/2 {
		t.Errorf("the site could send %d records, want %d and some that were on the way", got,
			crawl.CrawlletPages)
	}
	for _, path := range []string{"/p7", "/q1", "/q99"} {
		if p, _ := r.page(m.url("a.test", path)); p.Outcome == store.OutcomeOK {
			t.Errorf("%s is stored: %+v", path, p)
		}
	}
	if c := r.db.Counters(); c.Pages != n-1 {
		t.Errorf("%d pages, want all but the forbidden one of %d", c.Pages, n)
	}
}

// TestCrawlletKeepsCrawlDelay verifies that the requests of a run keep the Crawl-delay, too.
func TestCrawlletKeepsCrawlDelay(t *testing.T) {
	const n, delay = 100, 100 * time.Millisecond
	m := newManual(t, 43, 1, n, true)
	m.site.text("/robots.txt", "User-agent: *\nCrawl-delay: 0.1\n")
	ran := make(chan struct{}, 1)
	m.runsCrawllets(t, "a.test", func(crawlletRequest) crawllet.Reason {
		ran <- struct{}{}
		return ""
	})
	r := newRig(t, "", 0, withCrawllets(t))
	r.own("a.test", m.site)
	r.seed(m.url("a.test", "/p0"))
	stop := r.start()
	<-ran
	stop()
	if least := m.apart(t); least < delay {
		t.Errorf("%v between two requests, want at least %v", least, delay)
	}
}

// TestCrawlletHandover verifies that a run ends soon when its subnet is about to be handed over,
// or when the crawler stops, and that the pages that have arrived are kept.
func TestCrawlletHandover(t *testing.T) {
	const n, arrive = 100, 5
	for name, end := range map[string]func(r *rig, m *manual, stop func()){
		"handover": func(r *rig, m *manual, stop func()) {
			r.fatal(r.fr.Pause(t.Context(), store.SubnetOf(m.addr.Addr())))
			stop()
		},
		"stop": func(_ *rig, _ *manual, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			m := newManual(t, 40, byte(len(name)), n, true)
			began := make(chan struct{})
			m.runsCrawllets(t, "a.test", func(q crawlletRequest) crawllet.Reason {
				for _, u := range q.seeds[:arrive] {
					if i, ok := m.page(u); !ok || q.send(pageRecord(u, m.text(i, i))) != nil {
						t.Errorf("%s could not be sent", u)
					}
				}
				close(began)
				<-q.ctx.Done()
				return crawllet.CutOff
			})
			r := newRig(t, "", 0, withCrawllets(t))
			r.c.TrustCrawllets("a.test")
			r.own("a.test", m.site)
			r.seed(m.url("a.test", "/p0"))
			stop := r.start()
			<-began
			r.until("pages have arrived", func() bool {
				return r.db.NamedCounters()["crawllet_pages"] == arrive
			})
			start := time.Now()
			end(r, m, stop)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %v, want less than the time of a run", took)
			}
			pages, _ := requestedPages(m.site, n)
			queued := r.fr.Queued("a.test")
			if got := r.db.Counters().Pages; got != int64(pages+arrive) ||
				queued != int64(n-pages-arrive) {
				t.Errorf("%d pages are stored and %d queued; %d were requested and %d arrived", got,
					queued, pages, arrive)
			}
		})
	}
}

// TestCrawlletBytes verifies that a run ends when the site has sent as many bytes as it may.
func TestCrawlletBytes(t *testing.T) {
	const n, size = 70, 1 << 20
	m := newManual(t, 41, 1, n, true)
	var mu sync.Mutex
	var sent []int // pages, by run
	body := make([]byte, size)
	m.runsCrawllets(t, "a.test", func(q crawlletRequest) crawllet.Reason {
		i := 0
		random := rand.NewChaCha8([32]byte{})
		for ; i < 4*crawl.CrawlletBytes/size; i++ {
			// A page like the one before would take no room on the way.
			_, _ = random.Read(body) // it always succeeds
			u := m.url("a.test", fmt.Sprintf("/q%d", i))
			if q.send(pageRecord(string(u), string(body))) != nil {
				break
			}
		}
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, i)
		return crawllet.CutOff
	})
	r := newRig(t, "", 0, withCrawllets(t))
	r.c.TrustCrawllets("a.test")
	r.own("a.test", m.site)
	r.seed(m.url("a.test", "/p0"))
	r.crawl()
	r.until("the run has ended at the site", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(sent) > 0
	})
	// What the connection holds was sent in vain.
	mu.Lock()
	defer mu.Unlock()
	const most = crawl.CrawlletBytes / size
	if len(sent) == 0 || slices.Max(sent) < most || slices.Max(sent) > 2*most {
		t.Errorf("the site could send %d pages of %d bytes, want %d and some that were on the way",
			sent, size, most)
	}
	m.wantAll(t, r)
}

// TestCrawlletsAtOnce verifies that a peer has two sites run crawllets at a time, and requests the
// pages of a third one meanwhile.
func TestCrawlletsAtOnce(t *testing.T) {
	const n, sites = 100, crawl.MaxCrawllets + 1
	release := make(chan struct{})
	var running, most atomic.Int64
	r := newRig(t, "", 0, func(c *crawl.Config) {
		withCrawllets(t)(c)
		c.Workers = 8
	})
	var all []*manual
	for i := range sites {
		host := fmt.Sprintf("%c.test", 'a'+i)
		m := newManual(t, 42, byte(i+1), n, true)
		all = append(all, m)
		m.runsCrawllets(t, host, func(q crawlletRequest) crawllet.Reason {
			now := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			select {
			case <-release:
			case <-q.ctx.Done():
			}
			return ""
		})
		r.c.TrustCrawllets(host)
		r.own(host, m.site)
	}
	seed := func(i int) { r.seed(all[i].url(fmt.Sprintf("%c.test", 'a'+i), "/p0")) }
	for i := range crawl.MaxCrawllets {
		seed(i)
	}
	stop := r.start()
	r.until("two crawllets run", func() bool { return running.Load() == crawl.MaxCrawllets })
	// The third site comes later: while it asks for crawllets, another one could request so many
	// pages that a run no longer pays.
	before := r.db.Counters().Pages
	seed(crawl.MaxCrawllets)
	r.until("all pages of the third site are stored", func() bool {
		return r.db.Counters().Pages == before+n
	})
	close(release)
	r.until("all pages are stored", func() bool { return r.db.Counters().Pages == sites*n })
	stop()
	if got := most.Load(); got != crawl.MaxCrawllets {
		t.Errorf("%d crawllets ran at the same time, want %d", got, crawl.MaxCrawllets)
	}
}
