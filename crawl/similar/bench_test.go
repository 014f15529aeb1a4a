package similar

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkFingerprint has a SHA-256 of the same page beside it, as a measure
// of the machine.
func BenchmarkFingerprint(b *testing.B) {
	body := page(newAuthor(1).text(5000))
	b.Run("simhash", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			Fingerprint(body)
		}
	})
	b.Run("sha256", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			sha256.Sum256(body)
		}
	})
}

// BenchmarkRecall reports, in percent, how many pages are found after edits
// (recall), and how many of those found are the page itself rather than
// another one (precision), with 200 pages of a kind in one Index.
func BenchmarkRecall(b *testing.B) {
	for _, words := range []int{100, 300, 1000, 3000} {
		for _, s := range shares {
			b.Run(fmt.Sprintf("words=%d/changed=%g%%", words, 100*s.share), func(b *testing.B) {
				const pages = 200
				right, wrong := 0, 0
				for b.Loop() {
					right, wrong = 0, 0
					x := NewIndex(pages)
					for i := range pages {
						p, _ := Fingerprint(page(newAuthor(uint64(i)).text(words)))
						x.Add(p, id(i))
					}
					for i := range pages {
						a := newAuthor(uint64(i))
						p, _ := Fingerprint(page(a.edit(a.text(words), s.share)))
						if got, _, ok := x.Lookup(p); ok && got == id(i) {
							right++
						} else if ok {
							wrong++
						}
					}
				}
				b.ReportMetric(100*float64(right)/pages, "%recall")
				b.ReportMetric(100*float64(right)/float64(max(right+wrong, 1)), "%precision")
			})
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	x := NewIndex(50_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100_000 {
		x.Add(Print(r.Uint64()), id(i))
	}
	name := id(1)
	b.Run("Lookup", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.Lookup(Print(r.Uint64()))
		}
	})
	b.Run("Add", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.Add(Print(r.Uint64()), name)
		}
	})
}
