package store

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
)

var when = time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)

// sameTime compares a time that was read with the one that was written, in microseconds.
func sameTime(a, b time.Time) bool { return a.Sub(b).Abs() <= time.Microsecond }

func TestHostRecord(t *testing.T) {
	t.Parallel()
	d := memory(t)
	want := Host{
		Name: "a.example", Subnet: prefix("192.0.2.0/24"), Addr: addr("192.0.2.7"), Queued: 3,
		Known: 9, NextAt: when,
	}
	update(t, d, func(tx *Tx) error {
		tx.PutHost(want)
		tx.PutHost(Host{Name: "b.example"})
		tx.PutHost(Host{Name: "c.example", Subnet: prefix("2001:db8::/48"),
			Addr: addr("2001:db8::7")})
		return nil
	})
	view(t, d, func(tx *Tx) error {
		got, err := tx.Host(want.Name)
		if err != nil {
			return err
		}
		if !sameTime(got.NextAt, want.NextAt) {
			t.Errorf("NextAt is %s, want %s", got.NextAt, want.NextAt)
		}
		got.NextAt, got.SubnetSeq = want.NextAt, 0
		if *got != want {
			t.Errorf("Host() = %+v, want %+v", got, want)
		}
		if b, err := tx.Host("b.example"); err != nil ||
			*b != (Host{Name: "b.example", SubnetSeq: b.SubnetSeq}) || !b.NextAt.IsZero() {
			t.Errorf("Host() = %+v, %v, want an empty record", b, err)
		}
		for subnet, name := range map[netip.Prefix]string{
			want.Subnet: "a.example", prefix("2001:db8::/48"): "c.example",
			prefix("192.0.3.0/24"): "",
		} {
			hs, err := tx.HostsOf(subnet)
			if err != nil {
				return err
			}
			if name == "" && len(hs) != 0 || name != "" && (len(hs) != 1 || hs[0].Name != name) {
				t.Errorf("HostsOf(%s) = %+v, want %q", subnet, hs, name)
			}
		}
		return nil
	})
}

func TestPending(t *testing.T) {
	t.Parallel()
	d := memory(t)
	ps := []Pending{
		{URL: "http://a.example/1", Depth: 2, Found: when, Hint: addr("192.0.2.7")},
		{URL: "http://a.example/2", Found: when.Add(-time.Hour)},
		{URL: "http://aa.example/", Found: when, Hint: addr("2001:db8::1")},
	}
	for i := range 2 {
		update(t, d, func(tx *Tx) error {
			for _, p := range ps {
				if fresh, err := tx.AddPending(p); fresh != (i == 0) || err != nil {
					t.Errorf("round %d: AddPending() = %v, %v, want %v", i, fresh, err, i == 0)
				}
			}
			return nil
		})
	}
	view(t, d, func(tx *Tx) error {
		n := 0
		err := tx.PendingOf("a.example", func(p Pending) (bool, error) {
			want := ps[slices.IndexFunc(ps, func(q Pending) bool { return q.URL == p.URL })]
			if !sameTime(p.Found, want.Found) {
				t.Errorf("Found is %s, want %s", p.Found, want.Found)
			}
			if p.Found = want.Found; p != want {
				t.Errorf("PendingOf() gives %+v, want %+v", p, want)
			}
			n++
			return n < 1, nil
		})
		if n != 1 {
			t.Errorf("PendingOf() calls fn %d times, want 1", n)
		}
		return err
	})
	wantPending(t, d, map[string]int{"a.example": 2, "aa.example": 1})
	update(t, d, func(tx *Tx) error {
		return errors.Join(tx.RemovePending(ps[0].URL), tx.RemovePending(ps[0].URL),
			tx.RemovePending("http://z.example/"))
	})
	wantPending(t, d, map[string]int{"a.example": 1, "aa.example": 1})
	view(t, d, func(tx *Tx) error {
		for i, p := range ps {
			if ok, err := tx.HasPending(p.URL); ok != (i > 0) || err != nil {
				t.Errorf("HasPending(%s) = %v, %v, want %v", p.URL, ok, err, i > 0)
			}
		}
		return nil
	})
}

