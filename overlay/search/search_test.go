package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/index"
)

const protocolID = "/peerd/test/search/1.0.0"

// texts are the texts of pages.
type texts map[store.URL]string

func (t texts) text(m index.Meta) (string, error) {
	if text, ok := t[m.URL]; ok {
		return text, nil
	}
	return "", errors.New("no such page")
}

// local returns an index of pages.
func local(t *testing.T, docs []index.Document) *Local {
	t.Helper()
	x, err := index.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	if err := x.Apply(index.Batch{Pages: docs}); err != nil {
		t.Fatal(err)
	}
	all := texts{}
	for _, d := range docs {
		all[d.URL] = d.Text
	}
	return &Local{Index: x, Text: all.text}
}

func valid(u store.URL) error {
	if u.Host() == "" {
		return fmt.Errorf("url %q", u)
	}
	return nil
}

// serve starts a peer with an index, or without one.
func serve(t *testing.T, l *Local) (host.Host, *Service) {
	t.Helper()
	return serveOn(t, overlaytest.Host(t), l)
}

func serveOn(t *testing.T, h host.Host, l *Local) (host.Host, *Service) {
	t.Helper()
	s := &Service{Host: h, Protocol: protocolID, Local: l, URLs: overlaytest.URLs(valid),
		Timeout: 20 * time.Second,
		Peers:   overlaytest.PeersFunc(func() []peer.AddrInfo { return nil }),
		Logger:  overlaytest.Log(t)}
	server := s.Serve()
	t.Cleanup(server.Close)
	return h, s
}

// asking returns the service of a peer that asks others.
func asking(t *testing.T, l *Local, others ...host.Host) *Service {
	t.Helper()
	_, s := serve(t, l)
	s.Peers = overlaytest.PeersFunc(func() (all []peer.AddrInfo) {
		for _, h := range others {
			all = append(all, peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()})
		}
		return all
	})
	return s
}

var day = time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)

// pages returns n pages of random words.
func pages(seed uint64, n int) (docs []index.Document) {
	rng := rand.New(rand.NewPCG(seed, 1))
	vocabulary := strings.Fields("apple pear plum fig grape melon cherry quince lemon lime date")
	for i := range n {
		var b strings.Builder
		for range 3 + rng.IntN(40) {
			b.WriteString(vocabulary[min(rng.IntN(11), rng.IntN(11))] + " ")
		}
		fmt.Fprintf(&b, "number%d", i)
		docs = append(docs, index.Document{URL: urlOf(i), Title: "Page", Text: b.String(),
			Type: "html", FetchedAt: day, Addr: netip.AddrFrom4([4]byte{192, 0, byte(i % 7), 1}),
			Links: []index.Link{
				{URL: urlOf(i + 1), Text: "about " + vocabulary[i%11]},
				{URL: urlOf(i * i % n), Text: "called squares"},
			}[:1+i%2]})
		if i%7 == 6 { // not all hosts have the same number of links
			docs[i].Links = nil
		}
	}
	return docs
}

func urlOf(i int) store.URL { return store.URL(fmt.Sprintf("http://h%d.example/%d", i%7, i)) }

func search(t *testing.T, s *Service, query string, offset, limit int) Result {
	t.Helper()
	r, err := s.Search(t.Context(), query, offset, limit)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Five peers, of which one has no index, find what one index of all pages finds, in its order.
func TestSearchEqualsOneIndex(t *testing.T) {
	t.Parallel()
	docs := pages(1, 200)
	var parts [4][]index.Document
	for i, d := range docs {
		parts[i*i%4] = append(parts[i*i%4], d)
	}
	var others []host.Host
	for _, p := range parts[1:] {
		h, _ := serve(t, local(t, p))
		others = append(others, h)
	}
	without, _ := serve(t, nil)
	s := asking(t, local(t, parts[0]), append(others, without)...)
	central := local(t, docs)
	for _, query := range []string{"apple", "lemon date", "quince site:h3.example",
		`"apple pear"`, "number17", "about", "called fig", "squares -plum"} {
		for _, at := range []struct{ offset, limit int }{{0, 10}, {10, 7}} {
			got := search(t, s, query, at.offset, at.limit)
			want, err := central.Search(t.Context(), query, at.offset, at.limit)
			if err != nil {
				t.Fatal(err)
			}
			if got.Answered != 4 || got.NoIndex != 1 || got.Failed != 0 || got.Partial {
				t.Errorf("%s: %+v", query, got)
			}
			compare(t, query, got.Hits, want.Hits)
			if !strings.Contains(query, `"`) && got.Total != want.Total {
				t.Errorf("%s: total %d, want %d", query, got.Total, want.Total)
			}
		}
	}
}

// compare checks that two lists have the same pages and snippets.
func compare(t *testing.T, query string, got, want []Hit) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d hits, want %d", query, len(got), len(want))
		return
	}
	for i, h := range got {
		w := want[i]
		if h.URL != w.URL || h.Score != w.Score || h.Snippet.Text != w.Snippet.Text ||
			!slices.Equal(h.Snippet.Marks, w.Snippet.Marks) || !h.FetchedAt.Equal(w.FetchedAt) {
			t.Errorf("%s: hit %d is %+v, want %+v", query, i, h, w)
		}
	}
}

