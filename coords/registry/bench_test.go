package registry

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
)

// delegated writes a file like those of all registries together: n records, a
// fifth of them of AS numbers, a third of the others IPv6; 128,000 holders.
func delegated(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	fmt.Fprintf(&b, "2|nro|20260928|%d||20260928|+0000\n", n)
	rir := []string{"arin", "ripencc", "apnic", "lacnic", "afrinic"}
	v4, v6 := uint32(1<<24), uint32(0x20010000)
	for i := range n {
		h := rng.IntN(128_000)
		r := rir[h%len(rir)]
		id := fmt.Sprintf("%08x-%04x-4000-8000-%012x", h*2654435761, h, h*40503)
		switch {
		case i%5 == 0:
			fmt.Fprintf(&b, "%s|US|asn|%d|1|20100101|allocated|%s\n", r, i+1, id)
		case i%3 == 0:
			fmt.Fprintf(&b, "%s|US|ipv6|%x:%x::|32|20100101|allocated|%s\n", r, v6>>16, v6&0xffff,
				id)
			v6++
		default:
			count := uint32(256) << rng.IntN(6)
			if rng.IntN(300) == 0 {
				count += 512
			}
			a := netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)})
			fmt.Fprintf(&b, "%s|US|ipv4|%s|%d|20100101|allocated|%s\n", r, a, count, id)
			v4 += (count + 8191) &^ 8191
		}
	}
	return b.Bytes()
}

// BenchmarkRegistries takes 815,000 records (652,000 with addresses) from text
// to table, and from stored bytes to table, and looks addresses up.
func BenchmarkRegistries(b *testing.B) {
	text := delegated(815_000)
	var file *File
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			f, err := Parse(bytes.NewReader(text), DefaultLimits())
			if err != nil || f.Faulty > 0 {
				b.Fatal(err, f.Faults)
			}
			file = f
		}
		b.ReportMetric(float64(len(file.Entries)), "entries")
	})
	if file == nil {
		return
	}
	var table *Table
	b.Run("build", func(b *testing.B) {
		table = nil
		before := heap()
		for b.Loop() {
			var err error
			if table, err = Build(WithRoots(file.Entries)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-held")
		b.ReportMetric(float64(table.Len()), "entries")
	})
	b.Run("lookup", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(3, 4))
		for b.Loop() {
			v := rng.Uint32()
			table.Lookup(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8),
				byte(v)}))
		}
	})
	b.Run("supernets", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(3, 4))
		for b.Loop() {
			v := rng.Uint32()
			for range table.Supernets(
				netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16),
					byte(v >> 8)}), 24)) {
			}
		}
	})
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
