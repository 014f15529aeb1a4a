package forward

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// crowd is a book with one URL of each of so many hosts, of 50 owners.
func crowd(hosts int) (b *book, names []string, now time.Time) {
	b, now = testBook(), time.Now()
	b.cfg.MaxURLs, b.cfg.MaxAge = 1000, time.Hour
	for i := range hosts {
		names = append(names, fmt.Sprintf("host-%d.test", i))
		b.add(names[i], 1, now, now)
	}
	i := 0
	tend(b, now, func(string) Resolution {
		i++
		return Resolution{Kind: Foreign, Subnet: subnet(i % 5000), Owner: peer.ID(fmt.Sprint(i % 5000 % 50))}
	})
	return b, names, now
}

// BenchmarkNews is what one page of twenty links costs with many hosts
// waiting, all batches being under way: noting the links, and the look for
// what is due.
func BenchmarkNews(b *testing.B) {
	for _, hosts := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			bk, names, now := crowd(hosts)
			f := &Forwarder{cfg: bk.cfg, book: bk, changed: make(chan struct{}, 1)}
			f.running[batches] = places[batches]
			for n := 0; b.Loop(); n++ {
				byHost := map[string]int{}
				for j := range 20 {
					byHost[names[(n*20+j)*7919%hosts]]++
				}
				f.Deferred(byHost)
				f.due(now)
			}
		})
	}
}

// BenchmarkParcel is the making of one batch of a thousand URLs of a thousand
// hosts, and its end.
func BenchmarkParcel(b *testing.B) {
	bk, names, now := crowd(100_000)
	for _, n := range names {
		bk.add(n, 1_000_000, now, now)
	}
	for b.Loop() {
		p, ok := bk.parcel(&bk.batches, now)
		if !ok {
			b.Fatal("no batch")
		}
		for _, x := range p.parts {
			bk.left(x.name, x.most, now)
		}
		bk.sent(p, delivered, now)
	}
}
