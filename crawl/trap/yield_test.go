package trap

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"peerd/crawl/similar"
	"peerd/store"
)

// A model is a site without a network: the text and the links of each page.
type model func(path string) (text string, links []string)

// explore crawls a model breadth first, as a crawler with one Guard does, until limit pages
// at most were fetched. It returns the pages and the URLs dropped at the end, by reason.
func explore(g *Guard, m model, limit int) (pages map[string]bool, dropped map[Heuristic]int) {
	type entry struct {
		path   string
		source store.Source
	}
	url := func(path string) store.URL { return store.URL("http://a.example" + path) }
	s, texts := new(State), map[string]bool{}
	seen := map[string]bool{"/": true}
	queue, last := []entry{{path: "/"}}, []entry(nil)
	pages, dropped = map[string]bool{}, map[Heuristic]int{}
	for len(pages) < limit && len(queue)+len(last) > 0 {
		final := len(queue) == 0
		if final {
			queue, last = last[:1:1], last[1:]
		}
		e := queue[0]
		queue = queue[1:]
		if h := g.Exhausted(s, url(e.path), e.source); h != None {
			if final {
				dropped[h]++
			} else {
				last = append(last, e)
			}
			continue
		}
		pages[e.path] = true
		text, links := m(e.path)
		v := Visit{URL: url(e.path), Source: e.source, Text: TextNew}
		if texts[text] {
			v.Text = TextCopy
		}
		texts[text] = true
		from := NewLinker(v.URL, v.Text == TextCopy)
		for _, link := range links {
			v.Links = append(v.Links, url(link))
			if seen[link] {
				continue
			}
			seen[link] = true
			if h := g.Admit(s, url(link)); h != None {
				dropped[h]++
				continue
			}
			v.Queued = append(v.Queued, url(link))
			queue = append(queue, entry{link, from.Source(url(link))})
		}
		g.Observe(s, v)
	}
	return pages, dropped
}

// scan reads numbers from a path.
func scan(path, format string, n ...any) bool {
	got, err := fmt.Sscanf(path, format, n...)
	return err == nil && got == len(n)
}

// TestForum: a forum with tens of thousands of threads is crawled completely with the default
// limits, whether the path or the query names the threads, and although most are found on
// other threads first.
func TestForum(t *testing.T) {
	t.Parallel()
	const perPage = 30
	threads := 30_000
	if thorough {
		threads = 120_000
	}
	users := threads / 6
	number := func(path, format string, n *int) bool { // fmt.Sscanf takes too long
		before, after, _ := strings.Cut(format, "%d")
		path, ok := strings.CutPrefix(path, before)
		path, ok2 := strings.CutSuffix(path, after)
		var err error
		*n, err = strconv.Atoi(path)
		return ok && ok2 && err == nil
	}
	for _, format := range []string{"/thread/%d.html", "/showthread.php?f=3&t=%d"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			g := guard(t, nil)
			thread := func(n int) string { return fmt.Sprintf(format, (n+threads)%threads) }
			pages, dropped := explore(g, func(path string) (string, []string) {
				var n int
				switch {
				case path == "/":
					return path, []string{"/forum?page=0"}
				case number(path, "/forum?page=%d", &n):
					links := []string{fmt.Sprintf("/forum?page=%d", min(n+1, threads/perPage-1))}
					for i := range perPage {
						links = append(links, thread(n*perPage+i))
					}
					return path, links
				case number(path, format, &n):
					return path, []string{thread(n - 1), thread(n + 1), thread(n*7 + 3),
						thread(n*13 + 5), fmt.Sprintf("/user/%d", n%users)}
				}
				return path, nil
			}, 1<<30)
			want := 1 + threads/perPage + threads + users
			if len(pages) != want || len(dropped) > 0 {
				t.Errorf("%d pages, want %d; dropped %v", len(pages), want, dropped)
			}
		})
	}
}

// TestReference: a reference manual is crawled completely of which the lists are read first, and
// most numbered pages are found on the listed ones only.
func TestReference(t *testing.T) {
	t.Parallel()
	const listed, others = 300, 1_200
	page := func(n int) string { return fmt.Sprintf("/a%05d.html", n) }
	pages, dropped := explore(guard(t, nil), func(path string) (string, []string) {
		var n int
		switch {
		case path == "/":
			return path, []string{"/classes.html", "/files.html"}
		case path == "/classes.html" || path == "/files.html":
			var links []string
			for n := range listed {
				links = append(links, page(n))
			}
			return path, links
		case scan(path, "/a%d.html", &n) && n < listed:
			var links []string
			for i := range others / listed {
				links = append(links, page(listed+n*others/listed+i))
			}
			return path, links
		}
		return path, nil
	}, 1<<20)
	if want := 3 + listed + others; len(pages) != want || len(dropped) > 0 {
		t.Errorf("%d pages, want %d; dropped %v", len(pages), want, dropped)
	}
}