// answerOf is the answer of a peer with some pages to the first request.
func answerOf(pages uint64, with ...uint64) reply {
	return reply{Counts: counts{Counts: index.Counts{Pages: pages, With: with}}}
}

// hitsOf is an answer with hits.
func hitsOf(total int, all ...index.Hit) reply {
	return reply{Ranked: ranked{Result: index.Result{Hits: all, Total: total}}}
}

// Peers that are gone, silent or lie are left out, and counted; one without a fault is not.
func TestFaultyPeers(t *testing.T) {
	t.Parallel()
	good, _ := serve(t, local(t, pages(1, 20)))
	gone := overlaytest.Host(t)
	goneInfo := peer.AddrInfo{ID: gone.ID(), Addrs: gone.Addrs()}
	gone.Close()
	big := uint64(1) << 50
	h := index.Hit{Score: .1, Meta: index.Meta{URL: "http://a.example/", FetchedAt: day}}
	one := answerOf(5, 1)
	hits := func(total int, all ...index.Hit) []reply {
		return []reply{one, hitsOf(total, all...)}
	}
	scored := func(h index.Hit, score float64) index.Hit { h.Score = score; return h }
	spoiled := func(fn func(*index.Hit)) []reply {
		spoiled := h
		fn(&spoiled)
		return hits(1, spoiled)
	}
	const none = "no fault"
	for name, answers := range map[string][]reply{
		none: {one, hitsOf(1, h), {}, {Ranked: ranked{
			Snippets: []index.Snippet{{Text: "abc"}}}}},
		"silent":           {},
		"too many pages":   {answerOf(big, 1)},
		"too few counts":   {answerOf(5)},
		"too many counts":  {answerOf(5, 1, 2)},
		"count of no page": {answerOf(5, 6)},
		"silent later":     {one},
		"score too high":   hits(1, scored(h, 1e6)),
		"negative score":   hits(1, scored(h, -1)),
		"invalid URL":      spoiled(func(h *index.Hit) { h.URL = "x" }),
		"wrong order":      hits(2, scored(h, .05), h),
		"total too low":    hits(0, h),
		"long title": spoiled(func(h *index.Hit) {
			h.Title = strings.Repeat("x", 5000)
		}),
		"too many hits":     hits(100, slices.Repeat([]index.Hit{h}, 100)...),
		"invalid canonical": spoiled(func(h *index.Hit) { h.Canonical = "x" }),
		"no snippet":        {one, hitsOf(1, h), {}, {}},
		"mark outside": {one, hitsOf(1, h), {}, {Ranked: ranked{
			Snippets: []index.Snippet{{Text: "abc", Marks: [][2]int{{1, 9}}}}}}},
		"refused": {{Refused: strings.Repeat("no", 9999)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar := overlaytest.Host(t)
			server := wire.Serve(liar, protocolID, wire.Limits{MaxMsg: maxRequest,
				Timeout: 20 * time.Second}, nil, func(ctx context.Context, c *wire.Conn) error {
				for _, a := range answers {
					var r request
					if err := c.Recv(&r); err != nil {
						return err
					}
					hosts := r.Linking
					if r.Rank != nil {
						hosts = r.Rank.Hosts
					}
					a.Ranked.Linking = make([][]index.Linker, len(hosts))
					if err := c.Send(a); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return nil
			})
			defer server.Close()
			s := asking(t, nil, good, liar)
			s.Timeout = time.Second
			others := s.Peers.Infos()
			s.Peers = overlaytest.PeersFunc(func() []peer.AddrInfo {
				return append(others, goneInfo)
			})
			r, err := s.Search(t.Context(), "apple", 0, 50)
			if err != nil {
				t.Fatal(err)
			}
			if (r.Failed < 2) != (name == none) || r.NoIndex != 1 {
				t.Errorf("%d peers failed, %d without index", r.Failed, r.NoIndex)
			}
			found := slices.ContainsFunc(r.Hits, func(f Hit) bool { return f.Peer == liar.ID() })
			if found != (len(answers) > 2) {
				t.Errorf("found a page of the peer: %v", found)
			}
		})
	}
}

// Requests that are invalid or out of order are refused, and so are too many.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	h, s := serve(t, local(t, pages(1, 20)))
	client := overlaytest.Host(t)
	overlaytest.Introduce(h, client)
	ask := func(requests ...request) (a reply) {
		c, err := wire.Dial(t.Context(), client, h.ID(),
			wire.Limits{MaxMsg: maxReply, Timeout: 20 * time.Second}, protocolID)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Reset()
		for _, r := range requests {
			a = reply{}
			if err := errors.Join(c.Send(r), c.Recv(&a)); err != nil {
				t.Fatalf("%+v: %v", r, err)
			}
		}
		return a
	}
	rank := &ranking{Sum: index.Counts{Pages: 20, With: []uint64{3}}, Limit: 5}
	many := *rank
	many.Limit = 1e9
	for name, requests := range map[string][]request{
		"no query":    {{}},
		"bad query":   {{Query: "date:x"}},
		"long query":  {{Query: strings.Repeat("x", 2000)}},
		"no counts":   {{Query: "apple"}, {Query: "apple"}},
		"few counts":  {{Query: "apple pear"}, {Rank: rank}},
		"many hits":   {{Query: "apple"}, {Rank: &many}},
		"no such hit": {{Query: "apple"}, {Rank: rank}, {Shown: []int{-1}}},
		"many shown":  {{Query: "apple"}, {Rank: rank}, {Shown: make([]int, 1000)}},
	} {
		if a := ask(requests...); a.Refused == "" {
			t.Errorf("%s: got %+v, want a refusal", name, a)
		}
	}
	if a := ask(request{Query: "apple"}); a.Refused != "" {
		t.Errorf("a search was refused: %s", a.Refused)
	}
	now := time.Now().Add(time.Hour) // so that nothing becomes free meanwhile
	for s.limiter.Allow(requestRate, client.ID(), now) {
	}
	if a := ask(request{Query: "apple"}); a.Refused != errBusy.Error() {
		t.Errorf("too many searches: got %+v, want a refusal", a)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	_, s := serve(t, local(t, nil))
	for _, at := range [][2]int{{-1, 5}, {0, 0}, {0, 101}, {100, 1}, {1 << 62, 1 << 62}} {
		if _, err := s.Search(t.Context(), "x", at[0], at[1]); !errors.Is(err, ErrRange) {
			t.Errorf("Search(%v): %v, want ErrRange", at, err)
		}
	}
	if _, err := s.Search(t.Context(), "", 0, 1); !errors.Is(err, index.ErrQuery) {
		t.Errorf("Search of nothing: %v", err)
	}
}

// A page is found by a word that only links to it have, in pages of another peer, and pages of
// hosts that others link to come first. The links of one network of addresses count as few.
func TestLinks(t *testing.T) {
	t.Parallel()
	doc := func(url, text string, addr byte, links ...index.Link) index.Document {
		return index.Document{URL: store.URL(url), Title: url, Text: text, Type: "html",
			FetchedAt: day, Addr: netip.AddrFrom4([4]byte{203, 0, addr, 1}), Links: links}
	}
	var linking []index.Document
	for i := range 100 {
		far := index.Link{URL: "http://far.example/", Text: "The Zebra page"}
		linking = append(linking, doc(fmt.Sprintf("http://a%d.example/", i), "links", byte(i), far),
			doc(fmt.Sprintf("http://b%d.example/", i), "links", 200,
				index.Link{URL: "https://near.example/", Text: "zebra"}))
	}
	h, _ := serve(t, local(t, linking))
	s := asking(t, local(t, []index.Document{
		doc("http://a.example/", "common text", 1),
		doc("https://far.example/", "common text!", 1), // of which the links say http
		doc("https://near.example/", "common text?", 1),
	}), h)
	for query, want := range map[string]string{
		"zebra":             "https://far.example/ https://near.example/",
		"common zebra page": "https://far.example/",
		"zebra -common":     "", `"the zebra"`: "", "zebra site:near.example": "https://near.example/",
		"common": "https://far.example/ https://near.example/ http://a.example/",
	} {
		r := search(t, s, query, 0, 10)
		var got []string
		for _, h := range r.Hits {
			got = append(got, string(h.URL))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", query, got, want)
		}
		if query == "common" {
			far, near := r.Hits[0].Score/r.Hits[2].Score, r.Hits[1].Score/r.Hits[2].Score
			if far < 1.1 || far > 1.15 || near > 1.05 {
				t.Errorf("100 networks multiply the score by %.3f, and one by %.3f", far, near)
			}
		}
	}
}

// A phrase is found in a page with a low score although many pages of a higher one seem to have it.
func TestRarePhrase(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	text := func(words int) string {
		var b strings.Builder
		for range words {
			fmt.Fprintf(&b, "w%d ", rng.IntN(1e6))
		}
		return b.String()
	}
	var docs []index.Document
	for i := range 600 {
		docs = append(docs, index.Document{URL: urlOf(i), Type: "html", FetchedAt: day,
			Text: text(50) + "rare" + text(50) + " rare x phrase y phrase"})
	}
	docs = append(docs, index.Document{URL: urlOf(600), Type: "html", FetchedAt: day,
		Text: text(2000) + "rare phrase"})
	h, _ := serve(t, local(t, docs))
	s := asking(t, nil, h)
	if r := search(t, s, `"rare phrase"`, 0, 10); len(r.Hits) != 1 || r.Hits[0].URL != urlOf(600) ||
		len(r.Hits[0].Snippet.Marks) != 2 || r.Failed > 0 || r.Partial {
		t.Errorf("found %+v", r)
	}
}

// The links are read again when those of a page have changed, and only then.
func TestRanksOfChangedPages(t *testing.T) {
	t.Parallel()
	docs := pages(1, 40)
	l := local(t, docs)
	l.Ranks = &index.Ranks{}
	_, s := serve(t, l)
	r := newRanker(s)
	turn := func() float64 {
		t.Helper()
		r.read = time.Time{}
		change, err := r.turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return change
	}
	for turn() > 0 {
	}
	if err := l.Index.Apply(index.Batch{Position: index.Position{"a": 1}}); err != nil {
		t.Fatal(err)
	}
	read := r.versions
	if turn(); &read[0] != &r.versions[0] {
		t.Error("the links were read again, though no page has changed")
	}
	changed := docs[0]
	changed.Links = nil
	for i := range 7 {
		changed.Links = append(changed.Links, index.Link{URL: urlOf(i), Text: "new"})
	}
	if err := l.Index.Apply(index.Batch{Pages: []index.Document{changed}}); err != nil {
		t.Fatal(err)
	}
	if turn() == 0 {
		t.Error("the ranks are those before a page got other links")
	}
}

// Four peers that exchange ranks find pages in the order, and with the scores, of one index of all
// pages by its own ranks. Without an exchange they would not.
func TestRanksEqualThoseOfOneIndex(t *testing.T) {
	t.Parallel()
	docs := pages(1, 200)
	parts := make([][]index.Document, 4)
	for i, d := range docs {
		parts[i%7%4] = append(parts[i%7%4], d)
	}
	var all []*Service
	others := overlaytest.PeersFunc(func() (infos []peer.AddrInfo) {
		for _, s := range all {
			infos = append(infos, peer.AddrInfo{ID: s.Host.ID(), Addrs: s.Host.Addrs()})
		}
		return infos
	})
	for _, part := range parts {
		l := local(t, part)
		l.Ranks = &index.Ranks{}
		_, s := serve(t, l)
		all = append(all, s)
	}
	rankers := make([]*ranker, len(all))
	for i, s := range all {
		s.Peers = overlaytest.PeersFunc(func() []peer.AddrInfo {
			return slices.DeleteFunc(others(), func(p peer.AddrInfo) bool {
				return p.ID == s.Host.ID()
			})
		})
		rankers[i] = newRanker(s)
	}
	one := local(t, docs)
	ranks, err := one.Index.Ranks()
	if err != nil {
		t.Fatal(err)
	}
	one.Ranks = ranks
	change := 1.
	for turn := 0; change > 1e-5 || turn < 12; turn++ {
		change = 0
		for _, r := range rankers {
			c, err := r.turn(t.Context())
			if err != nil || turn > 200 {
				t.Fatalf("turn %d: change %v, %v", turn, c, err)
			}
			change = max(change, c)
		}
	}
	for _, s := range all {
		s.limiter = wire.Limiter{} // the meetings have used up what is allowed in a second
	}
	for _, query := range []string{"apple", "plum grape", "squares", "page"} {
		want, err := one.Search(t.Context(), query, 0, 50)
		if err != nil {
			t.Fatal(err)
		}
		got := search(t, all[0], query, 0, 50)
		if got.Failed > 0 {
			t.Errorf("%s: %d peers have failed", query, got.Failed)
		}
		for i, h := range got.Hits {
			if w := want.Hits[i]; h.URL != w.URL || math.Abs(h.Score-w.Score) > 1e-9 {
				t.Errorf("%s: hit %d is %s with the score %v, want %s, %v", query, i, h.URL,
					h.Score, w.URL, w.Score)
				break
			}
		}
	}
}
