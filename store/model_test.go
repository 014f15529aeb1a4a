package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model does what a DB should do, in plain maps.
type model struct {
	hosts   map[string]*modelHost
	pending map[URL]bool
	sum     Counters
	place   int
	named   int64
}

type modelHost struct {
	pending, known int64
	record         bool
	queue          []modelEntry
	seen           map[URL]bool
	again          map[URL]bool  // a revisit is queued
	visits         map[URL]int64 // due, in ms
	order          map[URL]bool  // visits in the due order
	due            int64         // Host.DueAt; 0: never
}

type modelEntry struct {
	url                 URL
	depth, tries, place int
	revisit, deferred   bool
}

func (m *model) host(name string) *modelHost {
	h := m.hosts[name]
	if h == nil {
		h = &modelHost{seen: map[URL]bool{}, again: map[URL]bool{}, visits: map[URL]int64{},
			order: map[URL]bool{}}
		m.hosts[name] = h
	}
	return h
}

func (m *model) queue(h *modelHost, e modelEntry) {
	m.place++
	e.place = m.place
	h.queue = append(h.queue, e)
	slices.SortFunc(h.queue, func(a, b modelEntry) int {
		switch {
		case a.deferred != b.deferred && a.deferred:
			return 1
		case a.deferred != b.deferred:
			return -1
		case a.deferred:
			return cmp.Compare(a.place, b.place)
		}
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.place, b.place))
	})
}

func (m *model) remove(h *modelHost, u URL, tries int) (e modelEntry, ok bool) {
	i := slices.IndexFunc(h.queue, func(e modelEntry) bool {
		return e.url == u && e.tries == tries
	})
	if i < 0 {
		return e, false
	}
	e = h.queue[i]
	h.queue = slices.Delete(h.queue, i, i+1)
	return e, true
}

// machine applies the same operations to a DB and a model.
type machine struct {
	d *DB
	m *model
	// deleted are entries that were read before; they may no longer be queued.
	gone []Entry
}

var modelHosts = []string{"a", "a.b", "aa", "::1"}

func drawHost(t *rapid.T) string { return rapid.SampledFrom(modelHosts).Draw(t, "host") }

func drawURL(t *rapid.T, host string) URL {
	if host == "::1" {
		host = "[::1]"
	}
	return page(host, rapid.IntRange(0, 12).Draw(t, "url"))
}

func (x *machine) update(t *rapid.T, fn func(*Tx) error) {
	if err := x.d.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) PutHost(t *rapid.T) {
	name := drawHost(t)
	h := x.m.host(name)
	h.record, h.pending, h.known, h.due = true, int64(len(h.queue)), int64(len(h.seen)), 0
	x.update(t, func(tx *Tx) error {
		tx.PutHost(Host{Name: name, Queued: h.pending, Known: h.known})
		return nil
	})
}

