package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"go.uber.org/goleak"

	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *Index {
	t.Helper()
	x, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// apply adds pages in one batch.
func apply(t *testing.T, x *Index, docs ...Document) {
	t.Helper()
	if err := x.Apply(Batch{Pages: docs, Position: x.Position()}); err != nil {
		t.Fatal(err)
	}
}

var day = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// page returns a page with a text.
func page(url, title, text string) Document {
	return Document{URL: store.URL(url), Title: title, Text: title + "\n" + text, Type: "html",
		FetchedAt: day}
}

// find returns the result of a query in one index.
func find(t *testing.T, x *Index, query string, text Texter) Result {
	t.Helper()
	q, err := Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	counts, err := r.Count(q)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Search(t.Context(), q, counts, 20, text)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// urls returns the last path segments of the hits.
func urls(r Result) (names []string) {
	for _, h := range r.Hits {
		names = append(names, string(h.URL[strings.LastIndexByte(string(h.URL), '/')+1:]))
	}
	return names
}

func TestSearch(t *testing.T) {
	t.Parallel()
	x := open(t)
	docs := []Document{
		page("http://docs.example.org/vacuum", "Vacuuming tables",
			"The vacuum reclaims the space of rows that are dead in the tables of a database"),
		page("http://www.example.org/index", "Indexes",
			"An index is used to find rows of the tables, and it is as large as it has rows"),
		page("http://example.net/haus", "Das Haus",
			"Der Hund und die Katze sind nicht in den Häusern, und das ist auch gut so"),
		page("http://example.net/jp", "東京", "東京都は日本の首都であり、世界最大級の都市である。"),
		page(
			"http://example.net/long",
			"Many words",
			strings.Repeat("the table of contents is ", 90),
		),
	}
	docs[1].FetchedAt = day.AddDate(0, 1, 0)
	docs[4].Type = "text"
	apply(t, x, docs...)
	texts := func(m Meta) (string, error) {
		for _, d := range docs {
			if d.URL == m.URL {
				return d.Text, nil
			}
		}
		return "", errors.New("no such page")
	}
	for query, want := range map[string]string{
		"vacuum":                          "vacuum",
		"VACUUMED table":                  "vacuum", // stems, and in the title
		"tables":                          "vacuum long index",
		"tables -vacuum":                  "long index",
		"tables site:example.org":         "vacuum index",
		"tables site:www.example.org":     "index",
		"tables site:ample.org":           "",
		"tables filetype:txt":             "long",
		"tables date:2026-04":             "index",
		"tables date:..2026-03-14":        "vacuum long",
		"date:2026-03-15..":               "index",
		"haus":                            "haus",
		"häuser lang:de":                  "haus",
		"lang:ja":                         "jp",
		"首都":                              "jp",
		"日本の首都":                           "jp",
		"都首":                              "",
		`"rows of the tables"`:            "index",
		`"tables of a database" vacuum`:   "vacuum",
		`"tables of rows"`:                "",
		`"日本の首都"`:                         "jp",
		"nothing":                         "",
		"the":                             "index vacuum long",
		"site:example.net lang:en -hound": "long",
	} {
		got := find(t, x, query, texts)
		if s := strings.Join(urls(got), " "); s != want && !sameUpTo(query, s, want) {
			t.Errorf("%s: found %q, want %q", query, s, want)
		}
		if n := len(strings.Fields(want)); got.Total != n && len(got.Hits) != 0 {
			t.Errorf("%s: total %d, want %d", query, got.Total, n)
		}
	}
	changed := page("http://docs.example.org/vacuum", "Cleaning", "nothing else to see for it")
	if err := x.Apply(Batch{Pages: []Document{changed},
		Removed: []store.URL{docs[4].URL}, Position: Position{"f": 7}}); err != nil {
		t.Fatal(err)
	}
	if got := urls(find(t, x, "tables", nil)); !slices.Equal(got, []string{"index"}) {
		t.Errorf("after an update and a removal: found %v", got)
	}
	if got := find(t, x, "cleaning", nil); len(got.Hits) != 1 || got.Hits[0].Title != "Cleaning" {
		t.Errorf("after an update: found %+v", got)
	}
}

// sameUpTo reports whether the order of the results of a query does not matter.
func sameUpTo(query, got, want string) bool {
	if query != "the" && !strings.HasPrefix(query, "tables") {
		return false
	}
	a, b := strings.Fields(got), strings.Fields(want)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// randomDocs returns pages over a small vocabulary, so that words and scores repeat.
func randomDocs(rng *rand.Rand, n int) (docs []Document) {
	vocabulary := strings.Fields("apple pear plum fig grape melon cherry quince lemon lime date")
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(vocabulary[min(rng.IntN(11), rng.IntN(11))])
			b.WriteByte(' ')
		}
		return b.String()
	}
	for i := range n {
		d := page(fmt.Sprintf("http://h%d.example/%d", i%5, i), text(1+rng.IntN(3)),
			text(1+rng.IntN(40)))
		d.Headings = text(rng.IntN(4))
		d.Text += d.Headings
		docs = append(docs, d)
	}
	return docs
}

// Several indexes, with updates in batches of any size, rank exactly as one.
func TestSeveralIndexesRankAsOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 1))
		docs := randomDocs(rng, 300)
		central, parts := open(t), []*Index{open(t), open(t), open(t)}
		apply(t, central, docs...)
		for _, d := range docs {
			if rng.IntN(4) == 0 { // an earlier version of the page, at the same peer
				old := d
				old.Text = "apple melon"
				apply(t, parts[len(d.Text)%3], old)
			}
		}
		for rest := docs; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(60))
			var batches [3][]Document
			for _, d := range rest[:n] {
				batches[len(d.Text)%3] = append(batches[len(d.Text)%3], d)
			}
			for i, b := range batches {
				apply(t, parts[i], b...)
			}
			rest = rest[n:]
		}
		for _, query := range []string{"apple", "pear lime", "fig -lemon",
			"date grape site:example", "quince site:h3.example", "apple pear plum fig",
			"site:h1.example"} {
			want := find(t, central, query, nil)
			got := findInAll(t, parts, query)
			if len(got) != len(want.Hits) {
				t.Fatalf("seed %d, %s: %d hits, want %d", seed, query, len(got), len(want.Hits))
			}
			for i, h := range got {
				if w := want.Hits[i]; h.URL != w.URL || h.Score != w.Score {
					t.Fatalf("seed %d, %s: hit %d is %s (%v), want %s (%v)", seed, query, i,
						h.URL, h.Score, w.URL, w.Score)
				}
			}
		}
	}
}

