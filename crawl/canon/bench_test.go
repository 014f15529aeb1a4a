package canon

import "testing"

func BenchmarkJoin(b *testing.B) {
	base := BaseOf("https://docs.example.org/guide/part/chapter.html?v=2")
	for _, ref := range []string{"next.html", "../../images/a-1.png", "/index.html?page=2", "https://example.com/x/y", "a b.html"} {
		b.Run(ref, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := base.Join(ref); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