func wantPending(t *testing.T, d *DB, want map[string]int) {
	t.Helper()
	view(t, d, func(tx *Tx) error {
		hs, err := tx.PendingHosts()
		got := map[string]int{}
		for _, h := range hs {
			got[h.Host] += h.Count
			if h.Host == "a.example" && !sameTime(h.Oldest, when.Add(-time.Hour)) {
				t.Errorf("Oldest is %s, want %s", h.Oldest, when.Add(-time.Hour))
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("PendingHosts() = %v, want %v", got, want)
		}
		return err
	})
}

// The URLs of the pages of a host are those that were stored, without those of other hosts, also of
// hosts with names that begin alike.
func TestPageURLs(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*DB{"memory": memory(t), "disk": open(t, t.TempDir(), small)} {
		want := map[URL]bool{}
		update(t, d, func(tx *Tx) error {
			err := errors.Join(tx.PutPage(Page{URL: "http://a.example.org/"}),
				tx.PutPage(Page{URL: "http://b.example/"}))
			for i := range 50 {
				u := URL(fmt.Sprintf("http://a.example/%d", i))
				want[u] = true
				err = errors.Join(err, tx.PutPage(Page{URL: u, Outcome: OutcomeOK, Title: "title",
					FetchedAt: when, Links: []URL{"http://a.example/x", "http://b.example/y"}}))
			}
			return err
		})
		view(t, d, func(tx *Tx) error {
			got := map[URL]bool{}
			err := tx.PageURLs("a.example", func(u URL) (bool, error) {
				got[u] = true
				return true, nil
			})
			if !maps.Equal(got, want) {
				t.Errorf("%s: PageURLs() = %v, want %v", name, got, want)
			}
			n := 0
			err = errors.Join(err, tx.PageURLs("a.example", func(URL) (bool, error) {
				n++
				return n < 7, nil
			}))
			if n != 7 {
				t.Errorf("%s: %d URLs after a stop, want 7", name, n)
			}
			return err
		})
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*DB{"memory": memory(t), "disk": open(t, t.TempDir(), small)} {
		p := Page{
			URL: "http://a.example/", Outcome: OutcomeOK, Status: 200, Bytes: 12345,
			ContentType: "text/html", FetchedAt: when, Depth: 3, Estimation: true,
			Timing: Timing{DNS: 1, Connect: 2, TLS: 3, FirstByte: 4, Body: 5, Reused: true},
			Title:  "A title", Links: []URL{"http://a.example/x", "http://b.example/"},
		}
		update(t, d, func(tx *Tx) error { return tx.PutPage(Page{URL: p.URL}) })
		update(t, d, func(tx *Tx) error {
			return errors.Join(tx.PutPage(p), tx.PutPage(Page{URL: "http://b.example/"}))
		})
		view(t, d, func(tx *Tx) error {
			got, err := tx.Page(p.URL)
			if err != nil {
				return err
			}
			if !sameTime(got.FetchedAt, p.FetchedAt) {
				t.Errorf("%s: FetchedAt is %s, want %s", name, got.FetchedAt, p.FetchedAt)
			}
			if got.FetchedAt = p.FetchedAt; !reflect.DeepEqual(got, p) {
				t.Errorf("%s: Page() = %+v, want %+v", name, got, p)
			}
			_, err = tx.Page("http://a.example/y")
			wantErr(t, err, ErrNotFound)
			var all []URL
			err = tx.Pages(func(p Page) error { all = append(all, p.URL); return nil })
			if want := []URL{"http://a.example/", "http://b.example/"}; !slices.Equal(all, want) {
				t.Errorf("%s: pages are %v, want %v", name, all, want)
			}
			return err
		})
		stop := errors.New("stop")
		wantErr(t, d.View(func(tx *Tx) error { return tx.Pages(func(Page) error { return stop }) }),
			stop)
	}
}

func TestSubnets(t *testing.T) {
	t.Parallel()
	d := memory(t)
	ss := []Subnet{
		{
			Prefix: prefix("10.0.0.0/24"), Phase: PhaseCommitting, Lease: []byte{1}, Epoch: 1 << 40,
			Since: when, Evidence: []byte{2}, Grant: []byte{3}, Successor: "successor",
			Estimations: 4,
		},
		{Prefix: prefix("2001:db8::/48"), Phase: PhaseOwned, Epoch: 1},
	}
	update(t, d, func(tx *Tx) error {
		return errors.Join(tx.PutSubnet(ss[0]), tx.PutSubnet(ss[1]))
	})
	view(t, d, func(tx *Tx) error {
		var all []Subnet
		err := tx.Subnets(func(s Subnet) error { all = append(all, s); return nil })
		if len(all) != 2 {
			t.Fatalf("found %d subnets, want 2", len(all))
		}
		if !sameTime(all[0].Since, when) || !all[1].Since.IsZero() {
			t.Errorf("times are %s and %s, want %s and zero", all[0].Since, all[1].Since, when)
		}
		all[0].Since, all[1].Since = ss[0].Since, ss[1].Since
		if !reflect.DeepEqual(all, ss) {
			t.Errorf("subnets are %+v, want %+v", all, ss)
		}
		return err
	})
	update(t, d, func(tx *Tx) error { return tx.DeleteSubnet(ss[0].Prefix) })
	view(t, d, func(tx *Tx) error {
		_, err := tx.Subnet(ss[0].Prefix)
		wantErr(t, err, ErrNotFound)
		_, err = tx.Subnet(ss[1].Prefix)
		return err
	})
}

// What one store exports makes the same host in another store.
func TestImport(t *testing.T) {
	t.Parallel()
	from, to := memory(t), memory(t)
	addHost(t, from, host, 20)
	update(t, from, func(tx *Tx) error {
		e, err := tx.Peek(host)
		return errors.Join(err, tx.Remove(host, e))
	})
	first := queue(t, from, host)[0]
	update(t, from, func(tx *Tx) error { return tx.Defer(host, first) })

	var seen []Digest
	view(t, from, func(tx *Tx) error {
		return tx.SeenDigests(host, nil, func(d Digest) (bool, error) {
			seen = append(seen, d)
			return true, nil
		})
	})
	if len(seen) != 20 || !slices.IsSortedFunc(seen, func(a, b Digest) int {
		return slices.Compare(a[:], b[:])
	}) {
		t.Fatalf("got %d digests, want 20 in order", len(seen))
	}
	update(t, to, func(tx *Tx) error {
		tx.PutHost(Host{Name: host, Queued: 19, Known: 20})
		return tx.Import(host, queue(t, from, host), seen)
	})
	if got, want := queue(t, to, host), queue(t, from, host); !slices.EqualFunc(got, want,
		func(a, b Entry) bool {
			return a.URL == b.URL && a.Tries == b.Tries && a.Depth == b.Depth
		}) {
		t.Errorf("queue is %v, want %v", urls(got), urls(want))
	}
	update(t, to, func(tx *Tx) error {
		for i := range 20 {
			if fresh, err := tx.Push(host, Entry{URL: page(host, i)}, 0); fresh || err != nil {
				t.Errorf("push %d: Push() = %v, %v, want false", i, fresh, err)
			}
		}
		return nil
	})
	view(t, to, func(tx *Tx) error {
		h, err := tx.Host(host)
		if err == nil && (h.Queued != 19 || h.Known != 20) {
			t.Errorf("host is %+v, want 19 queued, 20 known", h)
		}
		return err
	})
}

// Import marks the URLs of entries as seen.
func TestImportMarksSeen(t *testing.T) {
	t.Parallel()
	d := memory(t)
	update(t, d, func(tx *Tx) error { return tx.Import(host, []Entry{{URL: page(host, 1)}}, nil) })
	view(t, d, func(tx *Tx) error {
		ok, err := tx.Seen(page(host, 1))
		if !ok {
			t.Error("Seen() = false, want true")
		}
		return err
	})
	// An entry can be removed without a record of its host.
	update(t, d, func(tx *Tx) error { return tx.Remove(host, queue(t, d, host)[0]) })
	if n := len(queue(t, d, host)); n != 0 {
		t.Errorf("queue has %d entries, want 0", n)
	}
}

func TestDropHost(t *testing.T) {
	t.Parallel()
	d := memory(t)
	const n = 5000 // more keys than one transaction deletes
	for _, h := range []string{host, "a.example.org"} {
		addHost(t, d, h, n)
	}
	update(t, d, func(tx *Tx) error {
		return errors.Join(tx.PutPage(Page{URL: page(host, 0)}),
			tx.PutRobots("http://"+host, []byte("x")))
	})
	for range 2 {
		if err := d.DropHost(host); err != nil {
			t.Fatal(err)
		}
	}
	view(t, d, func(tx *Tx) error {
		_, err := tx.Host(host)
		wantErr(t, err, ErrNotFound)
		if ok, err := tx.Seen(page(host, n-1)); ok || err != nil {
			t.Errorf("Seen() = %v, %v, want false", ok, err)
		}
		_, err = tx.Page(page(host, 0))
		return err
	})
	got, other := len(queue(t, d, host)), len(queue(t, d, "a.example.org"))
	if got != 0 || other != n {
		t.Errorf("queues have %d and %d entries, want 0 and %d", got, other, n)
	}
}

func TestData(t *testing.T) {
	t.Parallel()
	d := memory(t)
	update(t, d, func(tx *Tx) error {
		for _, k := range []string{"/a", "/a/b", "/b", ""} {
			if err := tx.PutData(k, []byte("v"+k)); err != nil {
				return err
			}
		}
		return nil
	})
	view(t, d, func(tx *Tx) error {
		var got []string
		err := tx.EachData("/a", func(k string, v []byte) (bool, error) {
			got = append(got, fmt.Sprintf("%s=%s", k, v))
			return true, nil
		})
		if want := []string{"/a=v/a", "/a/b=v/a/b"}; !slices.Equal(got, want) {
			t.Errorf("EachData() gives %v, want %v", got, want)
		}
		v, err2 := tx.Data("")
		if string(v) != "v" {
			t.Errorf("Data() = %q, want %q", v, "v")
		}
		_, err3 := tx.Data("/c")
		wantErr(t, err3, ErrNotFound)
		return errors.Join(err, err2)
	})
	update(t, d, func(tx *Tx) error {
		return errors.Join(tx.DeleteData("/a"), tx.DeleteData("/zzz"))
	})
	wantErr(t, d.View(func(tx *Tx) error { _, err := tx.Data("/a"); return err }), ErrNotFound)
}

func TestMeta(t *testing.T) {
	t.Parallel()
	d := memory(t)
	want := []string{"x", "y"}
	update(t, d, func(tx *Tx) error {
		tx.Count(Counters{Pages: 1})
		return errors.Join(tx.PutMeta("peers", want), tx.PutMeta("counters", "no conflict"))
	})
	view(t, d, func(tx *Tx) error {
		var got, none []string
		err := tx.Meta("peers", &got)
		if !slices.Equal(got, want) {
			t.Errorf("Meta() gives %v, want %v", got, want)
		}
		wantErr(t, tx.Meta("nothing", &none), ErrNotFound)
		return err
	})
}

// Sub is the inverse of adding, for each counter.
func TestCountersSub(t *testing.T) {
	t.Parallel()
	var sum, part, want Counters
	for i := range reflect.TypeFor[Counters]().NumField() {
		reflect.ValueOf(&sum).Elem().Field(i).SetInt(int64(1000 + i))
		reflect.ValueOf(&part).Elem().Field(i).SetInt(int64(3 * i))
		reflect.ValueOf(&want).Elem().Field(i).SetInt(int64(1000 - 2*i))
	}
	if got := sum.Sub(part); got != want {
		t.Errorf("Sub() = %+v, want %+v", got, want)
	}
}

// A host that has come to be in another subnet is not deleted.
func TestDropHostIn(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 10)
	var in netip.Prefix
	view(t, d, func(tx *Tx) error {
		h, err := tx.Host(host)
		if err == nil {
			in = h.Subnet
		}
		return err
	})
	if err := d.DropHostIn(netip.MustParsePrefix("198.18.7.0/24"), host); err != nil {
		t.Fatal(err)
	}
	if n := len(queue(t, d, host)); n != 10 {
		t.Errorf("queue has %d entries, want 10", n)
	}
	if err := d.DropHostIn(in, host); err != nil {
		t.Fatal(err)
	}
	if n := len(queue(t, d, host)); n != 0 {
		t.Errorf("queue has %d entries, want 0", n)
	}
}