// findInAll searches several indexes in two steps.
func findInAll(t *testing.T, all []*Index, query string) (hits []Hit) {
	t.Helper()
	q, err := Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	var sum Counts
	var readers []*Reader
	for _, x := range all {
		r, err := x.Reader()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		c, err := r.Count(q)
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(c)
		readers = append(readers, r)
	}
	for _, r := range readers {
		res, err := r.Search(t.Context(), q, sum, 20, nil)
		if err != nil {
			t.Fatal(err)
		}
		hits = append(hits, res.Hits...)
	}
	slices.SortFunc(hits, Compare)
	return hits[:min(len(hits), 20)]
}

// A search that is cancelled returns what it has.
// Words of short pages are found after segments have been merged.
func TestShortPagesMerged(t *testing.T) {
	t.Parallel()
	x := open(t)
	words := []string{"pears", "apples", "plums", "cherries", "figs", "grapes"}
	for i, w := range words {
		apply(t, x, page(fmt.Sprint("http://a.example/", i), "", w))
	}
	merger, ok := x.scorch.(*scorch.Scorch)
	if !ok {
		t.Fatalf("the index is a %T", x.scorch)
	}
	if err := merger.ForceMerge(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for i, w := range words {
		want := store.URL(fmt.Sprint("http://a.example/", i))
		if got := find(t, x, w, nil); len(got.Hits) != 1 || got.Hits[0].URL != want {
			t.Errorf("%s: found %+v, want %s", w, got.Hits, want)
		}
	}
}

func TestSearchEnds(t *testing.T) {
	t.Parallel()
	x := open(t)
	apply(t, x, page("http://a.example/", "One", "word"))
	q, _ := Parse("word")
	r, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err := r.Search(ctx, q, Counts{Pages: 1, With: []uint64{1}}, 10, nil)
	if err != nil || !res.Partial {
		t.Errorf("Search() = %+v, %v, want a partial result", res, err)
	}
}

// The index and its position survive a restart, and another version is built again.
func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Apply(Batch{Pages: []Document{page("http://a.example/", "One", "word")},
		Position: Position{"file": 12}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.Apply(Batch{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Apply after Close: %v, want ErrClosed", err)
	}
	if x, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	if at := x.Position(); at["file"] != 12 || len(urls(find(t, x, "word", nil))) != 1 {
		t.Errorf("after a restart the position is %v", at)
	}
	if err := x.scorch.SetInternal(keyFormat, []byte{99}); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if x, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if at := x.Position(); len(at) != 0 || len(urls(find(t, x, "word", nil))) != 0 {
		t.Errorf("an index of another version is used, at %v", at)
	}
}

func TestSnippet(t *testing.T) {
	t.Parallel()
	x := open(t)
	text := strings.Repeat("menu of the site and its parts. ", 40) +
		"The vacuumed tables of this\ndatabase are smaller. " + strings.Repeat("It is so. ", 50)
	d := page("http://a.example/", "Vacuum", text)
	apply(t, x, d)
	m := find(t, x, "vacuum table", nil).Hits[0].Meta
	r, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	q, _ := Parse("vacuum table smaller")
	s := r.Snippet(q, m, d.Text)
	var marked []string
	for _, at := range s.Marks {
		marked = append(marked, s.Text[at[0]:at[1]])
	}
	if got := strings.Join(marked, " "); got != "vacuumed tables smaller" {
		t.Errorf("marked %q in %q", got, s.Text)
	}
	if len(s.Text) > snippetBytes || strings.Contains(s.Text, "\n") {
		t.Errorf("snippet %q", s.Text)
	}
}

// The marks of neighbouring pairs of characters are one.
func TestSnippetOfPairs(t *testing.T) {
	t.Parallel()
	x := open(t)
	d := page("http://a.example/", "T", "你没想过需要了解 word")
	apply(t, x, d)
	r, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	q, _ := Parse("需要了解")
	if s := r.Snippet(q, Meta{}, d.Text); len(s.Marks) != 1 ||
		s.Text[s.Marks[0][0]:s.Marks[0][1]] != "需要了解" {
		t.Errorf("marks %v in %q", s.Marks, s.Text)
	}
}

// A page is not found after the day of the time from which on it asks not to be.
func TestUnavailableAfter(t *testing.T) {
	t.Parallel()
	x := open(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	var docs []Document
	for name, until := range map[string]time.Time{
		"always": {}, "later": today.AddDate(0, 0, 9), "today": today,
		"past": today.AddDate(-1, 0, 0),
	} {
		d := page("http://a.example/"+name, "Title", "word")
		d.UnavailableAfter = until
		docs = append(docs, d)
	}
	apply(t, x, docs...)
	for _, query := range []string{"word", "site:a.example", "title -past"} {
		res := find(t, x, query, nil)
		got := slices.Sorted(slices.Values(urls(res)))
		if !slices.Equal(got, []string{"always", "later"}) || res.Total != 2 {
			t.Errorf("%s: found %v of %d, want always and later", query, got, res.Total)
		}
	}
}
