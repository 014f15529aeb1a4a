package store

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const host = "a.example"

func TestPush(t *testing.T) {
	t.Parallel()
	d := memory(t)
	wantErr(t, d.Update(func(tx *Tx) error {
		_, err := tx.Push(host, Entry{URL: page(host, 0)}, 0)
		return err
	}), ErrNotFound)
	addHost(t, d, host, 0)
	for i, c := range []struct {
		url   URL
		limit int64
		fresh bool
	}{
		{page(host, 0), 2, true},
		{page(host, 0), 2, false},
		{page(host, 1), 2, true},
		{page(host, 2), 2, false}, // beyond the limit
		{page(host, 2), 2, false}, // and not marked as seen
		{page(host, 2), 0, true},
	} {
		update(t, d, func(tx *Tx) error {
			fresh, err := tx.Push(host, Entry{URL: c.url}, c.limit)
			if fresh != c.fresh {
				t.Errorf("push %d: Push() = %v, want %v", i, fresh, c.fresh)
			}
			return err
		})
	}
	if c := d.Counters(); c.Seen != 3 || c.Dropped != 2 {
		t.Errorf("Counters() = %+v, want 3 seen, 2 dropped", c)
	}
	view(t, d, func(tx *Tx) error {
		h, err := tx.Host(host)
		if err == nil && (h.Queued != 3 || h.Known != 3) {
			t.Errorf("host is %+v, want 3 queued and known", h)
		}
		return err
	})
}

// A limit holds within one transaction.
func TestPushLimitInTransaction(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 0)
	fresh := 0
	update(t, d, func(tx *Tx) error {
		for i := range 10 {
			ok, err := tx.Push(host, Entry{URL: page(host, i)}, 4)
			if err != nil {
				return err
			}
			if ok {
				fresh++
			}
		}
		return nil
	})
	if fresh != 4 || len(queue(t, d, host)) != 4 {
		t.Errorf("%d URLs were new, %d are queued, want 4", fresh, len(queue(t, d, host)))
	}
}

func TestQueueOrder(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 0)
	depths := []int{3, 0, 70000, 1, -5, 3, 0, 65535, 256, 255}
	update(t, d, func(tx *Tx) error {
		for i, depth := range depths {
			if _, err := tx.Push(host, Entry{URL: page(host, i), Depth: depth}, 0); err != nil {
				return err
			}
		}
		return nil
	})
	want := []URL{}
	for _, i := range []int{1, 4, 6, 3, 0, 5, 9, 8, 2, 7} { // limited to 0..65535, then FIFO
		want = append(want, page(host, i))
	}
	got := queue(t, d, host)
	if !slices.Equal(urls(got), want) {
		t.Errorf("order is %v, want %v", urls(got), want)
	}
	for _, e := range got {
		if i := slices.Index(want, e.URL); i < 0 || len(e.Key) == 0 {
			t.Errorf("entry is %+v, want one of %v with a key", e, want)
		}
	}
	t.Run("after", func(t *testing.T) {
		view(t, d, func(tx *Tx) error {
			for i := range got {
				var rest []Entry
				err := tx.Queue(host, got[i].Key, func(e Entry) (bool, error) {
					rest = append(rest, e)
					return len(rest) < 2, nil
				})
				if err != nil {
					return err
				}
				if n := min(2, len(got)-i-1); len(rest) != n ||
					!reflect.DeepEqual(rest, append([]Entry(nil), got[i+1:i+1+n]...)) {
					t.Errorf("entries after %d are %v, want %v", i, urls(rest),
						urls(got[i+1:i+1+n]))
				}
			}
			return nil
		})
	})
}