// TestModels: endless sites end after at most 1,000 pages, finite ones are complete.
func TestModels(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	token := func() string { return random(r, 32) }
	for name, c := range map[string]struct {
		m    model
		most int // pages
		all  bool
	}{
		"calendar": {func(path string) (string, []string) {
			var year, month, day int
			if scan(path, "/cal/%d/%d/%d", &year, &month, &day) {
				return "no events", []string{fmt.Sprintf("/cal/%d/%d", year, month)}
			}
			scan(path, "/cal/%d/%d", &year, &month)
			links := []string{fmt.Sprintf("/cal/%d/%d", year+month/11, (month+1)%12)}
			for d := range 28 {
				links = append(links, fmt.Sprintf("/cal/%d/%d/%d", year, month, d))
			}
			return "no events", links
		}, 1000, false},
		"random text": {func(path string) (string, []string) {
			return path, []string{"/x/" + token(), "/x/" + token() + "/" + token()}
		}, 1000, false},
		"one chain of threads": {func(path string) (string, []string) {
			var n int
			scan(path, "/next/%d", &n)
			return path, []string{fmt.Sprintf("/next/%d", n+1)}
		}, 1000, false},
		"copies in patterns of their own": {func(path string) (string, []string) {
			return "", []string{"/" + letters(r.IntN(1e9)) + "/" + token(),
				"/" + letters(r.IntN(1e9)) + "?" + letters(r.IntN(1e9)) + "=" + token()}
		}, 1000, false},
		"words": {func(path string) (string, []string) { // such as a wiki
			var links []string
			for range 5 {
				links = append(links, "/wiki/"+letters(r.IntN(20_000)),
					"/index.php?title="+letters(r.IntN(20_000))+"&lang=en")
			}
			return path, links
		}, 40_001, true},
		"lists without text": {func(path string) (string, []string) {
			var n int
			if scan(path, "/item/%d", &n) || scan(path, "/thing/%d", &n) {
				return path, nil
			}
			scan(path, "/list/%d", &n)
			return "", []string{fmt.Sprintf("/list/%d", (n+1)%2000), fmt.Sprintf("/item/%d", n),
				fmt.Sprintf("/thing/%d", n)}
		}, 6001, true},
		"leaves of one list": {func(path string) (string, []string) {
			if path != "/" {
				return "", nil
			}
			var links []string
			for i := range 5000 {
				links = append(links, fmt.Sprintf("/leaf/%d", i))
			}
			return path, links
		}, 5001, true},
	} {
		t.Run(name, func(t *testing.T) {
			pages, dropped := explore(guard(t, nil), c.m, 100_000)
			t.Logf("%d pages, dropped %v", len(pages), dropped)
			if len(pages) > c.most || len(pages) < 100 || c.all && len(pages) < c.most*99/100 ||
				c.all == (len(dropped) > 0) {
				t.Errorf("%d pages, want %d; dropped %v", len(pages), c.most, dropped)
			}
		})
	}
}

// TestCompare: near-copies of the last texts are found, also after the State was stored, and
// texts are compared more often while there are copies.
func TestCompare(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	s := new(State)
	text := func() similar.Simhash { return similar.Simhash(r.Uint64()) }
	visits := func() (n int) { // pages with a new link each until one is compared
		for ; !s.Due(); n++ {
			guard(t, nil).Observe(s, Visit{URL: "http://a.example/", Queued: []store.URL{"b"}})
		}
		return n
	}
	if n := visits(); n != maxInterval {
		t.Errorf("the first text is compared after %d pages", n)
	}
	first := text()
	if s.Compare(first) != TextNew || s.Compare(first^7) != TextCopy ||
		s.Compare(first^15) != TextNew {
		t.Error("not the results of Distance")
	}
	if n := visits(); n != 1 {
		t.Errorf("after a copy, the next text is compared after %d pages", n)
	}
	for range maxTexts - 2 {
		s.Compare(text())
	}
	again := new(State)
	if err := again.UnmarshalCBOR(encoded(t, s)); err != nil {
		t.Fatal(err)
	}
	s = again
	if s.Compare(first) != TextCopy {
		t.Error("a text was forgotten")
	}
	for range maxTexts {
		s.Compare(text())
	}
	if s.Compare(first) != TextNew {
		t.Error("more texts than the limit are remembered")
	}
	if n := visits(); n != maxInterval {
		t.Errorf("without copies, a text is compared after %d pages", n)
	}
}

// TestObserveIsStored: a State that was encoded and decoded rejects what the original does.
func TestObserveIsStored(t *testing.T) {
	t.Parallel()
	g := guard(t, func(c *Config) { c.MaxYield, c.MaxClosed = 20, 20 })
	const copied = store.URL("http://a.example/x/copy")
	s := new(State)
	url := func(i int) store.URL { return store.URL(fmt.Sprintf("http://a.example/%d", i)) }
	for i := range 50 {
		g.Observe(s, Visit{URL: url(i), Source: store.SourcePattern, Text: TextNew})
		g.Observe(s, Visit{URL: copied, Source: store.SourceCopy, Text: TextCopy})
		moved := new(State)
		if err := moved.UnmarshalCBOR(encoded(t, s)); err != nil {
			t.Fatal(err)
		}
		for source, u := range map[store.Source]store.URL{
			store.SourceCopy: copied, store.SourcePattern: url(0),
		} {
			if a, b := g.Exhausted(s, u, source), g.Exhausted(moved, u, source); a != b ||
				i < 15 && a != None || i > 25 && a == None {
				t.Fatalf("after %d pages: %v, decoded %v", i, a, b)
			}
		}
	}
	if h := g.Exhausted(s, url(0), 0); h != None {
		t.Errorf("a URL without a source is rejected: %v", h)
	}
}
