package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/store"
	"peerd/store/index"
)

// countedSteps is another peer, and counts what it is asked.
type countedSteps struct {
	participant
	ranks, others int
}

func (c *countedSteps) rank(ctx context.Context, q ranking) (ranked, error) {
	c.ranks++
	return c.participant.rank(ctx, q)
}

func (c *countedSteps) linking(ctx context.Context, hosts []string) ([][]index.Linker, error) {
	c.others++
	return c.participant.linking(ctx, hosts)
}

func (c *countedSteps) snippets(ctx context.Context, shown []int) ([]index.Snippet, error) {
	c.others++
	return c.participant.snippets(ctx, shown)
}

const phraseQuery = `"rare phrase"`

// findPhrase returns the first pages of some peers with the phrase, and how the peers were asked.
func findPhrase(t *testing.T, limit int, peers ...[]index.Document) (Result, []*countedSteps) {
	t.Helper()
	q, err := index.Parse(phraseQuery)
	if err != nil {
		t.Fatal(err)
	}
	var all []*member
	var counted []*countedSteps
	for i, docs := range peers {
		m := local(t, docs).member(peer.ID(fmt.Sprint(i)), q, overlaytest.URLs(valid))
		c := &countedSteps{participant: m.part}
		m.info.ID, m.part = m.id, c
		all, counted = append(all, m), append(counted, c)
	}
	r, err := (&run{all: all, timeout: time.Minute, phrases: true, known: &factors{}}).
		search(t.Context(), 0, limit)
	if err != nil {
		t.Fatal(err)
	}
	return r, counted
}

// longPages returns n pages of a site with some random words and a text.
func longPages(site, n, words int, text string) (all []index.Document) {
	rng := rand.New(rand.NewPCG(uint64(site), uint64(words)))
	for i := range n {
		var b strings.Builder
		for range words {
			fmt.Fprintf(&b, "w%d ", rng.IntN(1e6))
		}
		all = append(all, index.Document{URL: store.URL(fmt.Sprintf("http://h%d.example/%d-%d",
			site, words, i)), Type: "html", FetchedAt: day, Text: b.String() + text})
	}
	return all
}

// without seems to have the phrase, by the words and often by its pairs of words.
const without, with = "rare x phrase y phrase", "rare phrase"

// In these tests time stands still, so that no peer stops early on a busy machine.

// Pages with a phrase that a peer did not return at first, because too many before them lack it,
// come before those of other peers with a lower score.
func TestPhraseBehindOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := append(longPages(1, 600, 50, without), longPages(1, 5, 1000, with)...)
		second := longPages(2, 12, 3000, with)
		got, _ := findPhrase(t, 10, first, second)
		want, err := local(t, append(first, second...)).Search(t.Context(), phraseQuery, 0, 10)
		if err != nil || len(want.Hits) != 10 || want.Hits[4].URL.Host() != "h1.example" {
			t.Fatalf("one index finds %+v, %v", want, err)
		}
		compare(t, phraseQuery, got.Hits, want.Hits)
	})
}

// Pages with a phrase are found although all peers together return more pages before them, which
// seem to have it, than are looked at, and no peer alone does.
func TestPhraseBehindThoseOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := append(longPages(1, 55, 20, strings.Repeat(with+" ", 4)),
			longPages(1, 250, 50, without)...)
		second := longPages(2, 60, 1500, with)
		got, _ := findPhrase(t, MaxResults, first, second)
		want, err := local(t, append(first, second...)).Search(t.Context(), phraseQuery, 0,
			MaxResults)
		if err != nil || len(want.Hits) != MaxResults {
			t.Fatalf("one index finds %d pages, %v", len(want.Hits), err)
		}
		compare(t, phraseQuery, got.Hits, want.Hits)
	})
}

// A search for a phrase takes two steps at other peers, although pages that seem to have the phrase
// and lack it come before those that have it.
func TestStepsOfPhrase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var peers [8][]index.Document
		for i := range peers {
			peers[i] = append(longPages(i, 100, 50, without), longPages(i, 2, 2000, with)...)
		}
		r, counted := findPhrase(t, 10, peers[:]...)
		if len(r.Hits) != 10 || r.Partial {
			t.Errorf("found %+v", r)
		}
		for i, c := range counted {
			if c.ranks != 1 || c.others != 0 {
				t.Errorf("peer %d ranked %d times and was asked %d times more", i, c.ranks,
					c.others)
			}
		}
	})
}

// Peers answer a search for as many pages with a phrase as can be asked for, of which they have
// none.
func TestManyPagesWithPhrase(t *testing.T) {
	t.Parallel()
	h, _ := serve(t, local(t, pages(1, 20)))
	r := search(t, asking(t, local(t, pages(2, 20)), h), `"apple absent"`, 0, MaxResults)
	if r.Answered != 2 || r.Failed > 0 || len(r.Hits) > 0 {
		t.Errorf("%+v", r)
	}
}
