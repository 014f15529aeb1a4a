package trap

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"peerd/store"
)

// TestQuotaGrows counts linking registered domains, each once.
func TestQuotaGrows(t *testing.T) {
	t.Parallel()
	g := guard(t, func(c *Config) { c.Quota = 10; c.MaxDomains = 5 })
	for _, c := range []struct {
		from []string
		want int
	}{
		{nil, 10},
		{[]string{"www.a.example", "a.example"}, 10},
		{[]string{"b.example"}, 20},
		{[]string{"b.example", "x.b.example", "y.b.example"}, 20},
		{[]string{"b.co.uk", "c.co.uk"}, 30},
		{[]string{"b.github.io", "c.github.io", "192.0.2.1"}, 40},
		{strings.Split("a1.com a2.com a3.com a4.com a5.com a6.com a7.com a8.com a9.com", " "), 60},
	} {
		s := new(State)
		for _, from := range c.from {
			g.AddLink(s, "a.example", from)
		}
		for i := range 1000 {
			g.Admit(s, store.URL("http://a.example/"+letters(i)))
		}
		if s.urls != uint64(c.want) || s.drops[Quota] != uint64(1000-c.want) {
			t.Errorf("links from %v: %d URLs admitted, want %d", c.from, s.urls, c.want)
		}
	}
}

// TestSketchedLimits: the cut-off is between the limit and 1.8 times the limit. Values that
// occur again on other pages do not count as new.
func TestSketchedLimits(t *testing.T) {
	t.Parallel()
	seeds := uint64(3)
	if thorough {
		seeds = 20
	}
	for _, limit := range []int{5, 8, 50, 400, 3000} {
		g := guard(t, func(c *Config) { c.MaxTokens = limit })
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, 0))
			s := new(State)
			for i := range 2 * limit {
				token, first := random(r, 12), s.urls
				for page := range 3 {
					g.Admit(s,
						store.URL(fmt.Sprintf("http://a.example/a%d?ref=f47ac10b-58cc-4372-a567-%s",
							page, token)))
				}
				if i < limit && s.urls != first+3 {
					t.Fatalf("limit %d, seed %d: cut at %d values", limit, seed, i)
				}
			}
			if got := s.urls; got > 3*uint64(limit)*18/10 {
				t.Errorf("limit %d, seed %d: %d values admitted, want at most 1.8 times the limit",
					limit, seed, got/3)
			}
		}
	}
}
