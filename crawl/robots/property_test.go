package robots

import (
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"
	"pgregory.net/rapid"

	"peerd/crawl/canon"
	_ "peerd/internal/rapidtest"
)

func word(alphabet string, most int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune(alphabet)), 0, most, -1)
}

func TestMatchesLikeLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"", "$"}).Draw(t, "end")
		value := "/" + word("ab/*", 8).Draw(t, "value") + end
		path := "/" + word("ab/", 10).Draw(t, "path")
		p := newPattern(normalizePattern(value))
		want := grobotstxt.Matches(path, value)
		work := maxWork
		if got := p.matches(normalizePath(path), &work, !want); got != want {
			t.Fatalf("pattern %q matches %q: %v, want %v as in the library", value, path, got, want)
		}
	})
}

// TestAllowedLikeLibrary compares Allowed with the library, for files and URLs for which the
// library has no known errors.
func TestAllowedLikeLibrary(t *testing.T) {
	line := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1:
			return "User-agent: " + rapid.SampledFrom([]string{
				"*", "peerd", "PEERD/2", "other", "* x", "", "peerdx",
			}).Draw(t, "agent")
		case 2, 3, 4:
			return "Allow: /" + word("ab/*$", 5).Draw(t, "allow")
		case 5, 6, 7:
			return "Disallow: /" + word("ab/*", 5).Draw(t, "disallow") +
				rapid.SampledFrom([]string{"", "$"}).Draw(t, "end")
		case 8:
			return "Allow: /" + rapid.SampledFrom([]string{
				"index.html", "a/index.htm", "b/index.html$",
			}).Draw(t, "index")
		}
		return rapid.SampledFrom([]string{
			"", "# x", "Crawl-delay: 3", "Sitemap: /x", "Disallow:", "Disallow /a", "foo",
			"Disallow: a",
		}).Draw(t, "other")
	})
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOfN(line, 0, 14).Draw(t, "lines"), "\n")
		u, err := canon.Parse("http://example.org/" + word("ab/?", 8).Draw(t, "path"))
		if err != nil {
			t.Skip(err)
		}
		want := grobotstxt.AgentAllowed(body, "peerd", string(u))
		if got := ok(body).Allowed("peerd", u); got != want {
			t.Fatalf("Allowed(%q) = %v by %q, want %v as in the library", u, got, body, want)
		}
	})
}

func TestNormalizeIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := word("a/%2Ff7eE*$'\" ü", 10).Draw(t, "s")
		for name, normalize := range map[string]func(string) string{
			"path": normalizePath, "pattern": normalizePattern,
		} {
			once := normalize(s)
			if again := normalize(once); again != once {
				t.Fatalf("normalized %s of %q = %q, and normalized again %q", name, s, once, again)
			}
		}
	})
}
