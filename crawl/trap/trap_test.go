package trap

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"peerd/store"
)

func guard(t testing.TB, change func(*Config)) *Guard {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAdmitFirst(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	row := func(s string, n int) string { return "http://a.example/" + strings.Repeat(s, n) }
	for _, c := range []struct {
		url  string
		want Heuristic
	}{
		{"http://a.example/", None},
		{"http://a.example", None},
		{"http://a.example?x", None},
		{"http://a.example/" + strings.Repeat("x", 2000-len("http://a.example/")), None},
		{"http://a.example/" + strings.Repeat("x", 2001-len("http://a.example/")), Length},
		{"http://a.example/" + manySegments(32), None},
		{"http://a.example/" + manySegments(32) + "/", None},
		{"http://a.example/" + manySegments(33), Depth},
		{"http://a.example/?" + manyParams(32, "&"), None},
		{"http://a.example/?" + manyParams(33, "&"), Params},
		{"http://a.example/?" + manyParams(33, ";"), Params},
		{row("a/", 20), None}, // directories by one letter
		{row("ab/", 3), None},
		{row("ab/", 4), Repeat},
		{row("/", 4), Repeat},
		{row("x/y/", 3), None},
		{row("x/y/", 4), Repeat},
		{row("one/two/three/", 3), None},
		{row("one/two/three/", 4), Repeat},
		{row("pre/one/two/three/", 1) + strings.Repeat("one/two/three/", 3) + "end", Repeat},
		{"http://a.example/en/a/en/b/en/c/en/d/en/e/en/f", None}, // six times
		{"http://a.example/en/a/en/b/en/c/en/d/en/e/en/f/en/g", Repeat},
		{"http://a.example/?a=1&a=1&a=1", None},
		{"http://a.example/?a=1&a=1&b&a=1&a=1", Repeat},
		{"http://a.example/?a=1&a=2&a=3&a=4&a=5", None},
		{"http://a.example/org/foo/foo/foo/Foo.html", None},
	} {
		if got := g.Admit(new(State), store.URL(c.url)); got != c.want {
			t.Errorf("Admit(%.80s) = %v, want %v", c.url, got, c.want)
		}
	}
}

func manySegments(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf("s%d", i)
	}
	return strings.Join(parts, "/")
}

func manyParams(n int, divider string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf("p%d=1", i)
	}
	return strings.Join(parts, divider)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{
		"f47ac10b-58cc-4372-a567-0e02b2c3d479":       true, // UUID
		"5d41402abc4b2a76b9719d911017c592":           true, // MD5
		"bjklri6cqq8jl7iavdb1j63ov4":                 true, // PHP
		"A1B2C3D4E5F60718293A4B5C6D7E8F90":           true,
		"lit3py55t21z5v55vlm25s55":                   true, // ASP.NET
		"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9":       true,
		"":                                           false,
		"how-to-build-a-crawler-in-2024":             false,
		"index.html":                                 false,
		"1234567890123456789":                        false,
		"a1a1a1a1a1a1a1a1a1a1":                       false, // regular
		"PostgreSQL_9.6_Release_Notes":               false,
		"java.util.concurrent.ConcurrentHashMap":     false,
		"Windows-10-and-Windows-11-and-Windows-2022": false,
	} {
		if got := isToken(v, false); got != want {
			t.Errorf("isToken(%q) = %v, want %v", v, got, want)
		}
	}
}

// TestShapes lists URLs of one shape per row; rows differ.
func TestShapes(t *testing.T) {
	t.Parallel()
	seen := map[uint64]int{}
	for i, row := range [][]string{
		{"/a/1", "/a/22", "/a/333333333333333333333333", "/a/1/2/3", "/a/a1b2c3", "/a/bjklri6cqq8jl"},
		{"/a/1/", "/a/2/"},
		{"/a/b1c", "/a/b99c"},
		{"/commit/5d41402abc4b2a76b9719d911017c592",
			"/commit/7d793037a0760186574b0282f2f435e7a1b2c3d4"},
		{"/a?s=5d41402abc4b2a76b9719d911017c592", "/a?s=bjklri6cqq8jl7iavdb1j63ov4"},
		{"/a;jsessionid=5d41402abc4b2a76b9719d911017c592",
			"/a;jsessionid=A1B2C3D4E5F60718293A4B5C6D7E8F90"},
		{"/a%2Fb", "/a%2Fb"},
		{"/a%3Fb"},
		{"/a?x=1&y=2", "/a?x=3&y=4", "/a?y=1&x=2"},
		{"/a/x", "/a/x"},
	} {
		var f features
		for j, rest := range row {
			f = features{}
			f.parse(store.URL("http://a.example" + rest))
			if at, ok := seen[f.shape]; ok != (j > 0) || ok && at != i {
				t.Errorf("%s: seen %v in row %d, want row %d", rest, ok, at, i)
			}
			seen[f.shape] = i
		}
	}
}

// random returns n hex digits.
func random(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
}

// trapOf is a trap: its i-th URL, the heuristic that cuts it, and the maximum number of
// URLs, of a million, that are admitted.
type trapOf struct {
	name string
	url  func(r *rand.Rand, i int) string
	want Heuristic
	most int
}

