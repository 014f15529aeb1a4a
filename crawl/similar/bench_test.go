package similar

import (
	"crypto/sha256"
	"strings"
	"testing"
)

// BenchmarkFingerprint includes a SHA-256 of the same page for comparison.
func BenchmarkFingerprint(b *testing.B) {
	body := strings.Join(newAuthor(1).text(5000), " ")
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
			sha256.Sum256([]byte(body))
		}
	})
}
