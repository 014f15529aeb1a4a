package canon

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"peerd/store"
)

const id32 = "0123456789abcdef0123456789abcdef"

var allRules = Rules{
	DropSessions: true, DropTracking: true, SortQuery: true,
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		what     string
		r        Rules
		in, want string
	}{
		{"nothing to do", allRules, "/a/b?c=d", "/a/b?c=d"},
		{"zero rules", Rules{}, "/index.html;jsessionid=1?z&a&utm_source=x&sid=" + id32,
			"/index.html;jsessionid=1?z&a&utm_source=x&sid=" + id32},
		{"default rules", DefaultRules(), "/index.html?z&a&gclid=1&PHPSESSID=1", "/index.html?z&a&gclid=1"},

		{"path parameter", allRules, "/a;jsessionid=1A2B", "/a"},
		{"its letter case", allRules, "/a;JSESSIONID=1A2B?x", "/a?x"},
		{"on a folder", allRules, "/a;jsessionid=1/b", "/a/b"},
		{"among others", allRules, "/a;x=1;jsessionid=2;y=3", "/a;x=1;y=3"},
		{"twice", allRules, "/a;jsessionid=2;jsessionid=3", "/a"},
		{"without value", allRules, "/a;jsessionid", "/a"},
		{"a longer name", allRules, "/a;jsessionidx=1", "/a;jsessionidx=1"},
		{"no name", allRules, "/;jsessionid=1", "/"},
		{"no dot segment", allRules, "/a/..;jsessionid=1/b", "/a/..;jsessionid=1/b"},
		{"tracking is not in paths", allRules, "/a;gclid=1", "/a;gclid=1"},
		{"ASP.NET", allRules, "/(S(lit3py55t21z5v55vlm25s55))/a.aspx", "/a.aspx"},
		{"ASP.NET, several", allRules, "/x/(A(lit3py55t21z5v55vlm25s55)S(lit3py55t21z5v55vlm25s55))/", "/x/"},
		{"ASP.NET, last", allRules, "/x/(S(lit3py55t21z5v55vlm25s55))", "/x/"},
		{"ASP.NET, all", allRules, "/(S(lit3py55t21z5v55vlm25s55))", "/"},
		{"a title", allRules, "/(S(x))/Rose_(flower)/(2001)/((a))", "/(S(x))/Rose_(flower)/(2001)/((a))"},

		{"query parameter", allRules, "/?PHPSESSID=1&a=b", "/?a=b"},
		{"last", allRules, "/?a=b&phpsessid=1", "/?a=b"},
		{"alone", allRules, "/?phpsessid=1", "/"},
		{"a long sid", allRules, "/?sid=" + id32 + "&a", "/?a"},
		{"a short sid", allRules, "/?sid=12345", "/?sid=12345"},
		{"a sid of words", allRules, "/?sid=thisisalongtitlewithoutany", "/?sid=thisisalongtitlewithoutany"},
		{"ASP", allRules, "/?ASPSESSIONIDQQABCDEF=X&a", "/?a"},
		{"value alone", allRules, "/?a=phpsessid", "/?a=phpsessid"},

		{"utm_", allRules, "/?utm_source=a&utm_x=b&utm_=c&x=y", "/?utm_=c&x=y"},
		{"click ids", allRules, "/?gclid=a&FBCLID=b&_ga=1&__hstc=2", "/"},
		{"sorted", allRules, "/?b=2&a=1&b=1&B", "/?B&a=1&b=2&b=1"},
		{"sorted, many of one name", allRules, "/?b" + strings.Repeat("&a=2&a=1", 20), "/?" + strings.Repeat("a=2&a=1&", 20) + "b"},
		{"empty fields stay", Rules{DropSessions: true}, "/?a&&b&", "/?a&&b&"},
		{"between empty ones", Rules{DropSessions: true}, "/?&phpsessid=1", "/"},
	} {
		in := store.URL("http://example.org" + c.in)
		if u, err := Parse(string(in)); err == nil && u != in {
			t.Errorf("%s: %q is not canonical", c.what, in)
		}
		if got := c.r.Apply(in); string(got) != "http://example.org"+c.want {
			t.Errorf("%s: %q becomes %q, want %q", c.what, in, got, c.want)
		}
	}
}

// checkApplied verifies what Apply guarantees.
func checkApplied(t failer, r Rules, u store.URL) {
	t.Helper()
	got := r.Apply(u)
	checkCanonical(t, got)
	if again := r.Apply(got); again != got {
		t.Fatalf("%+v.Apply(%q) = %q, and applied again %q", r, u, got, again)
	}
	if len(got) > len(u) || got.Origin() != u.Origin() {
		t.Fatalf("%+v.Apply(%q) = %q, want the same origin, and no more bytes", r, u, got)
	}
}

var rulePieces = append([]string{
	";", "jsessionid=", "JSESSIONID", "phpsessid=1", "sid=" + id32, "(S(lit3py55t21z5v55vlm25s55))",
	"/(", "))", "utm_a=b", "gclid", "index.html", "Index.PHP", "ref=", "ref", "&", "&", "=", "b=1",
	"a=2",
}, pieces...)

func TestRulesProperties(t *testing.T) {
	piece := rapid.SampledFrom(rulePieces)
	rapid.Check(t, func(t *rapid.T) {
		path := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "path"), "")
		query := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "query"), "")
		u, err := Parse("http://example.org/" + path + "?" + query)
		if err != nil {
			return
		}
		r := Rules{
			DropSessions: rapid.Bool().Draw(t, "sessions"),
			DropTracking: rapid.Bool().Draw(t, "tracking"),
			SortQuery:    rapid.Bool().Draw(t, "sort"),
		}
		checkApplied(t, r, u)
		if got := (Rules{}).Apply(u); got != u {
			t.Fatalf("Rules{}.Apply(%q) = %q, want it unchanged", u, got)
		}
	})
}

func TestApplyAllocates(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { allRules.Apply(benchURL) }); n != 0 {
		t.Errorf("%v allocations for a URL to which no rule applies, want none", n)
	}
}
