package hosttransfer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// queue returns what is queued at a peer, and the URLs of its planned visits.
func (s *side) queue() (queued, visits []store.URL) {
	s.t.Helper()
	err := s.DB.View(func(tx *store.Tx) error {
		return errors.Join(
			tx.Queue(name, nil, func(e store.Entry) (bool, error) {
				queued = append(queued, e.URL)
				return true, nil
			}),
			tx.Visits(name, nil, func(v store.Visit) (bool, error) {
				visits = append(visits, v.URL)
				return true, nil
			}),
		)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(queued)
	slices.Sort(visits)
	return queued, visits
}

// push queues pages at a peer that has the host in its own subnet.
func (s *side) push(pages ...int) {
	s.t.Helper()
	err := s.DB.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: name, Subnet: from, Addr: from.Addr().Next()})
		for _, i := range pages {
			if _, err := tx.Push(name, store.Entry{URL: url(i)}, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// What the peer that loses a subnet has fetched is not fetched again by the other one. What it has
// queued, or given up, or was to try again, still is.
func TestTellFetched(t *testing.T) {
	const n = 2100
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	server := b.Serve()
	defer server.Close()
	a.fill(n) // every third page was fetched, but those that were given up
	err := a.DB.Update(func(tx *store.Tx) error {
		// to be tried again
		return tx.PutVisit(store.Visit{URL: url(3), Due: time.Now(), First: time.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	b.push(0, 1, 2, 3, 6, 9, 12, 21, 5000)
	own := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	err = b.DB.Update(func(tx *store.Tx) error { // of a page that it has fetched as well
		return tx.PutVisit(store.Visit{URL: url(6), Due: own})
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time after an answer that was lost
		if err := a.TellFetched(t.Context(), b.Host.ID(), name, []byte("lease")); err != nil {
			t.Fatal(err)
		}
		queued, visits := b.queue()
		want := []store.URL{url(0), url(1), url(2), url(21), url(3), url(5000)}
		if !slices.Equal(queued, want) {
			t.Errorf("queued: %v, want %v", queued, want)
		}
		if len(visits) != n/3-n/21-1 {
			t.Errorf("%d visits are planned, want %d", len(visits), n/3-n/21-1)
		}
		err := b.DB.View(func(tx *store.Tx) error {
			v, err := tx.Visit(url(6))
			if !v.Due.Equal(own) {
				t.Errorf("the visit is due at %v, want %v", v.Due, own)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		got := b.holds()
		if got.seen != n/3-n/21-1+len(want) || got.pending != int64(len(want)) ||
			got.state != "" || got.home != from || len(b.routed)+len(b.arrived) != 0 {
			t.Errorf("the other peer has %+v", got)
		}
	}
	server.Close() // waits for the handler
	if b.open.Load() != 0 {
		t.Errorf("%d subnets are held, want none", b.open.Load())
	}
}

// Pages that were never fetched are left out, however many visits are planned, also to pages that
// were given up.
func TestManyVisits(t *testing.T) {
	s := newSide(t)
	s.push()
	const n, every, part = maxFetched + 2000, 100, 400
	for first := 0; first < n; first += part {
		err := s.DB.Update(func(tx *store.Tx) error {
			for i := first; i < min(first+part, n); i++ {
				v := store.Visit{URL: url(i), Due: time.Now()}
				if i%every == 0 {
					v.First = time.Now()
				}
				err := errors.Join(tx.MarkSeen(v.URL), tx.PutVisit(v))
				if err == nil && i%7 == 0 {
					err = tx.GiveUp(store.GivenUp{URL: v.URL})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var f fetched
	if err := s.DB.View(func(tx *store.Tx) error { return f.read(tx, name) }); err != nil {
		t.Fatal(err)
	}
	if len(f.pages) == 0 || len(f.visits) != maxFetched {
		t.Errorf("%d pages and %d visits, want %d visits", len(f.pages), len(f.visits), maxFetched)
	}
	for i := 0; i < n; i += every {
		if f.pages[url(i).Digest()] {
			t.Fatalf("page %d was never fetched", i)
		}
	}
}

// Nothing is taken from a peer that is not believed, or that sends no pages.
func TestFetchedIsRefused(t *testing.T) {
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	server := b.Serve()
	defer server.Close()
	a.fill(90)
	b.push(3)
	before := b.holds()
	b.refuse = errors.New("a stranger")
	err := a.TellFetched(t.Context(), b.Host.ID(), name, []byte("lease"))
	if !errors.Is(err, ErrRefused) {
		t.Errorf("TellFetched() = %v, want ErrRefused", err)
	}
	b.refuse = nil
	for what, c := range map[string]chunk{
		"nothing":         {},
		"queued pages":    {Entries: []store.Entry{{URL: url(1)}}},
		"of another host": {Visits: []store.Visit{{URL: "http://y.test/"}}},
		"too much":        {Seen: make([]store.Digest, maxSeen+1)},
	} {
		err := a.converse(t.Context(), b.Host.ID(), Offer{Host: name, Lost: []byte("lease")},
			func(conn *wire.Conn) error { return conn.SendZ(c) })
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	long := Offer{Host: strings.Repeat("x", maxHost+1), Lost: []byte("lease")}
	if _, err := long.check(); err == nil {
		t.Error("a long name was accepted")
	}
	if got := b.holds(); got != before {
		t.Errorf("the other peer has %+v, want %+v", got, before)
	}
}

// A peer that takes another host is asked again.
func TestTellFetchedWaits(t *testing.T) {
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	server := b.Serve()
	defer server.Close()
	a.fill(30)
	b.push(3)
	if !b.enter(name, b.Host.ID()) {
		t.Fatal("the other peer is busy")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	time.AfterFunc(50*time.Millisecond, func() { b.exit(name) })
	if err := a.TellFetched(t.Context(), b.Host.ID(), name, []byte("lease")); err != nil {
		t.Error(err)
	}
	if queued, _ := b.queue(); len(queued) != 0 {
		t.Errorf("queued: %v, want none", queued)
	}
	if err := a.TellFetched(ctx, b.Host.ID(), name, []byte("lease")); err == nil {
		t.Error("it went on after the end of the context")
	}
}

// More pages than a peer keeps of one host in memory are not accepted.
func TestFetchedIsLimited(t *testing.T) {
	f := fetched{pages: map[store.Digest]bool{}}
	for i := range maxFetched {
		if err := f.add(chunk{Seen: []store.Digest{url(i).Digest()}}); err != nil {
			t.Fatal(err)
		}
	}
	if f.add(chunk{Seen: []store.Digest{url(maxFetched).Digest()}}) == nil {
		t.Error("one page more was accepted")
	}
}
