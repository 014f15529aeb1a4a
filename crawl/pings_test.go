package crawl_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"peerd/crawl/ping"
	"peerd/store"
)

const pingKey = "0123456789abcdef"

// pinged routes notices of pages, as a peer sends them that has received a ping.
func (r *rig) pinged(key string, pages ...store.URL) {
	r.t.Helper()
	var found []store.Pending
	for _, p := range pages {
		n, err := ping.New(string(p), key, "")
		r.fatal(err)
		found = append(found, store.Pending{URL: n.URL(), Found: time.Now(),
			Kind: store.KindPinged})
	}
	r.fatal(r.c.Route(found))
}

// waiting returns the notices on disk that wait for their key.
func (r *rig) waiting() (all []string) {
	r.t.Helper()
	r.fatal(r.db.View(func(tx *store.Tx) error {
		return tx.EachData("ping ", func(key string, _ []byte) (bool, error) {
			all = append(all, strings.TrimPrefix(key, "ping "))
			return true, nil
		})
	}))
	return all
}

// A site with a key has pages visited that have changed, and new ones. For many pings its file is
// read once.
func TestPing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(yearly))
	s := newSite(t, 55, 1)
	r.own("a.test", s)
	r.resolves("a.test", s.addr.Addr())
	for _, p := range []string{"/old", "/calm", "/new"} {
		s.html(p)
	}
	s.text("/"+pingKey+".txt", pingKey+"\n")
	old := s.url("a.test", "/old")
	r.seed(old, s.url("a.test", "/calm"))
	defer r.start()()
	r.until("all pages are fetched", func() bool { return r.db.Counters().Pages == 2 })

	r.pinged(pingKey, old, s.url("a.test", "/new"))
	r.until("the changed page and the new one are fetched", func() bool {
		n := s.count()
		return n["/old"] == 2 && n["/new"] == 1 && r.idle()
	})
	r.pinged(pingKey, old)
	r.until("the page is fetched again", func() bool { return s.count()["/old"] == 3 && r.idle() })
	if n := s.count(); n["/calm"] != 1 || n["/"+pingKey+".txt"] != 1 {
		t.Errorf("requests %v, want one of the page that has not changed, and one of the key", n)
	}
	if left := r.waiting(); len(left) > 0 {
		t.Errorf("%v is left on disk", left)
	}
}

// Forged pings have one key file requested, and no page.
func TestForgedPing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(yearly))
	s := newSite(t, 55, 2)
	r.own("a.test", s)
	r.resolves("a.test", s.addr.Addr())
	s.html("/a")
	s.html("/b")
	s.text("/"+pingKey+".txt", "another text")
	r.seed(s.url("a.test", "/a"))
	defer r.start()()
	r.until("the page is fetched", func() bool { return r.db.Counters().Pages == 1 })
	r.pinged(pingKey, s.url("a.test", "/a"), s.url("a.test", "/b"))
	r.until("the key file is read", func() bool { return len(r.waiting()) == 0 })
	r.pinged(pingKey, s.url("a.test", "/a"))
	for i := range 100 {
		r.pinged(fmt.Sprintf("forged-%d", i), s.url("a.test", "/a"))
	}
	time.Sleep(200 * time.Millisecond) // ten times the interval in which files are read
	if n := s.count(); n["/robots.txt"] != 1 || n["/a"] != 1 || n["/"+pingKey+".txt"] != 1 ||
		len(s.log()) != 3 {
		t.Errorf("requests %v, want one each of robots.txt, a page and a key", n)
	}
}

// The key file is not requested if robots.txt forbids it, and a host of others is none of ours.
func TestPingRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(yearly))
	s := newSite(t, 55, 3)
	r.own("a.test", s)
	r.resolves("a.test", s.addr.Addr())
	s.text("/robots.txt", "User-agent: *\nDisallow: /*.txt\n")
	s.html("/a")
	s.text("/"+pingKey+".txt", pingKey)
	r.seed(s.url("a.test", "/a"))
	defer r.start()()
	r.until("the page is fetched", func() bool { return r.db.Counters().Pages == 1 })
	r.pinged(pingKey, s.url("a.test", "/a"))
	r.until("the notice is forgotten", func() bool { return len(r.waiting()) == 0 })
	if n := s.count(); n["/a"] != 1 || n["/"+pingKey+".txt"] != 0 {
		t.Errorf("requests %v, want one of the page, none of the key", n)
	}
	for notice, ok := range map[string]bool{"/a#" + pingKey: true, "/a": false, "/a#k": false} {
		if _, err := r.c.CheckNotice(s.url("a.test", notice)); (err == nil) != ok {
			t.Errorf("notice %s: %v", notice, err)
		}
	}
	if _, err := r.c.CheckNotice(s.url("b.test", "/a#"+pingKey)); err == nil {
		t.Error("took a notice of a host that is not ours")
	}
	if _, err := r.db.Counters(), r.c.Route([]store.Pending{{URL: s.url("a.test", "/a"),
		Kind: store.KindPinged | store.KindChanged}}); err != nil {
		t.Error(err)
	}
	if n := s.count()["/a"]; n != 1 {
		t.Errorf("%d requests after a notice without a key, want 1", n)
	}
}

// A notice outlives the process, and a site that does not answer at first.
func TestPingSurvives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSite(t, 55, 4)
	s.html("/a")
	s.mux.HandleFunc("/"+pingKey+".txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, pingKey)
	})
	r := newRig(t, dir, time.Millisecond, visiting(yearly))
	r.own("a.test", s)
	r.pinged(pingKey, s.url("a.test", "/a"))
	r.fatal(r.db.Close())

	r = newRig(t, dir, time.Millisecond, visiting(yearly))
	r.own("a.test", s)
	r.resolves("a.test", s.addr.Addr())
	defer r.start()()
	r.until("the new page is fetched", func() bool { return r.db.Counters().Pages == 1 })
	if left := r.waiting(); len(left) > 0 {
		t.Errorf("%v is left on disk", left)
	}
}

// Notices of a host that has left are pending for its new owner.
func TestPingOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(yearly))
	n, err := ping.New("http://b.test/a", pingKey, "")
	r.fatal(err)
	r.pinged(pingKey, n.Page)
	r.fatal(r.db.View(func(tx *store.Tx) error {
		p, err := tx.Pending(n.URL())
		if err == nil && (!p.Kind.Pinged() || p.From != "") {
			t.Errorf("kind %d of a notice, from %q", p.Kind, p.From)
		}
		return err
	}))
}
