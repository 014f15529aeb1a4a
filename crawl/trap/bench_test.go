package trap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"peerd/store"
)

// ordinary returns URLs like those of large documentation sites.
func ordinary(n int) []store.URL {
	r := rand.New(rand.NewPCG(3, 4))
	res := make([]store.URL, n)
	for i := range res {
		switch i % 4 {
		case 0:
			res[i] = store.URL(
				fmt.Sprintf(
					"https://docs.example.org/api/java.base/java/util/concurrent/%s/%s.html",
					letters(r.IntN(500)), letters(i)))
		case 1:
			res[i] = store.URL(fmt.Sprintf("https://docs.example.org/9.6/release-%d-%d.html", i%30,
				i/30))
		case 2:
			res[i] = store.URL(fmt.Sprintf("https://docs.example.org/latest/%s/a%05d.html",
				letters(r.IntN(50)), i))
		case 3:
			res[i] = store.URL(fmt.Sprintf("https://docs.example.org/view?id=%d&tab=%s", i,
				letters(r.IntN(9))))
		}
	}
	return res
}

func BenchmarkAdmit(b *testing.B) {
	g := guard(b, func(c *Config) { c.Quota = 1 << 40 })
	for _, kind := range []struct {
		name string
		urls []store.URL
	}{{"ordinary", ordinary(10_000)}, {"session", trapURLs("a session a link")},
		{"facets", trapURLs("filters in any order")}} {
		b.Run(kind.name, func(b *testing.B) {
			s := new(State)
			b.ReportAllocs()
			for i := range b.N {
				g.Admit(s, kind.urls[i%len(kind.urls)])
			}
		})
	}
}

func trapURLs(name string) []store.URL {
	r := rand.New(rand.NewPCG(1, 2))
	for _, t := range traps() {
		if t.name == name {
			res := make([]store.URL, 10_000)
			for i := range res {
				res[i] = store.URL("http://a.example" + t.url(r, i))
			}
			return res
		}
	}
	panic(name)
}
