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

// While a strategy measures by connections, the page waits and the clocks move
// as for pages; then it is fetched, once.
func TestMeasureByConnecting(t *testing.T) {
	const gap = 30 * time.Millisecond
	r := newRig(t, "", gap, func(c *crawl.Config) { c.HostDay = 1000 })
	s := newSite(t, 43, 1)
	s.html("/")
	lost := errors.New("lost")
	var mu sync.Mutex
	var at []time.Time // when something was sent
	places := []crawl.Place{{Connect: true}, {Peer: "p", Connect: true}, {Peer: "unreachable", Connect: true}, {Peer: "q", Connect: true}, {}}
	r.where = func(netip.Prefix) crawl.Place {
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
	r.connect = func(_ context.Context, peer string, q store.FetchRequest) (store.FetchReport, error) {
		if q.URL != u || q.Addr != s.addr.Addr() {
			t.Errorf("%s is to connect for %+v", peer, q)
		}
		if peer == "unreachable" {
			return store.FetchReport{}, errors.Join(lost, crawl.ErrNotSent)
		}
		return store.FetchReport{Outcome: store.OutcomeOK, Timing: store.Timing{Connect: time.Millisecond}}, nil
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
			if errors.Is(o.err, crawl.ErrNotSent) != (o.peer == "unreachable") || o.err == nil && (o.rep.Outcome != store.OutcomeOK || o.rep.Timing.Connect <= 0) {
				t.Errorf("%+v", o)
			}
		}
	}
	if len(peers) != 4 || peers[0] != "" || peers[1] != "p" || peers[2] != "unreachable" || peers[3] != "q" {
		t.Errorf("observed %q", peers)
	}
	for i, least := range []time.Duration{gap, gap, 0, gap} { // after the one that was not sent, none
		if d := at[i+1].Sub(at[i]); d < least {
			t.Errorf("%v between %d and %d, want %v", d, i, i+1, least)
		}
	}
	if c := r.db.Counters(); c.Connects != 1 || c.Pages != 1 || c.Failed != 0 {
		t.Errorf("counters %+v", c)
	}
	r.fatal(r.db.View(func(tx *store.Tx) error {
		h, err := tx.Host("a.test")
		if err == nil && h.DayCount != 5 { // robots.txt, three connections, the page
			t.Errorf("%d requests counted for the day", h.DayCount)
		}
		return err
	}))
}

func TestConnectForOthers(t *testing.T) {
	r := newRig(t, "", time.Hour, nil)
	s := newSite(t, 43, 2)
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	rep, err := r.c.Connect(t.Context(), q)
	if err != nil || rep.Outcome != store.OutcomeOK || rep.Timing.Connect <= 0 || rep.Timing.FirstByte != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := r.c.Connect(t.Context(), q); !errors.Is(err, crawl.ErrBusy) {
		t.Errorf("again within the gap: %v", err)
	}
	q.Addr = netip.MustParseAddr("127.43.2.77") // nobody listens there
	if rep, err := r.c.Connect(t.Context(), q); err != nil || rep.Outcome.Answered() || rep.Outcome == store.OutcomeNone {
		t.Errorf("refused: %+v, %v", rep, err)
	}
	q.Addr = netip.MustParseAddr("10.1.2.3")
	if rep, err := r.c.Connect(t.Context(), q); err != nil || rep.Outcome.Answered() {
		t.Errorf("not allowed: %+v, %v", rep, err)
	}
	q.URL, q.Addr = "ftp://a.test/", netip.MustParseAddr("127.43.2.78")
	if rep, err := r.c.Connect(t.Context(), q); err != nil || rep.Outcome.Answered() {
		t.Errorf("no such URL: %+v, %v", rep, err)
	}
	if len(s.log()) != 0 {
		t.Errorf("requests %v", s.count())
	}
}
