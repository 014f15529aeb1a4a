package crawl_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
)

// While a strategy measures with connections, the page waits and the clocks move as for
// pages. Then the page is fetched once.
func TestMeasureByConnecting(t *testing.T) {
	const gap = 30 * time.Millisecond
	r := newRig(t, "", gap, func(c *crawl.Config) { c.MaxRequestsPerHostDay = 1000 })
	s := newSite(t, 43, 1)
	s.html("/")
	lost := errors.New("lost")
	var mu sync.Mutex
	var at []time.Time // when each request was sent
	places := []crawl.Dispatch{{Connect: true}, {Peer: "p", Connect: true},
		{Peer: "unreachable", Connect: true}, {Peer: "q", Connect: true}, {}}
	r.where = func(netip.Prefix) crawl.Dispatch {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		p := places[0]
		if len(places) > 1 {
			places = places[1:]
		}
		return p
	}
	u := s.url("a.test", "/")
	r.connect = func(_ context.Context, peer string, q store.FetchRequest) (store.FetchReport,
		error) {
		if q.URL != u || q.Addr != s.addr.Addr() {
			t.Errorf("%s got request %+v", peer, q)
		}
		if peer == "unreachable" {
			return store.FetchReport{}, errors.Join(lost, crawl.ErrNotSent)
		}
		return store.FetchReport{Outcome: store.OutcomeOK,
			Timing: store.Timing{Connect: time.Millisecond}}, nil
	}
	r.own("a.test", s)
	r.seed(u)
	r.crawl()
	if n := s.count(); n["/"] != 1 {
		t.Errorf("requests %v", n)
	}
	var peers []string
	for _, o := range r.observed() {
		if o.rep.Timing.FirstByte == 0 {
			peers = append(peers, o.peer)
			if errors.Is(o.err, crawl.ErrNotSent) != (o.peer == "unreachable") || o.err == nil &&
				(o.rep.Outcome != store.OutcomeOK || o.rep.Timing.Connect <= 0) {
				t.Errorf("observed %+v", o)
			}
		}
	}
	if len(peers) != 4 || peers[0] != "" || peers[1] != "p" || peers[2] != "unreachable" ||
		peers[3] != "q" {
		t.Errorf("observed %q", peers)
	}
	// no gap after the request that was not sent
	for i, least := range []time.Duration{gap, gap, 0, gap} {
		if d := at[i+1].Sub(at[i]); d < least {
			t.Errorf("%v between requests %d and %d, want at least %v", d, i, i+1, least)
		}
	}
	if c := r.db.Counters(); c.Connects != 1 || c.Pages != 1 || c.Failed != 0 {
		t.Errorf("counters %+v", c)
	}
	r.fatal(r.db.View(func(tx *store.Tx) error {
		h, err := tx.Host("a.test")
		if err == nil && h.DayCount != 5 { // robots.txt, three connections, the page
			t.Errorf("%d requests counted for the day, want 5", h.DayCount)
		}
		return err
	}))
}

func TestConnectForOthers(t *testing.T) {
	const gap = 50 * time.Millisecond
	r := newRig(t, "", gap, func(c *crawl.Config) { c.RemoteTimeout = 10 * time.Second })
	s := newSite(t, 43, 2)
	empty := netip.MustParseAddr("127.43.2.77") // no server listens there
	secret := netip.MustParseAddr("10.1.2.3")
	r.resolves("a.test", s.addr.Addr(), empty, secret)
	began := time.Now()
	for _, test := range []struct {
		what string
		url  store.URL
		addr netip.Addr
		ok   bool
		err  error
	}{
		{"the server", s.url("a.test", "/"), s.addr.Addr(), true, nil},
		{"the server again", s.url("a.test", "/"), s.addr.Addr(), true, nil},
		{"no server", s.url("a.test", "/"), empty, false, nil},
		{"a forbidden address", s.url("a.test", "/"), secret, false, nil},
		{"an invalid URL", "ftp://a.test/", empty, false, nil},
		{"an address of another host", s.url("a.test", "/"), empty.Next(), false,
			crawl.ErrInvalidRequest},
		{"an unknown host", s.url("b.test", "/"), s.addr.Addr(), false, crawl.ErrBusy},
	} {
		rep, err := r.c.Connect(t.Context(), store.FetchRequest{URL: test.url, Addr: test.addr})
		if !errors.Is(err, test.err) || rep.Outcome.Answered() != test.ok ||
			test.ok && (rep.Timing.Connect <= 0 || rep.Timing.FirstByte != 0) {
			t.Errorf("Connect() to %s = %+v, %v, want %v, %v", test.what, rep, err, test.ok,
				test.err)
		}
	}
	if took := time.Since(began); took < 4*gap {
		t.Errorf("5 connections to a host took %v, want at least 4 gaps of %v", took, gap)
	}
	if len(s.log()) != 0 {
		t.Errorf("requests %v", s.count())
	}
}

// TestReachIsCounted verifies that connections to find out whether a server can be reached are
// counted, and that an address that has just answered is not connected to.
func TestReachIsCounted(t *testing.T) {
	r := newRig(t, "", time.Millisecond, nil)
	s := newSite(t, 43, 1)
	for range 2 {
		a, ok := r.c.Reach(t.Context(), s.url("a.test", "/"), []netip.Addr{s.addr.Addr()},
			time.Minute)
		if !ok || a != s.addr.Addr() {
			t.Errorf("Reach() = %v, %v, want %v", a, ok, s.addr.Addr())
		}
	}
	if n := r.db.Counters().Connects; n != 1 {
		t.Errorf("%d connections counted, want 1", n)
	}
}

// TestReachIsPolite verifies that hosts that share an address cause one connection to it, and that
// a connection waits for the clocks of its address or is not opened.
func TestReachIsPolite(t *testing.T) {
	const gap = 300 * time.Millisecond
	r := newRig(t, "", gap, nil)
	s := newSite(t, 44, 1)
	addrs := []netip.Addr{s.addr.Addr()}
	var wg sync.WaitGroup
	for _, host := range []string{"a.test", "b.test", "c.test"} {
		wg.Go(func() {
			if _, ok := r.c.Reach(t.Context(), s.url(host, "/"), addrs, time.Minute); !ok {
				t.Errorf("Reach() of %s = false, want true", host)
			}
		})
	}
	wg.Wait()
	if n := r.db.Counters().Connects; n != 1 {
		t.Errorf("%d connections counted, want 1", n)
	}
	began := time.Now()
	for range 2 {
		if _, ok := r.c.Reach(t.Context(), s.url("a.test", "/"), addrs, 0); !ok {
			t.Error("Reach() = false, want true")
		}
	}
	if took := time.Since(began); took < gap {
		t.Errorf("two connections to an address took %v, want at least %v", took, gap)
	}
	clocks, err := r.fr.ReserveAddr(t.Context(), addrs[0], time.Now().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer clocks.Cancel()
	if _, ok := r.c.Reach(t.Context(), s.url("a.test", "/"), addrs, 0); ok {
		t.Error("Reach() beside a request = true, want false")
	}
}
