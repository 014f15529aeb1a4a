package store

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// inOne runs functions as Batch does if all of them wait at the same time, in order.
func (d *DB) inOne(fns []func(*Tx) error) []error {
	calls := make([]*call, len(fns))
	for i, fn := range fns {
		calls[i] = &call{fn: fn}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runLocked(calls)
	errs := make([]error, len(fns))
	for i, c := range calls {
		if errs[i] = c.err; !c.done {
			errs[i] = errors.New("not done")
		}
	}
	return errs
}

// Batch pushes URLs from several callers, some of which fail in the end.
func (x *machine) Batch(t *rapid.T) {
	giveUp := errors.New("given up")
	type one struct {
		host  string
		url   URL
		depth int
		fails bool
		got   bool
	}
	var all []*one
	var fns []func(*Tx) error
	for range rapid.IntRange(1, 6).Draw(t, "callers") {
		o := &one{host: drawHost(t), depth: rapid.IntRange(0, 2).Draw(t, "depth"),
			fails: rapid.IntRange(0, 3).Draw(t, "fails") == 0}
		o.url = drawURL(t, o.host)
		all = append(all, o)
		fns = append(fns, func(tx *Tx) (err error) {
			tx.CountNamed("batch", 1)
			if o.got, err = tx.Push(o.host, Entry{URL: o.url, Depth: o.depth}, 0); err == nil &&
				o.fails {
				err = giveUp
			}
			return err
		})
	}
	errs := x.d.inOne(fns)
	for i, o := range all {
		h := x.m.host(o.host)
		switch {
		case !h.record:
			if !errors.Is(errs[i], ErrNotFound) {
				t.Fatalf("caller %d without a record: error %v, want ErrNotFound", i, errs[i])
			}
		case o.fails:
			if !errors.Is(errs[i], giveUp) {
				t.Fatalf("caller %d: error %v, want its own", i, errs[i])
			}
		default:
			x.m.named++
			if fresh := x.m.push(h, o.url, o.depth, 0); errs[i] != nil || fresh != o.got {
				t.Fatalf("caller %d: new %v, %v, want %v", i, o.got, errs[i], fresh)
			}
		}
	}
	if n := x.d.NamedCounters()["batch"]; n != x.m.named {
		t.Fatalf("named counter is %d, want %d", n, x.m.named)
	}
}

func (x *machine) MarkSeen(t *rapid.T) {
	name := drawHost(t)
	u := drawURL(t, name)
	x.update(t, func(tx *Tx) error { return tx.MarkSeen(u) })
	x.m.host(name).seen[u] = true
}

func (x *machine) PushRevisit(t *rapid.T) {
	name := drawHost(t)
	h, u := x.m.host(name), drawURL(t, name)
	x.m.place++
	e := Entry{URL: u, Depth: rapid.IntRange(0, 2).Draw(t, "depth"), Tries: 1000 * x.m.place}
	var fresh bool
	err := x.d.Update(func(tx *Tx) (err error) { fresh, err = tx.PushRevisit(name, e); return err })
	if !h.record {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("PushRevisit() without a record = %v, want ErrNotFound", err)
		}
		return
	}
	if err != nil || fresh == h.again[u] {
		t.Fatalf("PushRevisit(%s) = %v, %v, want %v", u, fresh, err, !fresh)
	}
	if fresh {
		h.again[u] = true
		h.pending++
		x.m.queue(h, modelEntry{url: u, depth: e.Depth, tries: e.Tries, revisit: true})
	}
}

// drawDue draws a time that a floating-point number of seconds cannot represent exactly.
func drawDue(t *rapid.T) time.Time {
	s := rapid.IntRange(1, 8).Draw(t, "seconds")
	ns := rapid.SampledFrom([]int{0, 123_000_000, 123_499_999, 123_500_000, 122_999_999,
		999_999_999}).Draw(t, "nanoseconds")
	return when.Truncate(time.Second).Add(time.Duration(s)*time.Second + time.Duration(ns))
}

func (x *machine) PutVisit(t *rapid.T) {
	name := drawHost(t)
	h, u, due := x.m.host(name), drawURL(t, name), drawDue(t)
	err := x.d.Update(func(tx *Tx) error { return tx.PutVisit(Visit{URL: u, Due: due}) })
	if !h.record {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("PutVisit() without a record = %v, want ErrNotFound", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	h.visits[u], h.order[u] = dueMillis(due), true
	if h.due == 0 || h.visits[u] < h.due {
		h.due = h.visits[u]
	}
}

func (x *machine) DeleteVisit(t *rapid.T) {
	name := drawHost(t)
	h, u := x.m.host(name), drawURL(t, name)
	x.update(t, func(tx *Tx) error { return tx.DeleteVisit(u) })
	delete(h.visits, u)
	delete(h.order, u)
}

func (x *machine) TakeDue(t *rapid.T) {
	name := drawHost(t)
	h, now, n := x.m.host(name), drawDue(t), rapid.IntRange(1, 3).Draw(t, "n")
	if !h.record {
		t.Skip("no record")
	}
	var got []URL
	x.update(t, func(tx *Tx) error {
		vs, err := tx.TakeDue(name, now, n)
		for _, v := range vs {
			got = append(got, v.URL)
		}
		return err
	})
	var want []URL
	for u := range h.order {
		want = append(want, u)
	}
	slices.SortFunc(want, func(a, b URL) int {
		da, db := a.Digest(), b.Digest()
		return cmp.Or(cmp.Compare(h.visits[a], h.visits[b]), bytes.Compare(da[:], db[:]))
	})
	i := slices.IndexFunc(want, func(u URL) bool { return time.UnixMilli(h.visits[u]).After(now) })
	if i < 0 {
		i = len(want)
	}
	i = min(i, n)
	if h.due = 0; i < len(want) {
		h.due = h.visits[want[i]]
	}
	for _, u := range want[:i] {
		delete(h.order, u)
	}
	if !slices.Equal(got, want[:i]) {
		t.Fatalf("TakeDue(%v) = %v, want %v", now, got, want[:i])
	}
}

// dueOf returns the due time of the first visit of h in Unix milliseconds, 0 for none.
func dueOf(h Host) int64 {
	if h.DueAt.IsZero() {
		return 0
	}
	return dueMillis(h.DueAt)
}
