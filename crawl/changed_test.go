package crawl_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/revisit"
	"peerd/store"
)

// yearly plans no visit within a test.
var yearly = revisit.Policy{Min: time.Hour, Max: 9000 * time.Hour, Initial: 9000 * time.Hour,
	Confirm: 1}

func (r *rig) changed(urls ...store.URL) {
	r.t.Helper()
	var found []store.Pending
	for _, u := range urls {
		found = append(found, store.Pending{URL: u, Found: time.Now(), Kind: store.KindChanged})
	}
	if err := r.c.Route(found); err != nil {
		r.t.Fatal(err)
	}
}

// Pages that are said to have changed are fetched at once: those that were fetched before, those
// that had gone, and new ones.
func TestChangedPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(yearly))
	s := newSite(t, 54, 1)
	r.own("a.test", s)
	var gone atomic.Bool
	s.mux.HandleFunc("/leaving", func(w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>leaving</title>")
	})
	for _, p := range []string{"/old", "/calm", "/new"} {
		s.html(p)
	}
	old, calm, leaving := s.url("a.test", "/old"), s.url("a.test", "/calm"),
		s.url("a.test", "/leaving")
	r.seed(old, calm, leaving)
	defer r.start()()
	r.until("all pages are fetched", func() bool { return r.db.Counters().Pages == 3 })

	r.changed(old, s.url("a.test", "/new"))
	r.until("the changed page and the new one are fetched", func() bool {
		n := s.count()
		return n["/old"] == 2 && n["/new"] == 1 && r.idle()
	})
	gone.Store(true)
	r.changed(leaving)
	r.until("the page has gone", func() bool {
		_, planned := r.visit(leaving)
		return s.count()["/leaving"] == 2 && !planned
	})
	gone.Store(false)
	r.changed(leaving)
	r.until("the page is back", func() bool {
		_, planned := r.visit(leaving)
		return s.count()["/leaving"] == 3 && planned
	})
	if n := s.count()["/calm"]; n != 1 {
		t.Errorf("%d requests of a page that has not changed, want 1", n)
	}
	if v, ok := r.visit(old); !ok || time.Until(v.Due) < time.Hour {
		t.Errorf("after it was fetched again, the next visit is planned for %v, want in hours",
			v.Due)
	}
}

// A page that has changed does not wait for all that its host has in its queue, however many links
// led to it.
func TestChangedPageComesFirst(t *testing.T) {
	t.Parallel()
	const queued = 300
	r := newRig(t, "", 20*time.Millisecond, visiting(yearly))
	s := newSite(t, 54, 6)
	r.own("a.test", s)
	s.html("/old")
	old := s.url("a.test", "/old")
	r.fatal(r.c.Route([]store.Pending{{URL: old, Depth: 5}}))
	stop := r.start()
	r.until("the page is fetched", func() bool { _, ok := r.visit(old); return ok && r.idle() })
	stop()
	var found []store.Pending
	for i := range queued {
		s.html(fmt.Sprintf("/%d", i))
		found = append(found, store.Pending{URL: s.url("a.test", fmt.Sprintf("/%d", i)), Depth: 1})
	}
	r.fatal(r.c.Route(found))
	r.changed(old)
	defer r.start()()
	r.until("the page is fetched again", func() bool { return s.count()["/old"] == 2 })
	if n := len(s.log()); n > queued/2 {
		t.Errorf("%d requests before the page that has changed", n)
	}
	r.until("the visit is noted", func() bool { v, _ := r.visit(old); return !v.Ahead })
	if v, _ := r.visit(old); v.Depth != 5 {
		t.Errorf("depth %d of the page, want 5", v.Depth)
	}
}

