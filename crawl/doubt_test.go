package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
)

const (
	treeHosts = 3
	treePages = 60 // of each host
)

// treePath returns the path of a page, and treeText the page, which links to two others of its
// host.
func treePath(i int) string { return fmt.Sprintf("/p%d", i) }

func treeText(host string, i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<p>%s %s", words(100*int(host[0])+i, 120), host)
	for _, next := range []int{2*i + 1, 2*i + 2} {
		if next < treePages {
			fmt.Fprintf(&b, "<a href=%s>x</a>", treePath(next))
		}
	}
	return b.String()
}

// treeReport is what an honest peer reports of a page.
func treeReport(u store.URL) store.FetchReport {
	i := 0
	_, path, _ := strings.Cut(string(u), "test")
	_, _ = fmt.Sscanf(path, "/p%d", &i)
	text := treeText(u.Host(), i)
	rep := store.FetchReport{Outcome: store.OutcomeOK, Status: http.StatusOK,
		Bytes: int64(len(text)), Content: store.Content{Digest: crawl.DigestOf(text)}}
	for _, next := range []int{2*i + 1, 2*i + 2} {
		if next < treePages {
			rep.Links = append(rep.Links, store.URL("http://"+u.Host()+treePath(next)))
		}
	}
	return rep
}

// An estimator is a scripted peer that an owner asks for pages.
type estimator struct {
	// answer returns the report of the nth page that it is asked for, counted from 0.
	answer func(nth int, u store.URL) store.FetchReport

	mu    sync.Mutex
	asked []hit
}

func (e *estimator) fetch(
	_ context.Context, _ string, q store.FetchRequest,
) (store.FetchReport, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, hit{host: q.URL.Host(), path: string(q.URL), start: time.Now()})
	return e.answer(len(e.asked)-1, q.URL), nil
}

func (e *estimator) requests() []hit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

var emptyPage = store.FetchReport{Outcome: store.OutcomeOK, Status: http.StatusOK, Bytes: 8}

// TestDoubtedPeer verifies what follows from a difference at an owner that does not decide about
// any subnet after it: who lies is soon found out, and no other peer; all pages are fetched, and no
// host is asked more often than its delay permits.
func TestDoubtedPeer(t *testing.T) {
	for name, test := range map[string]struct {
		// asks is how often the owner asks the peer for reasons of its own.
		asks   int
		answer func(nth int, u store.URL) store.FetchReport
		// third says that an honest peer fetches all other pages for the owner, which then decides
		// about its subnets.
		third bool
		// unstable is a path that is another page at each request.
		unstable string
		want     crawl.Trust
		// differences and checks are the numbers of those that count, and asked that of the
		// requests to the peer.
		differences, checks, asked int
		// within is the longest time from the first lie to the last check.
		within time.Duration
	}{
		"liar": {
			asks:        1,
			answer:      func(int, store.URL) store.FetchReport { return emptyPage },
			want:        crawl.Liar,
			differences: 2, checks: 2, asked: 2, within: 30 * time.Second,
		},
		"liar, while others are asked": {
			asks: 1, third: true,
			answer:      func(int, store.URL) store.FetchReport { return emptyPage },
			want:        crawl.Liar,
			differences: 2, checks: 2, asked: 2, within: 30 * time.Second,
		},
		"liar that was honest": {
			asks: 17,
			answer: func(nth int, u store.URL) store.FetchReport {
				if nth < 16 {
					return treeReport(u)
				}
				return emptyPage
			},
			want:        crawl.Liar,
			differences: 5, checks: 16, asked: 21, within: time.Minute,
		},
		"liar every other time": {
			asks: 1,
			answer: func(nth int, u store.URL) store.FetchReport {
				if nth%2 == 1 {
					return treeReport(u)
				}
				return emptyPage
			},
			want:        crawl.Liar,
			differences: 2, checks: 3, asked: 3, within: 30 * time.Second,
		},
		"another page at another place": {
			asks: 1,
			answer: func(nth int, u store.URL) store.FetchReport {
				if nth > 0 {
					return treeReport(u)
				}
				return emptyPage
			},
			want:        crawl.Trusted,
			differences: 1, checks: 4, asked: 4, within: time.Minute,
		},
		"page that is another one each time": {
			asks:     1,
			answer:   func(_ int, u store.URL) store.FetchReport { return treeReport(u) },
			unstable: treePath(0),
			want:     crawl.Untested, asked: 1,
		},
		"failures instead of pages": {
			asks: 1,
			answer: func(nth int, u store.URL) store.FetchReport {
				if nth > 0 {
					return store.FetchReport{Outcome: store.OutcomeThrottled,
						Status: http.StatusServiceUnavailable, RetryAfter: time.Hour}
				}
				return emptyPage
			},
			want: crawl.Doubted,
			// The crawl takes a minute: 0, 10 and 30 s after the difference.
			differences: 1, checks: 1, asked: 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &estimator{answer: test.answer}
			versions := 0
			w := &memoryWeb{page: func(host, path string, _ int) string {
				i := 0
				_, _ = fmt.Sscanf(path, "/p%d", &i)
				text := treeText(host, i)
				if path == test.unstable {
					versions++
					text = words(5000+versions, 100+50*versions) + text
				}
				return response(http.StatusOK, "Content-Type: text/html\r\n", text)
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				begin := time.Now()
				crawlTrees(r, e, test.asks, test.third)
				if !test.third {
					checkTrees(t, w, e)
				}
				asked := e.requests()
				if d := time.Since(begin); d > 3*treePages*time.Second || len(asked) != test.asked {
					t.Errorf("the crawl took %v, and the peer was asked %d times, want %d", d,
						len(asked), test.asked)
				}
				got, _ := r.c.Reports("other")
				differences := 0
				for _, x := range got.Checks {
					if !x.Agrees {
						differences++
					}
				}
				if got.Trust != test.want || differences != test.differences ||
					len(got.Checks) != test.checks {
					t.Fatalf("the peer is %v after %+v; want %v after %d differences of %d checks",
						got.Trust, got.Checks, test.want, test.differences, test.checks)
				}
				if r.c.Doubts("other") != (test.want >= crawl.Doubted) {
					t.Errorf("the owner's doubts: %v of a peer that is %v", r.c.Doubts("other"),
						got.Trust)
				}
				if test.within == 0 {
					return
				}
				lied := asked[max(0, test.asks-1)].start
				if d := got.Checks[len(got.Checks)-1].At.Sub(lied); d > test.within {
					t.Errorf("the last check came %v after the first lie, want %v", d, test.within)
				}
			}, func(c *crawl.Config) {
				c.CheckReports = 1
				if test.third {
					c.CheckReports = 1e-9
				}
			})
		})
	}
}