func traps() []trapOf {
	c := DefaultConfig()
	filters := []string{"color", "size", "brand", "price", "sort", "rating", "stock", "age", "sale",
		"style"}
	sketched := func(limit int) int { return limit * 18 / 10 }
	return []trapOf{
		{"a session a link", func(r *rand.Rand, i int) string {
			return fmt.Sprintf("/p%d?PHPSESSID=%s", i%50, random(r, 32))
		}, Session, sketched(c.MaxSessions)},
		{"a session in the path", func(r *rand.Rand, i int) string {
			return fmt.Sprintf("/p%d;jsessionid=%s?x=y", i%50, strings.ToUpper(random(r, 32)))
		}, Session, sketched(c.MaxSessions)},
		{"a session of ASP.NET", func(r *rand.Rand, _ int) string {
			return "/(S(" + random(r, 24) + "))/a.aspx"
		}, Session, sketched(c.MaxSessions)},
		{"a token of any name", func(r *rand.Rand, _ int) string {
			return "/a?ref=" + random(r, 20)
		}, Session, sketched(c.MaxTokens)},
		{"filters in any order", func(r *rand.Rand, i int) string {
			var q []string
			for _, j := range r.Perm(len(filters)) {
				q = append(q, filters[j]+"="+string(rune('a'+r.IntN(20))))
			}
			return "/shop?" + strings.Join(q, "&")
		}, Facets, sketched(c.MaxFacets)},
		{"filters in one order", func(r *rand.Rand, i int) string {
			return fmt.Sprintf("/shop?color=%s&size=%s&brand=%s", letters(i), letters(i/7),
				letters(i/11))
		}, Facets, sketched(c.MaxFacets)},
		{"filters in a list", func(r *rand.Rand, i int) string {
			return "/shop?f=" + letters(i) + ",new,red"
		}, Facets, sketched(c.MaxFacets)},
		{"folders within themselves", func(_ *rand.Rand, i int) string {
			return "/" + strings.Repeat("img/", i%30) + letters(i/30)
		}, Repeat, 4 * 33_334},
		{"words without end", func(r *rand.Rand, i int) string {
			return "/" + letters(i*7919) + "/" + letters(r.IntN(1e6))
		}, Quota, c.Quota},
	}
}

// letters writes n with letters only.
func letters(n int) string {
	var b []byte
	for ; ; n /= 26 {
		b = append(b, byte('a'+n%26))
		if n < 26 {
			return string(b)
		}
	}
}

func TestTrapsAreCut(t *testing.T) {
	t.Parallel()
	most, enough := 260_000, 1_000 // URLs, and consecutive drops after which none is expected
	if thorough {
		most, enough = 1_000_000, 100_000
	}
	g := guard(t, nil)
	for _, trap := range traps() {
		t.Run(trap.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			s := new(State)
			last, row, n := None, 0, 0
			for ; n < most && row < enough; n++ {
				h := g.Admit(s, store.URL("http://a.example"+trap.url(r, n)))
				if row++; h == None {
					row = 0
				} else {
					last = h
				}
			}
			t.Logf("%d of %d came through, the last drop is %v", s.urls, n, last)
			if s.urls > uint64(trap.most) || last != trap.want || s.urls+drops(s) != uint64(n) {
				t.Errorf("%d URLs admitted, want at most %d; last drop %v, want %v; %d drops",
					s.urls, trap.most, last, trap.want, drops(s))
			}
			if limit := limitOf(g.cfg, trap.want); s.urls < uint64(limit) {
				t.Errorf("cut at %d, below the limit of %d", s.urls, limit)
			}
			checkSize(t, s)
		})
	}
}

// limitOf returns the lowest limit of h.
func limitOf(c Config, h Heuristic) int {
	return map[Heuristic]int{Session: c.MaxSessions, Facets: c.MaxFacets, Quota: c.Quota}[h]
}

func drops(s *State) (n uint64) {
	for h := range numHeuristics {
		n += s.drops[h]
	}
	return n
}

// size returns the memory held by s, in bytes.
func size(s *State) int {
	n := 120 + len(s.linked) + 40*len(s.table.slots)
	for _, at := range s.table.slots {
		n += cap(at.distinct)
	}
	return n
}

func checkSize(t testing.TB, s *State) {
	t.Helper()
	b, err := cbor.Marshal(s)
	if err != nil || len(b) > MaxStateBytes || size(s) > MaxStateBytes {
		t.Errorf("%d bytes in memory, %d encoded, want at most %d; %v", size(s), len(b),
			MaxStateBytes, err)
	}
}

// TestSwitches: a disabled heuristic drops nothing.
func TestSwitches(t *testing.T) {
	t.Parallel()
	for _, trap := range traps() {
		g := guard(t, func(c *Config) {
			c.On = All.Without(trap.want).Without(Quota)
		})
		r := rand.New(rand.NewPCG(1, 2))
		s := new(State)
		for i := range 10_000 {
			g.Admit(s, store.URL("http://a.example"+trap.url(r, i)))
		}
		if n := s.drops[trap.want]; n > 0 {
			t.Errorf("%s: %d URLs dropped by %v, which is disabled", trap.name, n, trap.want)
		}
	}
}