// A page that changes while it is being fetched is fetched once more.
func TestChangedDuringFetch(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(yearly))
	s := newSite(t, 54, 2)
	r.own("a.test", s)
	began, end := make(chan bool, 9), make(chan bool)
	s.mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		began <- true
		<-end
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>slow</title>")
	})
	slow := s.url("a.test", "/slow")
	r.seed(slow)
	defer r.start()()
	<-began
	end <- true // the first fetch
	r.until("the page is fetched", func() bool { _, ok := r.visit(slow); return ok })
	r.changed(slow)
	<-began // the second one reads the old content
	r.changed(slow, slow)
	end <- true
	<-began
	end <- true
	r.until("nothing is left", func() bool {
		v, ok := r.visit(slow)
		return ok && time.Until(v.Due) > time.Hour && r.idle()
	})
	if n := s.count()["/slow"]; n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// However long their names are, many pages can change at once: those of a host of ours, and those
// that were pending when it became ours.
func TestManyChangedPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(yearly))
	host := strings.Repeat(strings.Repeat("a", 60)+".", 4) + "aaaaatest" // 253 bytes
	s := newSite(t, 54, 5)
	r.own(host, s)
	var urls []store.URL
	for i := range 1000 {
		urls = append(urls, s.url(host, fmt.Sprintf("/%d-%s", i, strings.Repeat("b", 120))))
	}
	plan := func(at time.Time) {
		t.Helper()
		for part := range slices.Chunk(urls, 100) {
			r.fatal(r.db.Update(func(tx *store.Tx) error {
				for _, u := range part {
					err := tx.PutVisit(store.Visit{URL: u, Due: at})
					if err := errors.Join(err, tx.MarkSeen(u)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	expect := func(what string) {
		t.Helper()
		for _, u := range urls {
			if v, ok := r.visit(u); !ok || time.Until(v.Due) > time.Hour {
				t.Fatalf("%s: visit of a page that has changed: %v, due %v", what, ok, v.Due)
			}
		}
	}
	plan(time.Now().Add(1000 * time.Hour))
	r.changed(urls...)
	expect("routed")

	plan(time.Now().Add(1000 * time.Hour))
	for part := range slices.Chunk(urls, 100) {
		r.fatal(r.db.Update(func(tx *store.Tx) error {
			for _, u := range part {
				p := store.Pending{URL: u, Found: time.Now(), Kind: store.KindChanged}
				if _, err := tx.AddPending(p); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	moved := 0
	for more := true; more; {
		n, left, err := r.c.Enqueue(host)
		r.fatal(err)
		moved, more = moved+n, left
	}
	if moved != len(urls) {
		t.Errorf("%d pending URLs were moved, want %d", moved, len(urls))
	}
	expect("enqueued")
}

// Without revisits, a page is fetched once, whatever is said of it.
func TestChangedWithoutRevisits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, func(*crawl.Config) {})
	s := newSite(t, 54, 3)
	r.own("a.test", s)
	s.html("/a")
	s.html("/b")
	r.seed(s.url("a.test", "/a"))
	defer r.start()()
	r.until("the page is fetched", func() bool { return r.db.Counters().Pages == 1 })
	r.changed(s.url("a.test", "/a"), s.url("a.test", "/b"))
	r.until("the new page is fetched", func() bool {
		return r.db.Counters().Pages == 2 && r.idle()
	})
	if n := s.count()["/a"]; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// The peers that may say which pages have changed are those that robots.txt names.
func TestSpeaksFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, nil)
	s := newSite(t, 54, 4)
	r.own("a.test", s)
	s.text("/robots.txt", "User-agent: *\nDisallow: /x\npeerd-peer: alice\n")
	s.html("/a")
	u := s.url("a.test", "/a")
	if r.c.SpeaksFor("alice", u) {
		t.Error("a peer may speak for a site of which robots.txt is not known")
	}
	r.seed(u)
	defer r.start()()
	r.until("the page is fetched", func() bool { return r.db.Counters().Pages == 1 })
	for peer, want := range map[string]bool{"alice": true, "bob": false, "": false} {
		if got := r.c.SpeaksFor(peer, u); got != want {
			t.Errorf("SpeaksFor(%q) = %v, want %v", peer, got, want)
		}
	}
}
