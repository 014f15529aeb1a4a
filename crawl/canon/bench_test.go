package canon

import (
	"testing"

	"peerd/store"
)

func BenchmarkJoin(b *testing.B) {
	base := BaseOf("https://docs.example.org/guide/part/chapter.html?v=2")
	for _, ref := range []string{
		"next.html", "../../images/a-1.png", "/index.html?page=2", "https://example.com/x/y",
		"a b.html",
	} {
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

const benchURL = "https://docs.example.org/guide/part/chapter.html?lang=en&page=2&version=3"

func BenchmarkApply(b *testing.B) {
	all := Rules{DropSessions: true, DropTracking: true, SortQuery: true}
	for name, c := range map[string]struct {
		r Rules
		u store.URL
	}{
		"default, no query": {DefaultRules(), "https://docs.example.org/guide/part/chapter.html"},
		"default":           {DefaultRules(), benchURL},
		"all":               {all, benchURL},
		"all, changed":      {all, benchURL + "&gclid=1"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.r.Apply(c.u)
			}
		})
	}
}

func BenchmarkParseWHATWG(b *testing.B) {
	for b.Loop() {
		if _, err := ParseWHATWG("", benchURL); err != nil {
			b.Fatal(err)
		}
	}
}
