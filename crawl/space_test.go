package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
	"peerd/store/kv"
)

// spaceLog counts log messages about lack of space.
type spaceLog struct {
	slog.Handler
	n atomic.Int64
}

func (c *spaceLog) Enabled(context.Context, slog.Level) bool { return true }

func (c *spaceLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "no space left") {
		c.n.Add(1)
	}
	return nil
}

// newFullRig returns a rig on a disk. Its waits for space are short.
func newFullRig(t *testing.T, disk *kv.Disk, change func(*crawl.Config)) (*rig, *spaceLog) {
	t.Helper()
	log := &spaceLog{Handler: slog.DiscardHandler}
	r := newRigOn(t, "", store.Options{Disk: disk}, 0, nil, func(c *crawl.Config) {
		c.Logger = slog.New(log)
		if change != nil {
			change(c)
		}
	})
	r.c.SetSpaceWait(5 * time.Millisecond)
	return r, log
}

// When the disk is full, nothing is fetched until there is space. Then the crawl continues
// with the page that could not be stored, and nothing is half done.
func TestStoreFull(t *testing.T) {
	for i, tc := range []struct {
		at     string // the disk is full when this is served
		remote bool
		asks   int // requests for it in all
	}{
		{at: "/robots.txt", asks: 2}, {at: "/", asks: 2}, {at: "/busy", asks: 2},
		{at: "/moved", asks: 2},
		{at: "/", remote: true, asks: 1}, {at: "/busy", remote: true, asks: 2},
	} {
		t.Run(fmt.Sprintf("%s remote=%v", tc.at, tc.remote), func(t *testing.T) {
			disk := kv.NewDisk()
			r, log := newFullRig(t, disk, func(c *crawl.Config) {
				c.Revisit = &hourly
				c.Rules.Content = crawl.ContentRules{Exact: true, MaxCopies: 1}
			})
			s := newSite(t, 67, byte(i+1))
			var once sync.Once
			serve := func(path string, h http.HandlerFunc) {
				s.mux.HandleFunc(path, func(w http.ResponseWriter, q *http.Request) {
					if q.URL.Path == tc.at {
						once.Do(func() { disk.SetFull(true) })
					}
					h(w, q)
				})
			}
			var busy atomic.Int64
			serve("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "User-agent: *")
			})
			serve("/{$}", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w,
					`<a href="/busy">x</a><a href="/moved">x</a><a href="http://far.test/">x</a>`)
			})
			serve("/busy", func(w http.ResponseWriter, _ *http.Request) {
				if busy.Add(1) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				fmt.Fprint(w, "busy")
			})
			serve("/moved", http.RedirectHandler("/there", http.StatusFound).ServeHTTP)
			serve("/there", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "there") })
			r.own("a.test", s)
			if tc.remote {
				e := newRig(t, "", 0, nil)
				e.resolves("a.test", s.addr.Addr())
				r.where = func(netip.Prefix) crawl.Dispatch { return crawl.Dispatch{Peer: "other"} }
				r.remote = func(ctx context.Context, _ string, q store.FetchRequest) (
					store.FetchReport, error) {
					return e.c.RemoteFetch(ctx, q, nil)
				}
			}
			r.seed(s.url("a.test", "/"))
			stop := r.start()
			r.until("the disk is full", func() bool { return log.n.Load() > 0 })
			asked := len(s.log())
			r.until("lack of space is logged again", func() bool { return log.n.Load() > 4 })
			if n := len(s.log()); n != asked {
				t.Errorf("%d requests without space", n-asked)
			}
			disk.SetFull(false)
			r.until("queues are empty", r.idle)
			stop()
			if n := s.count(); n[tc.at] != tc.asks || n["/"]+n["/moved"]+n["/there"] > 4 {
				t.Errorf("requests %v", n)
			}
			if r.pending()["far.test"] != 1 || r.db.Counters().Failed != 0 {
				t.Errorf("pending %v, counters %+v", r.pending(), r.db.Counters())
			}
			if c := r.db.Counters(); tc.remote && c.EstimationsRequested != 4 || !tc.remote &&
				(c.Pages != 1 || c.Fetches != 4) {
				t.Errorf("counters %+v", c)
			}
			for _, path := range []string{"/", "/busy", "/moved", "/there"} {
				if p, ok := r.page(s.url("a.test", path)); ok == tc.remote || p.Flags != 0 ||
					path == "/" && ok && len(p.Links) != 3 {
					t.Errorf("%s: %+v", path, p)
				}
			}
		})
	}
}

