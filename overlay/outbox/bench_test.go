package outbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
)

// largeTable returns a table with one URL of each of the given number of hosts, which have 50
// owners.
func largeTable(hosts int) (tab *hostTable, names []string, now time.Time) {
	tab, now = newTestTable(), time.Now()
	tab.cfg.MaxURLs, tab.cfg.MaxAge = 1000, time.Hour
	for i := range hosts {
		names = append(names, fmt.Sprintf("host-%d.test", i))
		tab.add(names[i], 1, now, now)
	}
	i := 0
	resolveAll(tab, now, func(string) Resolution {
		i++
		return Resolution{Kind: Foreign, Subnet: subnet(i % 5000),
			Owner: peer.ID(fmt.Sprint(i % 5000 % 50))}
	})
	return tab, names, now
}

// BenchmarkPendingAdded measures the cost of a page with twenty links while many hosts have
// pending URLs and all batches are in progress: counting the links and looking for due tasks.
func BenchmarkPendingAdded(b *testing.B) {
	for _, hosts := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			bk, names, now := largeTable(hosts)
			f := &Forwarder{cfg: bk.cfg, table: bk, wakeup: backoff.NewWake()}
			f.running[batches] = maxRunning[batches]
			for n := 0; b.Loop(); n++ {
				byHost := map[string]int{}
				for j := range 20 {
					byHost[names[(n*20+j)*7919%hosts]]++
				}
				f.PendingAdded(byHost)
				f.due(now)
			}
		})
	}
}

// BenchmarkNextBatch measures planning and completing a batch of a thousand URLs of a thousand
// hosts.
func BenchmarkNextBatch(b *testing.B) {
	bk, names, now := largeTable(100_000)
	for _, n := range names {
		bk.add(n, 1_000_000, now, now)
	}
	for b.Loop() {
		p, ok := bk.nextBatch(&bk.batches, now)
		if !ok {
			b.Fatal("nextBatch returned no batch")
		}
		for _, x := range p.shares {
			bk.removed(x.name, x.limit, now)
		}
		bk.batchDone(p, delivered, now)
	}
}
