package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/index"
)

func pageURL(i int) store.URL { return store.URL(fmt.Sprintf("http://a.example/%d", i)) }

// hits draws the result of one index.
func hits(t *rapid.T, canonical map[store.URL]store.URL) (r index.Result) {
	for range rapid.IntRange(0, 6).Draw(t, "n") {
		var h index.Hit
		h.URL = pageURL(rapid.IntRange(0, 9).Draw(t, "url"))
		h.Score = float64(rapid.IntRange(0, 3).Draw(t, "score"))
		h.Digest[0] = byte(rapid.IntRange(0, 12).Draw(t, "text"))
		h.FetchedAt = time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "time")), 0)
		h.Canonical = canonical[h.URL]
		r.Hits = append(r.Hits, h)
	}
	slices.SortFunc(r.Hits, index.Compare)
	return r
}

func TestMerge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		canonical := map[store.URL]store.URL{}
		for i := range 10 {
			if n := rapid.IntRange(0, 20).Draw(t, "canonical"); n < 10 && n != i {
				canonical[pageURL(i)] = pageURL(n)
			}
		}
		results := []index.Result{hits(t, canonical), hits(t, canonical), hits(t, canonical)}
		got := merge(sorted(results))
		known := map[store.URL]time.Time{}
		for _, r := range results {
			for _, h := range r.Hits {
				if at, ok := known[h.URL]; !ok || at.Before(h.FetchedAt) {
					known[h.URL] = h.FetchedAt
				}
			}
		}
		seen, texts := map[store.URL]bool{}, map[index.Digest]bool{}
		for i, f := range got {
			if i > 0 && index.Compare(got[i-1].Hit, f.Hit) > 0 {
				t.Fatalf("hit %d is better than the one before", i)
			}
			if h := results[f.from].Hits[f.place]; h != f.Hit {
				t.Fatalf("hit %d is %+v, and not %+v of result %d", i, f.Hit, h, f.from)
			}
			if seen[f.URL] || texts[f.Digest] {
				t.Fatalf("hit %d, %+v, is a copy", i, f)
			}
			if !f.FetchedAt.Equal(known[f.URL]) {
				t.Fatalf("hit %d, %+v, is not the latest version", i, f)
			}
			if _, ok := known[f.Canonical]; ok {
				t.Fatalf("hit %d, %+v, names another that was found", i, f)
			}
			seen[f.URL], texts[f.Digest] = true, true
		}
		copied := map[store.URL]bool{} // a version has the text of a hit
		for _, r := range results {
			for _, h := range r.Hits {
				copied[h.URL] = copied[h.URL] || texts[h.Digest]
			}
		}
		for _, r := range results { // nothing is lost without a reason
			for _, h := range r.Hits {
				if !seen[h.URL] && h.Canonical == "" && !copied[h.URL] {
					t.Fatalf("%+v is missing", h)
				}
			}
		}
		slices.Reverse(results)
		again := merge(sorted(results))
		if !slices.EqualFunc(got, again, func(a, b found) bool { return a.URL == b.URL }) {
			t.Fatalf("the order of the results matters:\n%+v\n%+v", got, again)
		}
	})
}

// No more sources of links are accepted than one index may have.
func TestCheckSources(t *testing.T) {
	t.Parallel()
	one := []index.Source{1}
	anchor := func(sources ...[]index.Source) []index.Anchor {
		return []index.Anchor{{Sources: sources}}
	}
	with := func(all []index.Anchor) index.Counts {
		return index.Counts{Pages: 5, With: []uint64{1}, Anchors: all}
	}
	for name, all := range map[string][]index.Anchor{
		"of no word":       anchor(),
		"of two words":     anchor(one, one),
		"repeated":         anchor([]index.Source{4, 4}),
		"too many":         anchor([]index.Source{1, 2, 3, 4, 5}),
		"too many anchors": slices.Repeat(anchor(one), 65),
	} {
		if c := (counts{Counts: with(all)}); c.check(1) == nil {
			t.Errorf("%s: accepted", name)
		}
		c := counts{Counts: with(nil), Copies: []copyCounts{{Counts: with(all), Indexed: true}}}
		if c.check(1) == nil {
			t.Errorf("%s of a copy: accepted", name)
		}
		if k := (ranking{Sum: with(all), Limit: 1}); k.check(1) == nil {
			t.Errorf("%s: accepted in a request", name)
		}
	}
	if good := (counts{Counts: with(anchor([]index.Source{1, 9}))}); good.check(1) != nil {
		t.Error(good.check(1))
	}
}

