package search

import (
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
	one := []index.Source{1}
	for name, r := range map[string]reply{
		"of no word":   {Anchors: []anchor{{}}},
		"of two words": {Anchors: []anchor{{Sources: [][]index.Source{one, one}}}},
		"repeated":     {Anchors: []anchor{{Sources: [][]index.Source{{4, 4}}}}},
		"too many":     {Anchors: []anchor{{Sources: [][]index.Source{{1, 2, 3, 4, 5}}}}},
		"too many anchors": {
			Anchors: slices.Repeat([]anchor{{Sources: [][]index.Source{one}}}, 65)},
		"of a copy": {Copies: []copyReply{{Indexed: true, Pages: 5, With: []uint64{1},
			Anchors: []anchor{{Sources: [][]index.Source{{2, 1}}}}}}},
	} {
		r.Pages, r.With = 5, []uint64{1}
		if r.checkCounts(1) == nil {
			t.Errorf("%s: accepted", name)
		}
		k := rankRequest{Pages: 5, With: r.With, Limit: 1, Anchors: r.Anchors}
		if r.Anchors != nil && k.check(1) == nil {
			t.Errorf("%s: accepted in a request", name)
		}
	}
	good := reply{Pages: 5, With: []uint64{1},
		Anchors: []anchor{{Sources: [][]index.Source{{1, 9}}}}}
	if err := good.checkCounts(1); err != nil {
		t.Error(err)
	}
}

// What is known of sources beside their numbers is left out if nothing is, and is checked.
func TestLinkingMessages(t *testing.T) {
	plain := [][]index.Linker{{{Source: 3}, {Source: 4}}, {}}
	ranked := [][]index.Linker{{{Source: 3, Out: 2, Rank: 1.5}, {Source: 4}}, {}}
	for _, want := range [][][]index.Linker{plain, ranked} {
		var a reply
		a.setLinking(want)
		if known := want[0][0].Out > 0; known != (a.Ranked != nil) {
			t.Errorf("%+v: ranks are sent: %v, want %v", want, !known, known)
		}
		if got, err := a.linking(2); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	for name, spoil := range map[string]func(*reply){
		"fewer hosts":   func(a *reply) { a.Linking = a.Linking[:1] },
		"fewer ranked":  func(a *reply) { a.Ranked = a.Ranked[:1] },
		"fewer sources": func(a *reply) { a.Ranked[0] = a.Ranked[0][:1] },
		"out of order":  func(a *reply) { a.Linking[0][1] = 2 },
		"no number":     func(a *reply) { a.Ranked[0][0].Rank = float32(math.NaN()) },
		"negative":      func(a *reply) { a.Ranked[0][0].Rank = -1 },
		"too great":     func(a *reply) { a.Ranked[0][0].Rank = 2 * index.MaxRank },
	} {
		var a reply
		a.setLinking(ranked)
		spoil(&a)
		if _, err := a.linking(2); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v, want ErrAnswer", name, err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	for _, v := range []any{
		request{Query: "a b"}, request{Rank: &rankRequest{Pages: 5, With: []uint64{1, 2},
			Limit: 7, Anchors: []anchor{{Sources: [][]index.Source{{1, 2}, nil}}}, Verify: true}},
		request{Linking: []string{"a.example"}},
		reply{Linking: [][]index.Source{{3, 4}}},
		reply{Linking: [][]index.Source{{3, 4}}, Ranked: [][]rankedSource{{{Out: 2, Rank: 1}, {}}}},
		request{Shown: []int{0, 3}}, reply{Pages: 5, With: []uint64{1}},
		reply{Hits: []hit{{Score: 1, URL: "http://a.example/"}}, Total: 1},
		reply{Snippets: []snippet{{Text: "abc", Marks: []int{0, 1}}}},
		request{Rank: &rankRequest{Copies: []peer.ID{overlaytest.Peers(1, 1)[0].ID}}},
		reply{With: []uint64{1}, Pages: 1, Copies: []copyReply{{[]byte("x"), true, true, 5,
			[]uint64{4}, []anchor{{Sources: [][]index.Source{{7}}}}}}},
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
				(q.Rank.Limit > maxHits || len(q.Rank.With) != 2) {
				t.Fatalf("accepted %+v", q.Rank)
			} else if err == nil {
				for _, a := range q.Rank.Anchors {
					_, _ = a.Sources[0], a.Sources[1]
				}
			}
		}
		var a reply
		if wire.Unmarshal(raw, &a) != nil {
			return
		}
		if a.checkCounts(1) == nil {
			for _, c := range a.Copies {
				if c.Indexed && c.With[0] > c.Pages {
					t.Fatalf("accepted %+v", c)
				}
			}
		}
		if a.checkHits(5, 3, overlaytest.URLs(valid)) == nil {
			for _, h := range a.Hits {
				if !(h.Score >= 0 && h.Score < 3.1) || h.URL.Host() == "" {
					t.Fatalf("accepted %+v", h)
				}
			}
		}
		if all, err := a.linking(1); err == nil {
			if f := index.Factor(all[0]); !(f >= 1 && f <= 1.25) {
				t.Fatalf("a factor of %v by %+v", f, all[0])
			}
		}
		if a.checkSnippets(1) == nil && len(a.Snippets) > 0 {
			s := a.Snippets[0]
			for m := s.Marks; len(m) > 0; m = m[2:] {
				_ = s.Text[m[0]:m[1]]
			}
		}
	})
}
