package crawl_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl"
	"peerd/crawl/resolve"
	"peerd/crawl/robots"
	"peerd/store"
)

// verdict returns what the store has of an origin's robots.txt.
func (r *rig) verdict(origin string) (v robots.Verdict) {
	r.t.Helper()
	r.fatal(r.db.View(func(tx *store.Tx) error {
		raw, err := tx.Robots(origin)
		if err != nil {
			return err
		}
		return cbor.Unmarshal(raw, &v)
	}))
	return v
}

// A file that cannot be had any more goes on to hold, and one that could not be
// had for thirty days forbids nothing (RFC 9309, section 2.3.1.4).
func TestRobotsOutOfReach(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const month = 30 * 24 * time.Hour
	file := []byte("User-agent: *\nDisallow: /no\nCrawl-delay: 0.01\n")
	for name, tc := range map[string]struct {
		known  *robots.Verdict
		ok, no bool          // fetched
		asked  int           // for robots.txt
		since  time.Duration // ago
	}{
		"file":          {&robots.Verdict{Fetched: ago(48 * time.Hour), Expires: ago(24 * time.Hour), Status: 200, Body: file}, true, false, 1, 0},
		"an older file": {&robots.Verdict{Fetched: ago(2 * month), Expires: ago(month), Status: 200, Body: file}, true, false, 1, 0},
		"no file":       {&robots.Verdict{Fetched: ago(48 * time.Hour), Expires: ago(24 * time.Hour), Status: 404}, true, true, 1, 0},
		"file, again":   {&robots.Verdict{Fetched: ago(time.Hour), Expires: ago(time.Minute), Status: 200, Body: file, Since: ago(72 * time.Hour)}, true, false, 1, 72 * time.Hour},
		"nothing":       {nil, false, false, 3, 0},
		"a week":        {&robots.Verdict{Fetched: ago(time.Hour), Expires: ago(time.Minute), Unreachable: true, Since: ago(7 * 24 * time.Hour)}, false, false, 3, 7 * 24 * time.Hour},
		"a month":       {&robots.Verdict{Fetched: ago(time.Hour), Expires: ago(time.Minute), Unreachable: true, Since: ago(month + time.Hour)}, true, true, 1, month + time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", 0, nil)
			s := newSite(t, 79, 1)
			r.own("a.test", s)
			s.mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
			s.html("/ok")
			s.html("/no")
			u := s.url("a.test", "/ok")
			if tc.known != nil {
				raw, err := cbor.Marshal(tc.known)
				r.fatal(err)
				r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutRobots(u.Origin(), raw) }))
			}
			r.seed(u, s.url("a.test", "/no"))
			r.crawl()
			n := s.count()
			if n["/robots.txt"] != tc.asked || (n["/ok"] == 1) != tc.ok || (n["/no"] == 1) != tc.no {
				t.Errorf("requests %v", n)
			}
			v := r.verdict(u.Origin())
			if d := now.Sub(v.Since) - tc.since; d.Abs() > time.Minute {
				t.Errorf("kept: out of reach since %v", v.Since)
			}
			if left := time.Until(v.Expires); left < 9*time.Minute || left > 11*time.Minute {
				t.Errorf("kept for %v", left)
			}
		})
	}
}

// A robots.txt that another host has is fetched there; one at an address that
// may not be dialled is none; one whose host cannot be looked up now is out of
// reach.
func TestRobotsOnAnotherHost(t *testing.T) {
	const gap = 20 * time.Millisecond
	www := newSite(t, 80, 2)
	www.text("/robots.txt", "User-agent: *\nDisallow: /no")
	for name, tc := range map[string]struct {
		addr    netip.Addr
		err     error
		ok, no  int
		rejects int64
	}{
		"followed":       {www.addr.Addr(), nil, 1, 0, 1},
		"not dialled":    {netip.MustParseAddr("10.1.2.3"), nil, 1, 1, 0},
		"no such host":   {netip.Addr{}, resolve.ErrNotFound, 1, 1, 0},
		"no answer":      {netip.Addr{}, resolve.ErrTemporary, 0, 0, 0},
		"another reason": {netip.Addr{}, errors.New("none that may be dialled"), 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", gap, func(c *crawl.Config) {
				c.Resolve = func(_ context.Context, host string) (netip.Addr, error) {
					if host != "www.test" {
						t.Errorf("asked for %s", host)
					}
					return tc.addr, tc.err
				}
			})
			s := newSite(t, 80, 1)
			r.own("a.test", s)
			s.mux.Handle("/robots.txt", http.RedirectHandler(string(www.url("www.test", "/robots.txt")), http.StatusMovedPermanently))
			s.html("/ok")
			s.html("/no")
			r.seed(s.url("a.test", "/ok"), s.url("a.test", "/no"))
			r.crawl()
			if n := s.count(); n["/ok"] != tc.ok || n["/no"] != tc.no {
				t.Errorf("requests %v", n)
			}
			if c := r.db.Counters(); c.RobotsDenied != tc.rejects {
				t.Errorf("counters %+v", c)
			}
			for _, o := range r.observed() { // of www's time nobody here is told
				if o.rep.Outcome == store.OutcomeRefused {
					t.Errorf("observed %+v", o)
				}
			}
			if d := s.apart(t); d < gap {
				t.Errorf("requests %v apart", d)
			}
		})
	}
}

// What robots.txt asks to be waited for is waited for, its old copy or not.
func TestRobotsThrottledWithCopy(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 0, nil)
	s := newSite(t, 81, 1)
	r.own("a.test", s)
	s.mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s.html("/ok")
	u := s.url("a.test", "/ok")
	raw, err := cbor.Marshal(robots.Verdict{Fetched: time.Now().Add(-48 * time.Hour), Expires: time.Now().Add(-time.Hour), Status: 404})
	r.fatal(err)
	r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutRobots(u.Origin(), raw) }))
	r.seed(u)
	r.crawl()
	l := s.log()
	if len(l) != 2 || l[1].start.Sub(l[0].end) < 990*time.Millisecond {
		t.Errorf("requests %v", l)
	}
}
