package frontier_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// BenchmarkRoundTrip measures one Next and one Release with 64 workers and no gap. Nothing
// is removed from the queues, so a round trip costs one read of the store.
func BenchmarkRoundTrip(b *testing.B) {
	for _, hosts := range []int{1, 64, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			db, err := store.Open("", store.Options{InMemory: true})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			f, err := frontier.New(frontier.Config{DB: db}, func(netip.Prefix) bool { return true })
			if err != nil {
				b.Fatal(err)
			}
			for i := range hosts {
				addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
				name := fmt.Sprintf("h%d.example", i)
				if err := f.AddHost(name, store.SubnetOf(addr), addr, time.Time{}); err != nil {
					b.Fatal(err)
				}
				err := f.Update([]string{name}, func(_ *store.Tx, push frontier.Push) error {
					_, err := push(name, store.Entry{URL: store.URL("http://" + name + "/")})
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			trips(b, f, 64, b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "trips/s")
		})
	}
}

func trips(b *testing.B, f *frontier.Frontier, workers, n int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range left {
				j, err := f.Next(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				f.Release(j, false, 0, 0)
			}
		})
	}
	wg.Wait()
}

// BenchmarkObserve measures what a steady answer costs at an address with many hosts.
func BenchmarkObserve(b *testing.B) {
	for _, hosts := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			db, err := store.Open("", store.Options{InMemory: true})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			f, err := frontier.New(frontier.Config{DB: db, AddrRequests: 8},
				func(netip.Prefix) bool { return true })
			if err != nil {
				b.Fatal(err)
			}
			addr := netip.MustParseAddr("203.0.113.1")
			for i := range hosts {
				name := fmt.Sprintf("h%d.example", i%10)
				if i >= 10 {
					name = fmt.Sprintf("h%d.one.example", i)
				}
				if err := f.AddHost(name, store.SubnetOf(addr), addr, time.Time{}); err != nil {
					b.Fatal(err)
				}
			}
			err = f.Update([]string{"h0.example"}, func(_ *store.Tx, push frontier.Push) error {
				_, err := push("h0.example", store.Entry{URL: "http://h0.example/"})
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			j, err := f.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				f.Observe(j, frontier.LoadSteady)
			}
		})
	}
}

// BenchmarkManyHosts measures one Next and one Release at an address with many hosts, of which a
// thousand have work.
func BenchmarkManyHosts(b *testing.B) {
	for _, hosts := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			db, err := store.Open("", store.Options{InMemory: true})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			f, err := frontier.New(frontier.Config{DB: db},
				func(netip.Prefix) bool { return true })
			if err != nil {
				b.Fatal(err)
			}
			addr := netip.MustParseAddr("203.0.113.1")
			for i := range hosts {
				name := fmt.Sprintf("h%d.example", i)
				if err := f.AddHost(name, store.SubnetOf(addr), addr, time.Time{}); err != nil {
					b.Fatal(err)
				}
				if i >= 1000 {
					continue
				}
				err = f.Update([]string{name}, func(_ *store.Tx, push frontier.Push) error {
					_, err := push(name, store.Entry{URL: store.URL("http://" + name + "/")})
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			trips(b, f, 1, b.N)
		})
	}
}
