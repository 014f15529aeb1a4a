package frontier_test

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"peerd/crawl/frontier"
	_ "peerd/internal/rapidtest"
	"peerd/store"
)

// queueModel is how the queues of two hosts should behave.
type queueModel struct {
	w     world
	queue map[string][]item
	jobs  map[string]frontier.Job
	next  int // URL
	place int
	ended map[store.URL]int
}

type item struct {
	url          store.URL
	depth, place int
}

func (p *queueModel) put(host string, it item) {
	p.place++
	it.place = p.place
	p.queue[host] = append(p.queue[host], it)
	slices.SortFunc(p.queue[host], func(a, b item) int {
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.place, b.place))
	})
}

var windowHosts = map[string]netip.Addr{"a.example": addr(1, 1), "b.example": addr(2, 1)}

// push queues a few URLs at once.
func (p *queueModel) push(t *rapid.T) {
	host := rapid.SampledFrom([]string{"a.example", "b.example"}).Draw(t, "host")
	n := rapid.SampledFrom([]int{1, 2, 5, 90}).Draw(t, "n")
	depths := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 3).Draw(t, "depths")
	err := p.w.Update([]string{host}, func(_ *store.Tx, push frontier.Push) error {
		for i := range n {
			p.next++
			it := item{url: page(host, p.next), depth: depths[i%len(depths)]}
			if _, err := push(host, store.Entry{URL: it.url, Depth: it.depth}); err != nil {
				return err
			}
			p.put(host, it)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// take takes a job, if there is one, and compares it with the model.
func (p *queueModel) take(t *rapid.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	j, err := p.w.Next(ctx)
	if err != nil {
		for h, q := range p.queue {
			if _, busy := p.jobs[h]; !busy && len(q) > 0 {
				t.Fatalf("no job of %s, which has %d: %v", h, len(q), err)
			}
		}
		return
	}
	want := p.queue[j.Host][0]
	if _, busy := p.jobs[j.Host]; busy || j.Entry.URL != want.url {
		t.Fatalf("job is %s of depth %d, want %s of depth %d", j.Entry.URL, j.Entry.Depth, want.url,
			want.depth)
	}
	p.jobs[j.Host] = j
}

func (p *queueModel) end(t *rapid.T, host string) {
	j, ok := p.jobs[host]
	if !ok {
		return
	}
	delete(p.jobs, host)

	i := slices.IndexFunc(p.queue[host], func(x item) bool { return x.url == j.Entry.URL })
	switch rapid.IntRange(0, 9).Draw(t, "end") {
	case 0: // nothing was sent
		p.w.Return(j, false)
	case 1: // canceled
		p.w.Release(j, false, 0, 0)
	case 2, 3: // comes again after all others
		if err := p.w.db.Batch(func(tx *store.Tx) error {
			return tx.Requeue(host, j.Entry)
		}); err != nil {
			t.Fatal(err)
		}
		p.w.Release(j, false, 0, 0)
		it := p.queue[host][i]
		p.queue[host] = slices.Delete(p.queue[host], i, i+1)
		it.depth = store.RetryPlace
		p.put(host, it)
	case 4:
		if rapid.IntRange(0, 9).Draw(t, "remove all") > 0 {
			p.w.Return(j, false)
			return
		}
		if n := p.w.removeAll(j); int(n) != len(p.queue[host]) {
			t.Fatalf("%d removed of %d", n, len(p.queue[host]))
		}
		p.queue[host] = nil
	default:
		if err := p.w.db.Batch(func(tx *store.Tx) error {
			return tx.Remove(host, j.Entry)
		}); err != nil {
			t.Fatal(err)
		}
		p.w.Release(j, true, 0, 0)
		p.queue[host] = slices.Delete(p.queue[host], i, i+1)
		if p.ended[j.Entry.URL]++; p.ended[j.Entry.URL] > 1 {
			t.Fatalf("%s was fetched twice", j.Entry.URL)
		}
	}
}

// restart makes a new frontier over the same store. Jobs in progress are lost.
func (p *queueModel) restart(*rapid.T) {
	p.w = newWorld(p.w.t, p.w.db, frontier.Config{Gap: time.Millisecond})
	p.jobs = map[string]frontier.Job{}
}

// Whatever is pushed, returned, moved and taken, the next entry of a host is the oldest of
// the lowest depth, nothing is lost, and nothing is handed out twice.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			db, err := store.Open("", store.Options{InMemory: true, MemTable: 4 << 20,
				IndexCache: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			p := &queueModel{
				w:     newWorld(t, db, frontier.Config{Gap: time.Millisecond}),
				queue: map[string][]item{},
				jobs:  map[string]frontier.Job{}, ended: map[store.URL]int{},
			}
			for h, a := range windowHosts {
				p.w.add(h, a, 0)
			}
			for range rapid.IntRange(1, 120).Draw(rt, "steps") {
				switch rapid.IntRange(0, 12).Draw(rt, "step") {
				case 0, 1:
					p.push(rt)
				case 2, 3, 4, 5, 6:
					p.take(rt)
				case 12:
					if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
						p.restart(rt)
					}
				default:
					p.end(rt, rapid.SampledFrom([]string{"a.example", "b.example"}).Draw(rt,
						"host"))
				}
				var n int64
				for _, q := range p.queue {
					n += int64(len(q))
				}
				if s := p.w.Stats(); s.Pending+int64(s.InFlight) != n {
					rt.Fatalf("%+v, want %d in all", s, n)
				}
			}
		})
	})
}

// A long queue costs the same for each entry, first or last.
func BenchmarkLongQueue(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				db, err := store.Open("", store.Options{InMemory: true})
				if err != nil {
					b.Fatal(err)
				}
				f := longQueue(b, db, n)
				b.StartTimer()
				for range n {
					j, err := f.Next(b.Context())
					if err == nil {
						err = db.Batch(func(tx *store.Tx) error {
							return tx.Remove(j.Host, j.Entry)
						})
					}
					if err != nil {
						b.Fatal(err)
					}
					f.Release(j, true, 0, 0)
				}
				b.StopTimer()
				if s := f.Stats(); s.Pending != 0 {
					b.Fatalf("%+v", s)
				}
				_ = db.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

func longQueue(b *testing.B, db *store.DB, n int) *frontier.Frontier {
	b.Helper()
	f, err := frontier.New(frontier.Config{DB: db}, func(netip.Prefix) bool { return true })
	if err == nil {
		err = f.AddHost("a.example", subnet(1), addr(1, 1), time.Time{})
	}
	for i := 0; i < n && err == nil; i += 1000 {
		err = f.Update([]string{"a.example"}, func(_ *store.Tx, push frontier.Push) error {
			for k := range 1000 {
				if _, err := push("a.example", store.Entry{URL: page("a.example", i+k),
					Depth: i / 20_000}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}