// Push pushes a few URLs in one transaction, which may fail in the end.
func (x *machine) Push(t *rapid.T) {
	name := drawHost(t)
	h := x.m.host(name)
	limit := rapid.SampledFrom([]int64{0, 0, 3, 8}).Draw(t, "limit")
	n := rapid.IntRange(1, 4).Draw(t, "pushes")
	var us []URL
	var depths []int
	for range n {
		us = append(us, drawURL(t, name))
		depths = append(depths, rapid.IntRange(0, 2).Draw(t, "depth"))
	}
	giveUp := errors.New("given up")
	fail := rapid.IntRange(0, 4).Draw(t, "give up") == 0
	var got []bool
	err := x.d.Update(func(tx *Tx) error {
		for i, u := range us {
			fresh, err := tx.Push(name, Entry{URL: u, Depth: depths[i]}, limit)
			if err != nil {
				return err
			}
			got = append(got, fresh)
		}
		if fail {
			return giveUp
		}
		return nil
	})
	switch {
	case !h.record:
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("Push() without a record = %v, want ErrNotFound", err)
		}
		return
	case fail:
		if !errors.Is(err, giveUp) {
			t.Fatal(err)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	for i, u := range us {
		if fresh := x.m.push(h, u, depths[i], limit); got[i] != fresh {
			t.Fatalf("Push(%s) = %v, want %v", u, got[i], fresh)
		}
	}
}

func (m *model) push(h *modelHost, u URL, depth int, limit int64) (fresh bool) {
	switch {
	case h.seen[u]:
	case limit > 0 && h.known >= limit:
		m.sum.Dropped++
	default:
		fresh, h.seen[u] = true, true
		h.known++
		h.pending++
		m.sum.Seen++
		m.queue(h, modelEntry{url: u, depth: depth})
	}
	return fresh
}

func (x *machine) Peek(t *rapid.T) {
	name := drawHost(t)
	h := x.m.host(name)
	var e Entry
	err := x.d.View(func(tx *Tx) (err error) { e, err = tx.Peek(name); return err })
	if len(h.queue) == 0 {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("Peek() of an empty queue = %v, want ErrNotFound", err)
		}
		return
	}
	first := h.queue[0]
	if err != nil || e.URL != first.url || e.Depth != first.depth || e.Tries != first.tries {
		t.Fatalf("Peek() = %+v, %v, want %+v", e, err, first)
	}
	x.gone = append(x.gone, e)
}

// draw returns an entry that was read before.
func (x *machine) draw(t *rapid.T) (Entry, string, *modelHost, bool) {
	if len(x.gone) == 0 {
		t.Skip("nothing read")
	}
	e := rapid.SampledFrom(x.gone).Draw(t, "entry")
	name := e.URL.Host()
	h := x.m.host(name)
	there := slices.ContainsFunc(h.queue, func(m modelEntry) bool {
		// A deferred entry has another key.
		return m.url == e.URL && m.tries == e.Tries
	})
	return e, name, h, there
}

func (x *machine) Remove(t *rapid.T) {
	e, name, h, there := x.draw(t)
	x.update(t, func(tx *Tx) error { return tx.Remove(name, e) })
	if there {
		if old, _ := x.m.remove(h, e.URL, e.Tries); old.revisit {
			delete(h.again, e.URL)
		}
		if h.record {
			h.pending--
		}
	}
}

func (x *machine) Defer(t *rapid.T) {
	e, name, h, there := x.draw(t)
	again := e
	again.Tries++
	x.update(t, func(tx *Tx) error { return tx.Defer(name, again) })
	if there {
		old, _ := x.m.remove(h, e.URL, e.Tries)
		old.tries++
		old.deferred = true
		x.m.queue(h, old)
	}
}

// Import imports URLs that are not queued, because a queue contains each URL once.
func (x *machine) Import(t *rapid.T) {
	name := drawHost(t)
	h := x.m.host(name)
	u, also := drawURL(t, name), drawURL(t, name)
	if slices.ContainsFunc(h.queue, func(m modelEntry) bool { return m.url == u }) {
		t.Skip("queued")
	}
	// Different Tries distinguish it from an entry that was read before.
	x.m.place++
	e := Entry{URL: u, Depth: rapid.IntRange(0, 2).Draw(t, "depth"), Tries: 1000 * x.m.place}
	x.update(t, func(tx *Tx) error { return tx.Import(name, []Entry{e}, []Digest{also.Digest()}) })
	h.seen[u], h.seen[also] = true, true
	x.m.queue(h, modelEntry{url: u, depth: e.Depth, tries: e.Tries})
}

func (x *machine) AddPending(t *rapid.T) {
	u := drawURL(t, drawHost(t))
	x.update(t, func(tx *Tx) error {
		fresh, err := tx.AddPending(Pending{URL: u})
		if fresh == x.m.pending[u] {
			t.Fatalf("AddPending(%s) = %v, want %v", u, fresh, !fresh)
		}
		return err
	})
	x.m.pending[u] = true
}

