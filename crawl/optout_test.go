package crawl_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/deny"
	"peerd/store"
)

// optingOut returns a site of many pages, the file of which exists while out is set.
func optingOut(t *testing.T, r *rig, x byte) (s *site, out *atomic.Bool) {
	t.Helper()
	s, out = newSite(t, x, 1), new(atomic.Bool)
	r.resolves("a.test", s.addr.Addr())
	s.mux.HandleFunc(deny.OptOutPath, func(w http.ResponseWriter, q *http.Request) {
		if !out.Load() {
			http.NotFound(w, q)
			return
		}
		fmt.Fprintln(w, "crawler: peerd")
	})
	s.mux.HandleFunc("/p/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p>page")
	})
	return s, out
}

func pagesOf(s *site) (urls []store.URL) {
	for i := range 40 {
		urls = append(urls, s.url("a.test", fmt.Sprintf("/p/%d", i)))
	}
	return urls
}

// A claim makes the next request one for the file, once; then the site is left alone, and its URLs
// are given up. Without the file, the claim stops nothing.
func TestOptOut(t *testing.T) {
	for _, real := range []bool{true, false} {
		r := newRig(t, "", 0, func(c *crawl.Config) { c.Workers = 4 })
		s, out := optingOut(t, r, 71)
		out.Store(real)
		urls := pagesOf(s)
		r.own("a.test", s)
		r.seed(urls[:20]...)
		r.crawl()
		if n := len(s.log()); n != 21 {
			t.Fatalf("%d requests before, want 20 pages and robots.txt", n)
		}
		r.optOuts.Claim(urls[0].Origin())
		r.seed(urls[20:]...)
		r.crawl()
		rest := s.log()[21:]
		if rest[0].path != deny.OptOutPath {
			t.Errorf("the first request after the claim is for %s", rest[0].path)
		}
		want, lost := 21, 0
		if real {
			want, lost = 1, 20
		}
		if len(rest) != want || len(r.givenUp()) != lost {
			t.Errorf("file: %v: %d requests after the claim, %d URLs given up; want %d and %d",
				real, len(rest), len(r.givenUp()), want, lost)
		}
		for u, g := range r.givenUp() {
			if g.Outcome != store.OutcomeDenied || !strings.Contains(g.Error, "opted out") {
				t.Errorf("%s was given up for %v, %s", u, g.Outcome, g.Error)
			}
		}
	}
}

// A withdrawal is found by reading the file again, and the site crawled again.
func TestOptOutWithdrawn(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s, out := optingOut(t, r, 72)
	out.Store(true)
	urls := pagesOf(s)
	r.own("a.test", s)
	origin := urls[0].Origin()
	if obeyed, err := r.c.ReadOptOut(t.Context(), origin); !obeyed || err != nil {
		t.Fatalf("ReadOptOut() = %v, %v", obeyed, err)
	}
	r.seed(urls[0])
	r.crawl()
	if got := s.count(); got["/p/0"] != 0 || got[deny.OptOutPath] != 1 {
		t.Errorf("requests %v", got)
	}
	out.Store(false)
	if obeyed, err := r.c.ReadOptOut(t.Context(), origin); obeyed || err != nil {
		t.Fatalf("after the withdrawal: ReadOptOut() = %v, %v", obeyed, err)
	}
	r.seed(urls[1])
	r.crawl()
	if got := s.count(); got["/p/1"] != 1 {
		t.Errorf("requests %v, want page 1", got)
	}
}

// A peer that is asked to fetch reads the file itself, too.
func TestOptOutAtEstimator(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s, out := optingOut(t, r, 73)
	out.Store(true)
	u := s.url("a.test", "/p/1")
	r.optOuts.Claim(u.Origin())
	rep, err := r.c.RemoteFetch(t.Context(), store.FetchRequest{URL: u, Addr: s.addr.Addr()}, nil)
	if err != nil || rep.Outcome != store.OutcomeDenied {
		t.Errorf("RemoteFetch() = %+v, %v, want Denied", rep, err)
	}
	if got := s.count(); len(got) != 1 || got[deny.OptOutPath] != 1 {
		t.Errorf("requests %v, want one for the file", got)
	}
}

// What is out of scope or does not exist is not requested for a visitor.
func TestReadOptOutRefused(t *testing.T) {
	r := newRig(t, "", 0, nil)
	for _, origin := range []string{"http://none.test", "https://10.0.0.1"} {
		_, err := r.c.ReadOptOut(t.Context(), origin)
		if !errors.Is(err, crawl.ErrInvalidRequest) {
			t.Errorf("%s: %v, want ErrInvalidRequest", origin, err)
		}
	}
}

// While an address is stopped, its hosts wait.
func TestStoppedAddressWaits(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s, _ := optingOut(t, r, 74)
	r.own("a.test", s)
	if !r.optOuts.Stop(s.addr.Addr(), time.Now()) {
		t.Fatal("no room")
	}
	r.seed(pagesOf(s)...)
	stop := r.start()
	r.until("the host waits", func() bool {
		all := r.fr.HostList()
		return len(all) == 1 && all[0].NextAt.After(time.Now().Add(time.Minute))
	})
	stop()
	_, err := r.c.RemoteFetch(t.Context(),
		store.FetchRequest{URL: s.url("a.test", "/p/1"), Addr: s.addr.Addr()}, nil)
	if !errors.Is(err, crawl.ErrBusy) {
		t.Errorf("RemoteFetch() = %v, want ErrBusy", err)
	}
	if n := len(s.log()); n != 0 || r.fr.Stats().Pending != 40 {
		t.Errorf("%d requests, %d URLs queued; want none and 40", n, r.fr.Stats().Pending)
	}
}
