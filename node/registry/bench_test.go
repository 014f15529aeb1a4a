package registry

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// BenchmarkOpen is what a peer does when it starts: five stored files with
// 650,000 blocks of 128,000 holders become a table.
func BenchmarkOpen(b *testing.B) {
	dir, tmp := b.TempDir(), b.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	var stored int64
	for r, name := range []string{"arin", "ripencc", "apnic", "lacnic", "afrinic"} {
		const n = 130_000
		var text strings.Builder
		fmt.Fprintf(&text, "2|%s|1|%d||20260928|+0000\n", name, n)
		for i := range n {
			h := rng.IntN(25_600)
			fmt.Fprintf(&text,
				"%s|NL|ipv4|%d.%d.%d.0|%d|20100101|allocated|%08x-%04x-4000-8000-%012x\n",
				name, 1+40*r+i/65536*16+i%16, i/16%64*4, i/1024%64*4, 256<<(i%3), h*2654435761, h,
				h*40503)
		}
		file := filepath.Join(tmp, name)
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		results, err := Load(b.Context(), dir, DefaultOptions(), file)
		if err != nil || results[0].Err != nil {
			b.Fatal(err, results[0].Err)
		}
		info, err := os.Stat(path(dir, name))
		if err != nil {
			b.Fatal(err)
		}
		stored += info.Size()
	}
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	before := heap()
	b.ResetTimer()
	for b.Loop() {
		table, _, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(heap()-before, "MiB-held")
		b.ReportMetric(float64(table.Len()), "entries")
		b.StartTimer()
		runtime.KeepAlive(table)
	}
	b.ReportMetric(float64(stored)/1e6, "MB-on-disk")
}
