package robots

import (
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"
	"pgregory.net/rapid"

	"peerd/crawl/canon"
)

func word(alphabet string, most int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune(alphabet)), 0, most, -1)
}

func TestMatchesLikeLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := "/" + word("ab/*", 8).Draw(t, "value") + rapid.SampledFrom([]string{"", "$"}).Draw(t, "end")
		path := "/" + word("ab/", 10).Draw(t, "path")
		p := newPattern(normalPattern(value))
		if got, want := p.matches(normalPath(path)), grobotstxt.Matches(path, value); got != want {
			t.Fatalf("%q on %q: %v, library %v", value, path, got, want)
		}
	})
}

// On files and URLs where the library has no known fault, the answer is the
// library's.
func TestAllowedLikeLibrary(t *testing.T) {
	line := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1:
			return "User-agent: " + rapid.SampledFrom([]string{"*", "peerd", "PEERD/2", "other", "* x", "", "peerdx"}).Draw(t, "agent")
		case 2, 3, 4:
			return "Allow: /" + word("ab/*$", 5).Draw(t, "allow")
		case 5, 6, 7:
			return "Disallow: /" + word("ab/*", 5).Draw(t, "disallow") + rapid.SampledFrom([]string{"", "$"}).Draw(t, "end")
		case 8:
			return "Allow: /" + rapid.SampledFrom([]string{"index.html", "a/index.htm", "b/index.html$"}).Draw(t, "index")
		}
		return rapid.SampledFrom([]string{"", "# x", "Crawl-delay: 3", "Sitemap: /x", "Disallow:", "Disallow /a", "foo", "Disallow: a"}).Draw(t, "other")
	})
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOfN(line, 0, 14).Draw(t, "lines"), "\n")
		u, err := canon.Parse("http://example.org/" + word("ab/?", 8).Draw(t, "path"))
		if err != nil {
			t.Skip(err)
		}
		want := grobotstxt.AgentAllowed(body, "peerd", string(u))
		if got := ok(body).Allowed("peerd", u); got != want {
			t.Fatalf("%q on %q: %v, library %v", body, u, got, want)
		}
	})
}

func TestNormalFormIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := word("a/%2Ff7eE*$'\" ü", 10).Draw(t, "s")
		for name, f := range map[string]func(string) string{"path": normalPath, "pattern": normalPattern} {
			if once := f(s); f(once) != once {
				t.Fatalf("%s %q: %q, then %q", name, s, once, f(once))
			}
		}
	})
}