func TestQueuesAreSeparate(t *testing.T) {
	t.Parallel()
	d := memory(t)
	hosts := []string{"a", "a.b", "a.b.c", "aa", "a:1", "2001:db8::1", "2001:db8::11"}
	for i, h := range hosts {
		addHost(t, d, h, i+1)
	}
	for i, h := range hosts {
		if n := len(queue(t, d, h)); n != i+1 {
			t.Errorf("queue of %s has %d entries, want %d", h, n, i+1)
		}
	}
	var names []string
	view(t, d, func(tx *Tx) error {
		return tx.Hosts(func(h Host) error { names = append(names, h.Name); return nil })
	})
	if want := slices.Sorted(slices.Values(hosts)); !slices.Equal(names, want) {
		t.Errorf("hosts are %v, want %v", names, want)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 2)
	first := queue(t, d, host)[0]
	for range 2 { // the second call changes nothing
		update(t, d, func(tx *Tx) error { return tx.Remove(host, first) })
		view(t, d, func(tx *Tx) error {
			h, err := tx.Host(host)
			if err == nil && (h.Queued != 1 || h.Known != 2) {
				t.Errorf("host is %+v, want 1 queued, 2 known", h)
			}
			return err
		})
	}
	update(t, d, func(tx *Tx) error { // a removed URL stays seen
		if fresh, err := tx.Push(host, Entry{URL: first.URL}, 0); fresh || err != nil {
			t.Errorf("second Push() = %v, %v, want false", fresh, err)
		}
		return nil
	})
	update(t, d, func(tx *Tx) error { return tx.Remove(host, queue(t, d, host)[0]) })
	wantErr(t, d.View(func(tx *Tx) error { _, err := tx.Peek(host); return err }), ErrNotFound)
}

func TestDefer(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 2)
	update(t, d, func(tx *Tx) error {
		_, err := tx.Push(host, Entry{URL: page(host, 2), Depth: 1}, 0)
		return err
	})
	first := queue(t, d, host)[0]
	first.Source, first.Tries, first.First = SourceCopy|SourcePath, 1, when
	for range 2 { // the second call changes nothing
		update(t, d, func(tx *Tx) error { return tx.Defer(host, first) })
		got := queue(t, d, host)
		want := []URL{page(host, 1), page(host, 2), page(host, 0)}
		if !slices.Equal(urls(got), want) {
			t.Fatalf("queue is %v, want %v", urls(got), want)
		}
		last := got[2]
		if last.Tries != 1 || last.First.Sub(when).Abs() > time.Millisecond {
			t.Errorf("deferred entry is %+v, want 1 try", last)
		}
		if !last.Deferred() || got[1].Deferred() || last.Depth != 0 || last.Source != first.Source {
			t.Errorf("deferred entry is %+v", last)
		}
	}
	update(t, d, func(tx *Tx) error { return tx.Remove(host, queue(t, d, host)[2]) })
	update(t, d, func(tx *Tx) error { return tx.Defer(host, first) })
	if n := len(queue(t, d, host)); n != 2 {
		t.Errorf("queue has %d entries, want 2: a removed entry was queued again", n)
	}
}

func TestRobots(t *testing.T) {
	t.Parallel()
	d := memory(t)
	const v6 = "2001:db8::1"
	origins := map[string][]string{
		"ex":         {"http://ex", "http://ex:8080"},
		"example":    {"https://example"},
		"ex.ample":   {"http://ex.ample:1"},
		v6:           {"http://[2001:db8::1]", "http://[2001:db8::1]:81", "https://[2001:db8::1]"},
		v6 + "1":     {"http://[2001:db8::11]"},
		"127.0.0.1":  {"http://127.0.0.1:80"},
		"127.0.0.10": {"http://127.0.0.10:80", "https://127.0.0.10"},
		"nothing":    nil,
	}
	update(t, d, func(tx *Tx) error {
		for _, os := range origins {
			for _, o := range os {
				if err := tx.PutRobots(o, []byte(o)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	view(t, d, func(tx *Tx) error {
		for host, want := range origins {
			var got []string
			err := tx.RobotsOf(host, func(origin string, v []byte) error {
				if string(v) != origin || URL(origin).Host() != host {
					t.Errorf("%s: robots.txt of %s is %q", host, origin, v)
				}
				got = append(got, origin)
				return nil
			})
			if err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				t.Errorf("RobotsOf(%q) calls fn for %v, want %v", host, got, want)
			}
		}
		if v, err := tx.Robots("http://ex"); err != nil || string(v) != "http://ex" {
			t.Errorf("Robots() = %q, %v, want %q", v, err, "http://ex")
		}
		_, err := tx.Robots("https://ex")
		wantErr(t, err, ErrNotFound)
		return nil
	})
}

func TestRobotsReplaced(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), small)
	big := []byte(strings.Repeat("Disallow: /\n", 40_000)) // 480 kB
	for _, v := range [][]byte{[]byte("x"), big, nil} {
		update(t, d, func(tx *Tx) error { return tx.PutRobots("http://a.example", v) })
		view(t, d, func(tx *Tx) error {
			got, err := tx.Robots("http://a.example")
			if string(got) != string(v) {
				t.Errorf("Robots() returns %d bytes, want %d", len(got), len(v))
			}
			return err
		})
	}
}
