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

// storedRobots returns the stored robots.txt of an origin.
func (r *rig) storedRobots(origin string) (result robots.Result) {
	r.t.Helper()
	r.fatal(r.db.View(func(tx *store.Tx) error {
		raw, err := tx.Robots(origin)
		if err != nil {
			return err
		}
		return cbor.Unmarshal(raw, &result)
	}))
	return result
}

// storeRobots stores the robots.txt of an origin.
func (r *rig) storeRobots(origin string, result robots.Result) {
	r.t.Helper()
	raw, err := cbor.Marshal(result)
	r.fatal(err)
	r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutRobots(origin, raw) }))
}

// TestRobotsBecomesUnreachable verifies that a known file stays in force while it is unreachable,
// and that a file that was unreachable for thirty days disallows nothing (RFC 9309, section
// 2.3.1.4).
func TestRobotsBecomesUnreachable(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const month = 30 * 24 * time.Hour
	file := []byte("User-agent: *\nDisallow: /no\nCrawl-delay: 0.01\n")
	for name, tc := range map[string]struct {
		known    *robots.Result
		ok, no   bool          // whether /ok and /no are fetched
		requests int           // for robots.txt
		since    time.Duration // before now, when it was first unreachable
	}{
		"file": {&robots.Result{
			Fetched: ago(48 * time.Hour), Expires: ago(24 * time.Hour), Status: 200, Body: file,
		}, true, false, 1, 0},
		"an older file": {&robots.Result{
			Fetched: ago(2 * month), Expires: ago(month), Status: 200, Body: file,
		}, true, false, 1, 0},
		"no file": {&robots.Result{
			Fetched: ago(48 * time.Hour), Expires: ago(24 * time.Hour), Status: 404,
		}, true, true, 1, 0},
		"file, again": {&robots.Result{
			Fetched: ago(time.Hour), Expires: ago(time.Minute), Status: 200, Body: file,
			UnreachableSince: ago(72 * time.Hour),
		}, true, false, 1, 72 * time.Hour},
		"nothing": {nil, false, false, 2, 0},
		"a week": {&robots.Result{
			Fetched: ago(time.Hour), Expires: ago(time.Minute), Unreachable: true,
			UnreachableSince: ago(7 * 24 * time.Hour),
		}, false, false, 2, 7 * 24 * time.Hour},
		"a month": {&robots.Result{
			Fetched: ago(time.Hour), Expires: ago(time.Minute), Unreachable: true,
			UnreachableSince: ago(month + time.Hour),
		}, true, true, 1, month + time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", 0, func(c *crawl.Config) { c.Patience = time.Nanosecond })
			s := newSite(t, 79, 1)
			r.own("a.test", s)
			s.mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadGateway)
			})
			s.html("/ok")
			s.html("/no")
			u := s.url("a.test", "/ok")
			if tc.known != nil {
				r.storeRobots(u.Origin(), *tc.known)
			}
			r.seed(u, s.url("a.test", "/no"))
			r.crawl()
			n := s.count()
			if n["/robots.txt"] != tc.requests || (n["/ok"] == 1) != tc.ok ||
				(n["/no"] == 1) != tc.no {
				t.Errorf("requests %v, want %d for robots.txt, /ok %v, /no %v",
					n, tc.requests, tc.ok, tc.no)
			}
			stored := r.storedRobots(u.Origin())
			if d := now.Sub(stored.UnreachableSince) - tc.since; d.Abs() > 5*time.Minute {
				t.Errorf("stored: unreachable since %v, want %v", stored.UnreachableSince,
					ago(tc.since))
			}
			if d := stored.Expires.Sub(stored.Fetched); d != robots.RetryUnreachable {
				t.Errorf("stored: valid for %v, want %v", d, robots.RetryUnreachable)
			}
		})
	}
}

// TestRobotsOnAnotherHost verifies that a redirect to another host is followed. The file is absent
// if the host does not exist or its address may not be dialled, and unreachable if the host cannot
// be resolved now.
func TestRobotsOnAnotherHost(t *testing.T) {
	const gap = 20 * time.Millisecond
	www := newSite(t, 80, 2)
	www.text("/robots.txt", "User-agent: *\nDisallow: /no")
	for name, tc := range map[string]struct {
		addr   netip.Addr
		err    error
		ok, no int // requests
		denied int64
	}{
		"followed":       {www.addr.Addr(), nil, 1, 0, 1},
		"not dialled":    {netip.MustParseAddr("10.1.2.3"), nil, 1, 1, 0},
		"no such host":   {netip.Addr{}, resolve.ErrNotFound, 1, 1, 0},
		"no answer":      {netip.Addr{}, resolve.ErrTemporary, 0, 0, 0},
		"not asked":      {netip.Addr{}, resolve.ErrBusy, 0, 0, 0},
		"another reason": {netip.Addr{}, errors.New("address may not be dialled"), 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", gap, func(c *crawl.Config) {
				c.Patience = time.Nanosecond
				c.Delegate = resolving{c.Delegate,
					func(_ context.Context, host string) ([]netip.Addr, error) {
						if host != "www.test" { // on a busy machine, also the host itself
							return nil, resolve.ErrNotFound
						}
						return []netip.Addr{tc.addr}, tc.err
					}}
			})
			s := newSite(t, 80, 1)
			r.own("a.test", s)
			to := string(www.url("www.test", "/robots.txt"))
			s.mux.Handle("/robots.txt", http.RedirectHandler(to, http.StatusMovedPermanently))
			s.html("/ok")
			s.html("/no")
			r.seed(s.url("a.test", "/ok"), s.url("a.test", "/no"))
			r.crawl()
			if n := s.count(); n["/ok"] != tc.ok || n["/no"] != tc.no {
				t.Errorf("requests %v, want %d for /ok and %d for /no", n, tc.ok, tc.no)
			}
			if c := r.db.Counters(); c.RobotsDenied != tc.denied {
				t.Errorf("counters %+v, want RobotsDenied %d", c, tc.denied)
			}
			for _, o := range r.observed() { // requests to www are not reported here
				if o.rep.Outcome == store.OutcomeRefused {
					t.Errorf("observed %+v, want no request that was refused", o)
				}
			}
			if d := s.apart(t); d < gap {
				t.Errorf("requests %v apart, want at least %v", d, gap)
			}
		})
	}
}

// TestStopDuringRobotsLookup verifies that a robots.txt is not taken for absent if the crawler
// stops while it looks up the host to which the file redirects.
func TestStopDuringRobotsLookup(t *testing.T) {
	asked := make(chan struct{})
	r := newRig(t, "", 0, func(c *crawl.Config) {
		c.Delegate = resolving{c.Delegate,
			func(ctx context.Context, host string) ([]netip.Addr, error) {
				if host == "www.test" {
					close(asked)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}}
	})
	s := newSite(t, 80, 3)
	r.own("a.test", s)
	s.mux.Handle("/robots.txt",
		http.RedirectHandler("http://www.test/robots.txt", http.StatusMovedPermanently))
	r.seed(s.url("a.test", "/"))
	stop := r.start()
	<-asked
	stop()
	err := r.db.View(func(tx *store.Tx) error {
		_, err := tx.Robots(s.url("a.test", "/").Origin())
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a result was stored (%v), want none", err)
	}
}
