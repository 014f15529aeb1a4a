package trap

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"peerd/store"
)

// TestQuotaGrows counts registered domains that link, each once.
func TestQuotaGrows(t *testing.T) {
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
			g.Linked(s, "a.example", from)
		}
		for i := range 1000 {
			g.Admit(s, store.URL("http://a.example/"+letters(i)), now)
		}
		if s.URLs() != uint64(c.want) || s.Drops(Quota) != uint64(1000-c.want) {
			t.Errorf("%v: %d URLs, want %d", c.from, s.URLs(), c.want)
		}
	}
}

// TestIDsAreNoDates: numbers cut into folders are dates now and then, and may
// go on.
func TestIDsAreNoDates(t *testing.T) {
	g := guard(t, nil)
	s := new(State)
	for i := range 90_000 {
		id := fmt.Sprintf("%08d", i*1111%1e8)
		u := store.URL("http://a.example/" + id[:4] + "/" + id[4:6] + "/" + id[6:])
		if h := g.Admit(s, u, now); h != None {
			t.Fatalf("%s, number %d: %v", u, i, h)
		}
	}
}

// TestNewsArchive: 25 years of dates with a hundred articles a day go in.
func TestNewsArchive(t *testing.T) {
	g := guard(t, func(c *Config) { c.Quota = 1e9 })
	s := new(State)
	for i := range 25 * 365 {
		day := now.AddDate(0, 0, -i).Format("/2006/01/02/")
		for j := range 20 {
			if h := g.Admit(s, store.URL("http://news.example"+day+letters(i*31+j)+"-"+letters(j)+".html"), now); h != None {
				t.Fatalf("day %d: %v", i, h)
			}
		}
		if h := g.Admit(s, store.URL("http://news.example"+day), now); h != None {
			t.Fatalf("day %d: %v", i, h)
		}
	}
	checkSize(t, s)
}

// TestTrapInNoise: a trap is cut among many pages of shapes that come once.
func TestTrapInNoise(t *testing.T) {
	g := guard(t, func(c *Config) { c.MaxNumbers = 1000 })
	s := new(State)
	through := 0
	for i := range 100_000 {
		u := fmt.Sprintf("http://a.example/%s-2.html", letters(i))
		if i%20 == 0 {
			u = fmt.Sprintf("http://a.example/list?page=%d", i)
		}
		h := g.Admit(s, store.URL(u), now)
		if i%20 == 0 && h == None {
			through++
		}
		if i%20 != 0 && h != None {
			t.Fatalf("%s: %v", u, h)
		}
	}
	if through != 1000 {
		t.Errorf("%d came through, want 1000", through)
	}
	checkSize(t, s)
}

// TestSketchedLimits: the cut comes after the limit, and before 1.8 times it;
// values that come again on other pages are no new ones.
func TestSketchedLimits(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for _, limit := range []int{5, 8, 50, 400, 3000} {
		g := guard(t, func(c *Config) { c.MaxTokens = limit })
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, 0))
			s := new(State)
			for i := range 2 * limit {
				token, first := random(r, 12), s.URLs()
				for page := range 3 {
					g.Admit(s, store.URL(fmt.Sprintf("http://a.example/a%d?ref=f47ac10b-58cc-4372-a567-%s", page, token)), now)
				}
				if i < limit && s.URLs() != first+3 {
					t.Fatalf("limit %d, seed %d: cut at %d values", limit, seed, i)
				}
			}
			if got := s.URLs(); got > 3*uint64(limit)*18/10 {
				t.Errorf("limit %d, seed %d: %d values came through", limit, seed, got/3)
			}
		}
	}
}
