package search

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/mirror"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/index"
)

// testNetwork is the network of the tests.
const testNetwork = "test"

// held are the copies that a peer has.
type held struct {
	mu   sync.Mutex
	all  []Copy
	used atomic.Int64
}

func (h *held) Done() { h.used.Add(-1) }

func (h *held) Use() []Copy {
	h.used.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}

// set replaces the copies; conversations that use the old ones may still be ending.
func (h *held) set(all ...Copy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = all
}

// naming returns what shows that an owner has named a mirror.
func naming(t *testing.T, owner overlaytest.Peer, holder peer.ID) []byte {
	t.Helper()
	n := mirror.Naming{Mirror: holder, At: time.Now()}
	raw, err := mirror.SealNaming(n, testNetwork, owner.Key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A peer that does not answer is found through one of the copies of its archive, once and in the
// order of one index of all pages, wherever the copies are.
func TestCopies(t *testing.T) {
	t.Parallel()
	docs := pages(1, 200)
	var parts [3][]index.Document
	for i, d := range docs {
		parts[i*i%3] = append(parts[i*i%3], d)
	}
	owner := overlaytest.Peers(5, 1)[0]
	absent := parts[1]
	gone := peer.AddrInfo{ID: owner.ID, Addrs: nil}
	central := local(t, docs)
	for name, test := range map[string]struct {
		whole, stale bool // at another peer
		here         bool // at the peer that searches
		asked        bool
		partial      bool
	}{
		"at another peer":                {whole: true},
		"at another peer, and asked":     {whole: true, asked: true},
		"here":                           {here: true},
		"at both":                        {whole: true, here: true, asked: true},
		"an older one, too":              {whole: true, stale: true},
		"only a part of it":              {stale: true, partial: true},
		"of which the whole one is here": {stale: true, here: true},
	} {
		t.Run(name, func(t *testing.T) {
			first, firstService := serve(t, local(t, parts[0]))
			second, secondService := serve(t, local(t, parts[2]))
			s := asking(t, nil, first, second)
			at := map[*Service]*held{firstService: {}, secondService: {}, s: {}}
			give := func(s *Service, pages []index.Document, whole bool) {
				at[s].all = append(at[s].all, Copy{owner.ID, naming(t, owner, s.Host.ID()),
					local(t, pages), whole})
			}
			if test.whole {
				give(firstService, absent, true)
			}
			if test.stale {
				give(secondService, absent[:20], false)
			}
			if test.here {
				s.Local = local(t, nil)
				give(s, absent, true)
			}
			for s, h := range at {
				s.Network = testNetwork
				if s.Local != nil {
					s.Local.Copies = h
				}
			}
			if others := s.Peers.Infos(); test.asked {
				s.Peers = overlaytest.PeersFunc(func() []peer.AddrInfo {
					return append(others, gone)
				})
			}
			for _, query := range []string{"apple", "lemon date", `"apple pear"`,
				"filetype:html"} {
				got := search(t, s, query, 3, 10)
				want, err := central.Search(t.Context(), query, 3, 10)
				if err != nil {
					t.Fatal(err)
				}
				if got.Copied != 1 || got.Failed != 0 || got.Partial != test.partial {
					t.Errorf("%s: %+v", query, got)
				}
				if !test.partial {
					compare(t, query, got.Hits, want.Hits)
				}
			}
			overlaytest.Until(t, "no copy is in use", func() bool {
				return at[firstService].used.Load()+at[secondService].used.Load()+
					at[s].used.Load() == 0
			})
		})
	}
}

// A copy is not searched if its owner answers, or has not named the peer that has it. One that is
// not indexed makes the result partial.
func TestCopiesThatAreNotSearched(t *testing.T) {
	t.Parallel()
	key := overlaytest.Peers(6, 1)[0]
	owner, ownerService := serveOn(t, overlaytest.HostOf(t, key.Key), local(t, pages(1, 20)))
	silent := overlaytest.Peers(7, 1)[0] // without an index
	without, _ := serveOn(t, overlaytest.HostOf(t, silent.Key), nil)
	holder, holderService := serve(t, local(t, pages(2, 20)))
	ownerService.Network, holderService.Network = testNetwork, testNetwork
	stranger := overlaytest.Peers(8, 1)[0]
	more, closed := local(t, pages(3, 100)), local(t, pages(4, 20))
	if err := closed.Index.Close(); err != nil {
		t.Fatal(err)
	}
	copies := &held{}
	holderService.Local.Copies = copies
	for name, test := range map[string]struct {
		copy   Copy
		failed int
	}{
		"the owner answers":      {Copy{Naming: naming(t, key, holder.ID()), Index: more}, 0},
		"the owner has no index": {Copy{Naming: naming(t, silent, holder.ID()), Index: more}, 0},
		"of another mirror":      {Copy{Naming: naming(t, stranger, owner.ID()), Index: more}, 0},
		"not signed":             {Copy{Naming: []byte("x"), Index: more}, 0},
		"not indexed":            {Copy{Naming: naming(t, stranger, holder.ID())}, 1},
		"with a broken index": {Copy{Naming: naming(t, stranger, holder.ID()),
			Index: closed}, 1},
	} {
		copies.set(test.copy)
		s := asking(t, local(t, nil), owner, without, holder)
		s.Network = testNetwork
		r := search(t, s, "apple", 0, 5)
		if r.Copied != 0 || r.Failed != test.failed || r.NoIndex != 1 || r.Answered != 3 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A reply with more hits than fit into a message has the best of them.
func TestManyLongHits(t *testing.T) {
	t.Parallel()
	holder, service := serve(t, local(t, nil))
	long := func(from, n int) (docs []index.Document) {
		for i := range n {
			u := fmt.Sprintf("%s%0*d", urlOf(i), 1900, from+i)
			docs = append(docs, index.Document{URL: store.URL(u), Type: "html", FetchedAt: day,
				Title: strings.Repeat("a", 1000), Text: "apple" + strings.Repeat(" pear", from+i)})
		}
		return docs
	}
	h := &held{}
	for i, owner := range overlaytest.Peers(5, 4) {
		h.all = append(h.all, Copy{owner.ID, naming(t, owner, holder.ID()),
			local(t, long(200*i, 160)), true})
	}
	service.Network, service.Local.Copies = testNetwork, h
	s := asking(t, nil, holder)
	s.Network = testNetwork
	if r := search(t, s, "apple", 0, MaxResults); len(r.Hits) != MaxResults || r.Failed != 0 ||
		r.Partial || r.Total != 640 {
		t.Errorf("%d hits of %d, %d peers failed, partial: %v, want %d of 640", len(r.Hits),
			r.Total, r.Failed, r.Partial, MaxResults)
	}
}

// What does not fit into a reply is left out, what can be asked for later first.
func TestFit(t *testing.T) {
	long := strings.Repeat("a", 900)
	hits := slices.Repeat([]index.Hit{{Meta: index.Meta{Title: long}}}, 1500)
	var a reply
	a.Ranked.Snippets = slices.Repeat([]index.Snippet{{Text: long}}, 1000)
	a.Ranked.Hits = hits[:600]
	a.fit(600)
	if s := len(a.Ranked.Snippets); len(a.Ranked.Hits) != 600 || s < 200 || s > 500 ||
		a.Ranked.Partial {
		t.Errorf("%d hits and %d snippets, want all hits", len(a.Ranked.Hits), s)
	}
	a.Ranked.Hits = hits
	a.fit(600)
	if n := len(a.Ranked.Hits); n < 1000 || n > 1150 || a.Ranked.Partial {
		t.Errorf("%d hits, partial: %v", n, a.Ranked.Partial)
	}
	a.Ranked.Hits = hits
	if a.fit(1400); !a.Ranked.Partial {
		t.Error("hits that were asked for are left out, and the reply is not partial")
	}
	a = reply{Counts: counts{Copies: slices.Repeat([]copyCounts{{Naming: []byte(long)}}, 2000)}}
	a.fit(0)
	if raw, err := wire.Marshal(a); len(raw) > maxReply || len(a.Counts.Copies) < 1000 {
		t.Errorf("%d copies in %d bytes: %v", len(a.Counts.Copies), len(raw), err)
	}
}

// What a copied archive has does not make the other pages of a mirror invalid.
func TestInvalidPagesInCopy(t *testing.T) {
	t.Parallel()
	owner := overlaytest.Peers(5, 1)[0]
	good := pages(1, 3)
	holder, service := serve(t, local(t, good[:2]))
	bad := []index.Document{{URL: "http:", Text: "apple", Type: "html", FetchedAt: day},
		{URL: "http://a.example/", Text: "apple", Type: "html", FetchedAt: time.Unix(-5, 0)},
		{URL: "http://b.example/", Canonical: "x", Text: "unique", Type: "html", FetchedAt: day}}
	service.Network = testNetwork
	service.Local.Copies = &held{all: []Copy{{owner.ID, naming(t, owner, holder.ID()),
		local(t, append(bad, good[2])), true}}}
	s := asking(t, nil, holder)
	s.Network = testNetwork
	if r := search(t, s, "filetype:html", 0, 10); len(r.Hits) != 4 || r.Copied != 1 {
		t.Errorf("%d hits, %+v", len(r.Hits), r)
	}
}