// crawlTrees fetches the hosts with an owner that asks the peer for the first pages of the first
// host, and then perhaps an honest one. Of one host no two pages are requested at once, so the peer
// is not asked for more.
func crawlTrees(r *rig, e *estimator, asks int, third bool) {
	r.remote = func(ctx context.Context, peer string, q store.FetchRequest) (
		store.FetchReport, error,
	) {
		if peer == "third" {
			return treeReport(q.URL), nil
		}
		return e.fetch(ctx, peer, q)
	}
	first := store.SubnetOf(memoryAddr(0))
	r.where = func(subnet netip.Prefix) crawl.Dispatch {
		switch {
		case subnet == first && len(e.requests()) < asks && !r.c.Doubts("other"):
			return crawl.Dispatch{Peer: "other"}
		case third:
			return crawl.Dispatch{Peer: "third"}
		}
		return crawl.Dispatch{}
	}
	for i := range treeHosts {
		host, a := string(rune('a'+i))+".test", memoryAddr(i)
		r.fatal(r.fr.AddHost(host, store.SubnetOf(a), a, time.Time{}))
		r.seed(store.URL("http://" + host + treePath(0)))
	}
	for !r.idle() {
		time.Sleep(time.Second)
	}
}

// checkTrees fails unless all pages were fetched, and the requests of both peers to each host were
// a second apart.
func checkTrees(t *testing.T, w *memoryWeb, e *estimator) {
	t.Helper()
	for i := range treeHosts {
		host := string(rune('a'+i)) + ".test"
		var times []time.Time
		for _, h := range e.requests() {
			if h.host == host {
				times = append(times, h.start)
			}
		}
		for k := range treePages {
			own := w.times(host, treePath(k))
			if len(own) == 0 {
				t.Errorf("%s%s was not fetched", host, treePath(k))
			}
			times = append(times, own...)
		}
		slices.SortFunc(times, time.Time.Compare)
		for k := 1; k < len(times); k++ {
			if d := times[k].Sub(times[k-1]); d < time.Second {
				t.Errorf("two requests to %s within %v", host, d)
			}
		}
	}
}

// TestDoubtedPeersAtOnce verifies that few requests to doubted peers are under way at once, that
// they count as checks of their hosts, and that one without a result is repeated ever more rarely.
func TestDoubtedPeersAtOnce(t *testing.T) {
	begin := time.Now()
	hosts := append(slices.Repeat([]string{"a.test"}, 40), slices.Repeat([]string{"b.test"}, 10)...)
	if n := crawl.AskDoubted(hosts, false, begin); n != 2 {
		t.Errorf("%d requests to doubted peers at once, want 2", n)
	}
	if n := crawl.AskDoubted(hosts, true, begin); n != 42 {
		t.Errorf("%d requests for pages of two hosts, want 32 and 10", n)
	}
	var at []time.Duration
	for s := range 3600 {
		now := begin.Add(time.Duration(s) * time.Second)
		at = append(at, now.Sub(begin))
	}
	got := crawl.AskedAt(begin, at)
	var want []time.Duration
	for _, s := range []int{0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030} {
		want = append(want, time.Duration(s)*time.Second)
	}
	if !slices.Equal(got, want) {
		t.Errorf("a silent peer was asked at %v, want %v", got, want)
	}
}

// TestLieAboutRevisit verifies that a made-up page is found that a peer reports of a page which has
// not changed since this peer's last visit.
func TestLieAboutRevisit(t *testing.T) {
	t.Parallel()
	s := newSite(t, 55, 1)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if q.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, words(1, 120))
	})
	o := newRig(t, "", time.Millisecond, func(c *crawl.Config) {
		visiting(yearly)(c)
		c.CheckReports = 1
	})
	o.own("a.test", s)
	e := &estimator{answer: func(int, store.URL) store.FetchReport { return emptyPage }}
	o.remote = e.fetch
	var lying atomic.Bool
	o.where = func(netip.Prefix) crawl.Dispatch {
		if lying.Load() {
			return crawl.Dispatch{Peer: "other"}
		}
		return crawl.Dispatch{}
	}
	o.seed(s.url("a.test", "/"))
	defer o.start()()
	o.until("the page is fetched", func() bool { return o.db.Counters().Pages == 1 })
	lying.Store(true)
	o.changed(s.url("a.test", "/"))
	o.until("the lie is found", func() bool { return o.c.Doubts("other") })
}