func (x *machine) RemovePending(t *rapid.T) {
	u := drawURL(t, drawHost(t))
	x.update(t, func(tx *Tx) error { return tx.RemovePending(u) })
	delete(x.m.pending, u)
}

func (x *machine) DropHost(t *rapid.T) {
	name := drawHost(t)
	if err := x.d.DropHost(name); err != nil {
		t.Fatal(err)
	}
	delete(x.m.hosts, name)
	x.gone = slices.DeleteFunc(x.gone, func(e Entry) bool { return e.URL.Host() == name })
}

// Check compares all readable data.
func (x *machine) Check(t *rapid.T) {
	if got := x.d.Counters(); got != x.m.sum {
		t.Fatalf("Counters() = %+v, want %+v", got, x.m.sum)
	}
	err := x.d.View(func(tx *Tx) error {
		for _, name := range modelHosts {
			if err := x.checkHost(t, tx, name, x.m.host(name)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		sum := 0
		hs, err := tx.PendingHosts()
		for _, h := range hs {
			sum += h.Count
		}
		if sum != len(x.m.pending) {
			t.Fatalf("PendingHosts() counts %d URLs, want %d", sum, len(x.m.pending))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (x *machine) checkHost(t *rapid.T, tx *Tx, name string, m *modelHost) error {
	h, err := tx.Host(name)
	switch {
	case !m.record:
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("Host(%q) = %+v, %v, want ErrNotFound", name, h, err)
		}
	case err != nil:
		return err
	case h.Queued != m.pending || h.Known != m.known || dueOf(*h) != m.due:
		t.Fatalf("Host(%q) = %+v, want %d queued, %d known", name, h, m.pending, m.known)
	}
	var got []modelEntry
	err = tx.Queue(name, nil, func(e Entry) (bool, error) {
		got = append(got, modelEntry{url: e.URL, depth: e.Depth, tries: e.Tries,
			revisit: e.Kind.Revisit(), deferred: e.Deferred()})
		return true, nil
	})
	same := slices.EqualFunc(got, m.queue, func(a, b modelEntry) bool {
		b.place = 0
		return a == b
	})
	if !same {
		t.Fatalf("queue of %s is %v, want %v", name, got, m.queue)
	}
	seen := 0
	err = errors.Join(err, tx.SeenDigests(name, nil, func(Digest) (bool, error) {
		seen++
		return true, nil
	}))
	for u := range m.seen {
		if ok, e := tx.Seen(u); !ok || e != nil {
			t.Fatalf("Seen(%s) = %v, %v, want %v", u, ok, e, !ok)
		}
	}
	visits := 0
	err = errors.Join(err, tx.Visits(name, nil, func(v Visit) (bool, error) {
		visits++
		if want, ok := m.visits[v.URL]; !ok || dueMillis(v.Due) != want {
			t.Fatalf("visit of %s is due at %d, want %d", v.URL, dueMillis(v.Due), want)
		}
		return true, nil
	}))
	if visits != len(m.visits) {
		t.Fatalf("%s has %d visits, want %d", name, visits, len(m.visits))
	}
	if seen != len(m.seen) {
		t.Fatalf("%s has %d seen URLs, want %d", name, seen, len(m.seen))
	}
	for i := range 13 {
		u := page(name, i)
		if name == "::1" {
			u = page("[::1]", i)
		}
		if ok, e := tx.HasPending(u); ok != x.m.pending[u] || e != nil {
			t.Fatalf("HasPending(%s) = %v, %v, want %v", u, ok, e, !ok)
		}
	}
	return err
}

func TestModel(t *testing.T) {
	t.Parallel()
	dirs := t
	rapid.Check(t, func(t *rapid.T) {
		d, err := openOn(dirs, "", Options{InMemory: true, MemTable: 1 << 20,
			IndexCache: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		x := &machine{d: d, m: &model{hosts: map[string]*modelHost{}, pending: map[URL]bool{}}}
		actions := rapid.StateMachineActions(x)
		t.Repeat(actions) // and Check after each
	})
}
