package frontier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"peerd/crawl/frontier"
	"peerd/store"
)

// find queues URLs of a host that a finder has sent.
func (w world) find(host string, finder, depth, n int) {
	w.t.Helper()
	err := w.Update([]string{host}, func(_ *store.Tx, push frontier.Push) error {
		for i := range n {
			u := store.URL(fmt.Sprintf("http://%s/by%d/%d/%d", host, finder, depth, i))
			e := store.Entry{URL: u, Depth: depth, Finder: finder}
			if ok, err := push(host, e); err != nil || !ok {
				return fmt.Errorf("push %s: %v, %w", u, ok, err)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// fetch ends n jobs and returns how many were of each finder.
func (w world) fetch(n int, missing func(finder int) bool) map[int]int {
	w.t.Helper()
	by := map[int]int{}
	for range n {
		j, _ := w.next()
		place, _ := j.Entry.Position()
		finder := place / store.FinderPlaces
		by[finder]++
		w.Answered(j, missing != nil && missing(finder))
		w.finish(j)
	}
	return by
}

const host = "a.example"

// Many URLs of one finder delay those of the others at most by their number, whatever their
// depth and whether the frontier has been restarted.
func TestFindersTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add(host, addr(1, 1), 0)
		w.find(host, 7, 0, 3000)
		w.find(host, 0, 5, 100) // this peer's own, and deeper
		if by := w.fetch(100, nil); by[0] != 50 || by[7] != 50 {
			t.Fatalf("jobs by finder are %v, want 50 each", by)
		}
		w = newWorld(t, w.db, frontier.Config{Gap: gap})
		w.find(host, 3, 9, 40)
		if by := w.fetch(120, nil); by[0] != 40 || by[3] != 40 || by[7] != 40 {
			t.Fatalf("jobs by finder after a restart are %v, want 40 each", by)
		}
		if by := w.fetch(20, nil); by[0] != 10 || by[3] != 0 || by[7] != 10 {
			t.Fatalf("jobs by finder are %v, want 10 of each that is left", by)
		}
		if by := w.fetch(30, nil); by[7] != 30 {
			t.Fatalf("jobs by finder are %v, want all of the last one", by)
		}
		w.wantStats(1, 3000-130, 0)
	})
}

// A finder of URLs that do not exist gets a quarter of the turns of others, until what it finds
// exists again. This peer's own share does not shrink.
func TestFinderOfMissingPages(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add(host, addr(1, 1), 0)
		w.find(host, 0, 0, 1000)
		w.find(host, 7, 0, 1000)
		all := func(int) bool { return true }
		w.fetch(60, all) // until it is known
		if by := w.fetch(100, all); by[0] != 80 || by[7] != 20 {
			t.Fatalf("jobs by finder are %v, want 80 of this peer and 20 of the other", by)
		}
		w.fetch(100, nil)
		if by := w.fetch(100, nil); by[0] != 50 || by[7] != 50 {
			t.Fatalf("jobs by finder are %v, want 50 each", by)
		}
	})
}

// However many finders a host has, no more is read ahead of it than its share.
func TestManyFindersReadAhead(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		const hosts, each = 500, 20
		w.add(host, addr(1, 1), 0)
		for i := 1; i < hosts; i++ {
			w.add(fmt.Sprintf("b%d.example", i), addr(2, 1), 0)
		}
		for finder := range store.Finders {
			w.findLong(finder, each)
		}
		w.fetch(store.Finders, nil) // one of each
		n, size := w.Ahead(host)
		if limit := frontier.MaxAheadBytes/hosts + store.Finders*3000; size > limit {
			t.Errorf("%d entries of %d bytes are read ahead, want at most %d bytes", n, size, limit)
		}
		w.fetch(store.Finders*(each-1), nil)
		w.wantStats(hosts, 0, 0)
	})
}

// findLong queues long URLs of a host that a finder has sent.
func (w world) findLong(finder, n int) {
	w.t.Helper()
	err := w.Update([]string{host}, func(_ *store.Tx, push frontier.Push) error {
		for i := range n {
			u := store.URL(fmt.Sprintf("http://%s/%d/%d/%s", host, finder, i,
				strings.Repeat("a", 2000)))
			if ok, err := push(host, store.Entry{URL: u, Finder: finder}); err != nil || !ok {
				return fmt.Errorf("push: %v, %w", ok, err)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// However many URLs others find, what has failed is tried again after what this peer has found, in
// its turn.
func TestRequeuedAmongFinders(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add(host, addr(1, 1), 3)
		w.find(host, 7, 0, 1000)
		w.find(host, 9, 0, 1000)
		failed := w.want(host, 0)
		if err := w.db.Update(func(tx *store.Tx) error {
			return tx.Requeue(host, failed.Entry)
		}); err != nil {
			t.Fatal(err)
		}
		w.Release(failed, false, 0, 0)
		var own []store.URL
		for range 12 {
			pass(gap)
			j, _ := w.next()
			if place, _ := j.Entry.Position(); place < store.FinderPlaces {
				own = append(own, j.Entry.URL)
			}
			w.finish(j)
		}
		want := []store.URL{page(host, 1), page(host, 2), failed.Entry.URL}
		if !slices.Equal(own, want) {
			t.Errorf("of twelve jobs %v are this peer's, want %v", own, want)
		}
	})
}

// Deferred entries come when no finder has anything else.
func TestDeferredBehindAllFinders(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		w.add(host, addr(1, 1), 1)
		j, _ := w.next()
		if err := w.db.Update(func(tx *store.Tx) error {
			return tx.Defer(host, j.Entry)
		}); err != nil {
			t.Fatal(err)
		}
		w.Defer(j)
		w.find(host, 0, 0, 10)
		w.find(host, store.Finders-1, store.FinderPlaces+5, 10)
		for range 20 {
			last, _ := w.next()
			if last.Entry.Deferred() {
				t.Fatalf("got the deferred entry %s before the others", last.Entry.URL)
			}
			w.finish(last)
		}
		if last, _ := w.next(); !last.Entry.Deferred() || last.Entry.URL != j.Entry.URL {
			t.Errorf("the last entry is %s, want the deferred one", last.Entry.URL)
		}
	})
}
