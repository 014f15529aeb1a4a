//go:build integration

package extract

import (
	"syscall"
	"testing"
	"time"
)

// TestHostilePagesAreFast judges the processor time to read pages that are slow to parse.
// BenchmarkHostile measures the real time.
func TestHostilePagesAreFast(t *testing.T) {
	t.Parallel()
	const size, limit = 256 << 10, 2 * time.Second
	for name, body := range hostile(size) {
		o := everything
		o.Text = 1 << 20
		start := processorTime(t)
		mustRead(body, o)
		if took := processorTime(t) - start; took > limit {
			t.Errorf("%s: took %v, want at most %v", name, took, limit)
		}
	}
}

// processorTime returns what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