// What is said of sources is sent as it is, and checked.
func TestLinkingMessages(t *testing.T) {
	t.Parallel()
	want := func() [][]index.Linker {
		return [][]index.Linker{{{Source: 3, Out: 2, Rank: 1.5}, {Source: 4}}, {}}
	}
	raw, err := wire.Marshal(ranked{Linking: want()})
	var got ranked
	if err == nil {
		err = wire.Unmarshal(raw, &got)
	}
	if err == nil {
		err = checkLinking(got.Linking, 2)
	}
	if err != nil || !reflect.DeepEqual(got.Linking, want()) {
		t.Errorf("got %+v, %v, want %+v", got, err, want())
	}
	for name, spoil := range map[string]func(*[][]index.Linker){
		"fewer hosts":  func(a *[][]index.Linker) { *a = (*a)[:1] },
		"out of order": func(a *[][]index.Linker) { (*a)[0][1].Source = 2 },
		"too many": func(a *[][]index.Linker) {
			for n := range index.Source(index.MaxLinking + 1) {
				(*a)[1] = append((*a)[1], index.Linker{Source: n})
			}
		},
		"no number": func(a *[][]index.Linker) { (*a)[0][0].Rank = float32(math.NaN()) },
		"negative":  func(a *[][]index.Linker) { (*a)[0][0].Rank = -1 },
		"too great": func(a *[][]index.Linker) { (*a)[0][0].Rank = 2 * index.MaxRank },
	} {
		all := want()
		spoil(&all)
		if err := checkLinking(all, 2); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v, want ErrAnswer", name, err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	sum := index.Counts{Pages: 5, With: []uint64{1, 2},
		Anchors: []index.Anchor{{Sources: [][]index.Source{{1, 2}, nil}}}}
	for _, v := range []any{
		request{Query: "a b"}, request{Rank: &ranking{Sum: sum, Limit: 7, Verify: true}},
		request{Linking: []string{"a.example"}}, request{Shown: []int{0, 3}},
		request{Rank: &ranking{Owners: []peer.ID{overlaytest.Peers(1, 1)[0].ID}}},
		reply{Ranked: ranked{Linking: [][]index.Linker{{{Source: 3, Out: 2, Rank: 1}, {}}}}},
		answerOf(5, 1), hitsOf(1, index.Hit{Score: 1, Meta: index.Meta{URL: "http://a.example/"}}),
		reply{Ranked: ranked{Snippets: []index.Snippet{{Text: "abc", Marks: [][2]int{{0, 1}}}}}},
		reply{Counts: counts{Counts: index.Counts{Pages: 1, With: []uint64{1}},
			Copies: []copyCounts{{Counts: sum, Naming: []byte("x"), Indexed: true}}}},
	} {
		raw, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var q request
		if wire.Unmarshal(raw, &q) == nil {
			if err := q.Rank.check(2); err == nil &&
				(q.Rank.Limit > maxHits || len(q.Rank.Sum.With) != 2) {
				t.Fatalf("accepted %+v", q.Rank)
			} else if err == nil {
				for _, a := range q.Rank.Sum.Anchors {
					_, _ = a.Sources[0], a.Sources[1]
				}
			}
		}
		var a reply
		if wire.Unmarshal(raw, &a) != nil {
			return
		}
		if a.Counts.check(1) == nil {
			for _, c := range a.Counts.Copies {
				if c.Indexed && c.With[0] > c.Pages {
					t.Fatalf("accepted %+v", c)
				}
			}
		}
		if a.Ranked.checkHits(5, 3, overlaytest.URLs(valid)) == nil {
			for _, h := range a.Ranked.Hits {
				if !(h.Score >= 0 && h.Score < 3.1) || h.URL.Host() == "" {
					t.Fatalf("accepted %+v", h)
				}
			}
		}
		if all := a.Ranked.Linking; checkLinking(all, 1) == nil {
			if f := index.Factor(all[0]); !(f >= 1 && f <= 1.25) {
				t.Fatalf("a factor of %v by %+v", f, all[0])
			}
		}
		if s := a.Ranked.Snippets; checkSnippets(s, 1) == nil && len(s) > 0 {
			for _, m := range s[0].Marks {
				_ = s[0].Text[m[0]:m[1]]
			}
		}
	})
}

// A page of a year that JSON cannot have would make all of a search fail. A peer can send one:
// times are also read as numbers.
func TestCheckYear(t *testing.T) {
	t.Parallel()
	raw, err := wire.Marshal(map[string]int64{"at": 1 << 39})
	var got struct {
		At time.Time `cbor:"at"`
	}
	if err := errors.Join(err, wire.Unmarshal(raw, &got)); err != nil {
		t.Fatal(err)
	}
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, at := range []time.Time{{}, time.Unix(0, 0), last, last.Add(time.Second), got.At} {
		err := checkMeta(&index.Meta{URL: "http://a.example/", FetchedAt: at},
			overlaytest.URLs(valid))
		_, refused := json.Marshal(at.UTC())
		if want := at.IsZero() || refused != nil; (err != nil) != want {
			t.Errorf("%v: %v, JSON: %v", at, err, refused)
		}
	}
}
