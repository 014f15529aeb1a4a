package mirror

import (
	"syscall"
	"testing"
	"time"

	"peerd/overlay/overlaytest"
)

// BenchmarkMirror measures the processor time of both ends together for a MiB of an archive.
func BenchmarkMirror(b *testing.B) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var sum time.Duration
	var bytes int64
	for range b.N {
		k := keeper(b, 1<<40)
		s := senderOf(b, 1<<30, k)
		add(b, s, 0, 320)
		before := used()
		stop := running(b, s)
		overlaytest.Until(b, "the archive is copied", func() bool {
			c := copyOf(k)
			return c != nil && c.Whole()
		})
		sum += used() - before
		bytes += copyOf(k).Bytes()
		stop()
	}
	b.ReportMetric(float64(sum.Microseconds())/(float64(bytes)/(1<<20)), "cpu-µs/MiB")
}