// A crawl with StopWhenFull ends when there is no space, and loses nothing.
func TestStoreFullEnds(t *testing.T) {
	disk := kv.NewDisk()
	r, _ := newFullRig(t, disk, func(c *crawl.Config) { c.StopWhenFull = true })
	s := newSite(t, 67, 20)
	s.mux.HandleFunc("/{$}", func(http.ResponseWriter, *http.Request) { disk.SetFull(true) })
	r.own("a.test", s)
	r.seed(s.url("a.test", "/"))
	if err := r.c.Run(t.Context()); !errors.Is(err, crawl.ErrNoSpace) ||
		!errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Run() = %v, want ErrNoSpace", err)
	}
	if st := r.fr.Stats(); st.Pending != 1 || st.InFlight != 0 ||
		r.db.Counters() != (store.Counters{Seen: 1}) {
		t.Errorf("frontier %+v, counters %+v", st, r.db.Counters())
	}
}

// A remote fetch fails if its page cannot be stored. Further ones are refused before
// anything is sent.
func TestStoreFullRemoteFetch(t *testing.T) {
	disk := kv.NewDisk()
	r, _ := newFullRig(t, disk, nil)
	s := newSite(t, 67, 21)
	s.html("/", "/next")
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr(), Kind: store.KindRevisit}
	r.resolves("a.test", s.addr.Addr())
	disk.SetFull(true)
	if _, err := r.c.RemoteFetch(t.Context(), q, nil); !errors.Is(err, store.ErrNoSpace) ||
		errors.Is(err, crawl.ErrBusy) {
		t.Errorf("first RemoteFetch(): %v, want store.ErrNoSpace", err)
	}
	if _, err := r.c.RemoteFetch(t.Context(), q, nil); !errors.Is(err, crawl.ErrBusy) ||
		len(s.log()) != 2 { // robots.txt and the page
		t.Errorf("second RemoteFetch(): %v, want ErrBusy; requests %v", err, s.count())
	}
	disk.SetFull(false)
	for range 2 {
		if rep, err := r.c.RemoteFetch(t.Context(), q, nil); err != nil || len(rep.Links) != 1 ||
			len(s.log()) != 3 {
			t.Errorf("RemoteFetch() with space: %+v, %v, requests %v", rep, err, s.count())
		}
	}
	if p, ok := r.page(q.URL); !ok || len(p.Links) != 1 || r.db.Counters().EstimationsServed != 1 {
		t.Errorf("page %+v, counters %+v", p, r.db.Counters())
	}
}

// A disk that is full now and then costs requests, but no page and no visit.
func TestStoreFullOften(t *testing.T) {
	t.Parallel()
	const hosts, pages = 2, 20
	disk := kv.NewDisk()
	r, _ := newFullRig(t, disk, func(c *crawl.Config) {
		c.Revisit, c.MaxRequestsPerHostDay = &eager, 1<<30
		c.Rules.Content = crawl.ContentRules{Exact: true, MaxCopies: 1}
	})
	noise, mu := rand.New(rand.NewPCG(1, 2)), sync.Mutex{}
	maybe := func() {
		mu.Lock()
		defer mu.Unlock()
		disk.SetFull(noise.IntN(3) == 0)
	}
	var sites []*site
	for h := range hosts {
		s := newSite(t, 67, byte(30+h))
		for i := range pages {
			s.mux.HandleFunc(fmt.Sprintf("/%d", i), func(w http.ResponseWriter, _ *http.Request) {
				maybe()
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w,
					`<a href="/%d">x</a><a href="/%d">y</a><a href="http://far.test/%d">z</a><p>%d`,
					(2*i+1)%pages, (2*i+2)%pages, i, i)
			})
		}
		r.own(fmt.Sprintf("h%d.test", h), s)
		sites = append(sites, s)
	}
	for h, s := range sites {
		r.seed(s.url(fmt.Sprintf("h%d.test", h), "/0"))
	}
	stop := r.start()
	end := time.NewTicker(20 * time.Millisecond)
	defer end.Stop()
	r.until("everything is fetched and revisited", func() bool {
		select {
		case <-end.C:
			disk.SetFull(false) // otherwise no space would be made once fetching has paused
		default:
		}
		c := r.db.Counters()
		return c.Pages >= hosts*pages && c.Revisits >= hosts*pages
	})
	stop()
	disk.SetFull(false)
	if c := r.db.Counters(); c.Pages != hosts*pages || c.Failed+c.Dropped != 0 ||
		r.pending()["far.test"] != pages {
		t.Errorf("counters %+v, pending %v", c, r.pending())
	}
	for h, s := range sites {
		for i := range pages {
			p, ok := r.page(s.url(fmt.Sprintf("h%d.test", h), fmt.Sprintf("/%d", i)))
			if !ok || p.Outcome != store.OutcomeOK || p.Flags != 0 || len(p.Links) != 3 &&
				i != pages-1 {
				t.Errorf("host %d, page %d: %+v", h, i, p)
			}
		}
	}
}
