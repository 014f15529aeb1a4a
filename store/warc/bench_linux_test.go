package warc

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/nlnwa/gowarc"
)

// BenchmarkAppend appends 30 kB pages in one and in two goroutines. "x-gzip" is the ratio
// of the time per exchange to that of gzip alone (one member, level 1), measured before and
// after in the same run. "cpu-x-gzip" is the ratio of CPU times, which other processes
// affect less.
func BenchmarkAppend(b *testing.B) {
	for _, procs := range []int{1, 2} {
		b.Run(fmt.Sprintf("goroutines=%d", procs), func(b *testing.B) {
			pages := make([]Exchange, 32)
			for i := range pages {
				pages[i] = page(i, 30<<10)
			}
			a := open(b, b.TempDir(), Options{})
			bare, bareCPU := bareGzip(b, pages)
			b.SetBytes(30 << 10)
			begin := cpuTime(b)
			b.ResetTimer()
			var n atomic.Int64
			done := make(chan error, procs)
			for range procs {
				go func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						if _, err := a.Append(pages[i%32]); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range procs {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			each := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			eachCPU := (cpuTime(b) - begin) / float64(b.N)
			bare2, bareCPU2 := bareGzip(b, pages)
			bare, bareCPU = (bare+bare2)/2, (bareCPU+bareCPU2)/2
			b.ReportMetric(each/bare, "x-gzip")
			b.ReportMetric(eachCPU/bareCPU, "cpu-x-gzip")
			b.ReportMetric(bare/1000, "gzip-µs")
		})
	}
}

// cpuTime returns the CPU time of the process in nanoseconds.
func cpuTime(tb testing.TB) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// bareGzip returns the wall time and CPU time to compress the parts of an exchange, in
// nanoseconds.
func bareGzip(tb testing.TB, pages []Exchange) (wall, cpu float64) {
	e := newEncoder()
	var raw [][]byte
	for i := range pages {
		e.prepare(&pages[i])
		if err := e.encode(&pages[i], newID()); err != nil {
			tb.Fatal(err)
		}
		r, err := gzip.NewReader(&e.buf)
		if err != nil {
			tb.Fatal(err)
		}
		all, err := io.ReadAll(r)
		if err != nil {
			tb.Fatal(err)
		}
		raw = append(raw, all)
	}
	gz, _ := gzip.NewWriterLevel(nil, 1)
	var out bytes.Buffer
	const rounds = 40
	begin, before := time.Now(), cpuTime(tb)
	for range rounds {
		for _, r := range raw {
			out.Reset()
			gz.Reset(&out)
			gz.Write(r)
			gz.Close()
		}
	}
	n := float64(rounds * len(raw))
	return float64(time.Since(begin).Nanoseconds()) / n, (cpuTime(tb) - before) / n
}

// BenchmarkEncode measures the parts of Append: digests, and compression of records; and,
// for comparison, the record builder of gowarc for the response record.
func BenchmarkEncode(b *testing.B) {
	x := page(1, 30<<10)
	e := newEncoder()
	b.Run("digests", func(b *testing.B) {
		for b.Loop() {
			e.prepare(&x)
		}
	})
	b.Run("members", func(b *testing.B) {
		id := newID()
		for b.Loop() {
			if err := e.encode(&x, id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library-builder", func(b *testing.B) {
		for b.Loop() {
			r := gowarc.NewRecordBuilder(gowarc.Response)
			r.AddWarcHeader(gowarc.WarcTargetURI, x.URL)
			r.AddWarcHeaderTime(gowarc.WarcDate, x.Time)
			r.AddWarcHeader(gowarc.ContentType, "application/http;msgtype=response")
			r.Write(x.Response)
			r.Write(x.Body)
			rec, _, err := r.Build()
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := gowarc.NewMarshaler().Marshal(io.Discard, rec, 0); err != nil {
				b.Fatal(err)
			}
			rec.Close()
		}
	})
}

// BenchmarkRepair repairs an unfinished file, as Open does after kill -9.
func BenchmarkRepair(b *testing.B) {
	e := newEncoder()
	var data bytes.Buffer
	for i := range 200 {
		x := page(i, 30<<10)
		e.prepare(&x)
		if err := e.encode(&x, ""); err != nil {
			b.Fatal(err)
		}
		data.Write(e.buf.Bytes())
	}
	b.SetBytes(int64(data.Len()))
	for b.Loop() {
		if _, n, err := newScanner(bytes.NewReader(data.Bytes()), "x", 0).index(func([]byte) error {
			return nil
		}); err != nil || n != 600 {
			b.Fatal(n, err)
		}
	}
}
