package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// BenchmarkMetrics measures what scrapes cost a peer with 10,000 hosts that have work, in processor
// time: one within a second after another, the first one, and reading the state for that.
func BenchmarkMetrics(b *testing.B) {
	o := options(b)
	n, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	for i := range 10_000 {
		at := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
		host := fmt.Sprintf("h%d.example", i)
		if err := n.frontier.AddHost(host, store.SubnetOf(at), at, time.Time{}); err != nil {
			b.Fatal(err)
		}
		err := n.frontier.Update([]string{host}, func(_ *store.Tx, push frontier.Push) error {
			_, err := push(host, store.Entry{URL: store.URL("http://" + host + "/")})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("scrape", func(b *testing.B) {
		h := n.metrics.Handler()
		processorTime(b, func() { scrape(h) })
	})
	b.Run("first", func(b *testing.B) {
		processorTime(b, func() { scrape(n.newMetrics().Handler()) })
	})
	b.Run("state", func(b *testing.B) {
		m := &measured{n: n, protocols: n.net.Names.Words()}
		processorTime(b, func() { m.Measure() })
	})
}

func scrape(h http.Handler) {
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
}

// processorTime measures fn, and reports the processor time of this process.
func processorTime(b *testing.B, fn func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.ReportAllocs()
	begin := used()
	for b.Loop() {
		fn()
	}
	b.ReportMetric(float64(used()-begin)/float64(b.N)/1000, "cpu-µs/op")
}

// BenchmarkCountFetch measures what a request to a web server costs in addition.
func BenchmarkCountFetch(b *testing.B) {
	n, err := New(options(b))
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	r := store.FetchReport{Outcome: store.OutcomeOK, Bytes: 10_000, Timing: store.Timing{
		Connect: 40 * time.Millisecond, FirstByte: 60 * time.Millisecond,
		Body: 140 * time.Millisecond}}
	p := netip.MustParsePrefix("192.0.2.0/24")
	b.ReportAllocs()
	for b.Loop() {
		n.countFetch(p, r)
	}
}
