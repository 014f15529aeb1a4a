package search

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
	"peerd/store/index"
)

// Limits of messages.
const (
	// MaxResults bounds the number of the last hit that can be asked for.
	MaxResults = 100
	// slack is how many more hits are asked for, because some are copies of others.
	slack     = 30
	maxHits   = MaxResults + slack
	maxTitle  = 1 << 10 // bytes
	maxReason = 256     // bytes of a refusal that are quoted in an error
	// maxSnippet and maxMarks bound a snippet.
	maxSnippet = 512 // bytes
	maxMarks   = 256
	maxRequest = 64 << 10 // bytes
	maxReply   = 1 << 20  // bytes
	// maxPages bounds the number of pages that a peer may claim to have.
	maxPages = 1 << 40
	// maxLikely bounds the hosts in a reply, and maxHost their length, in bytes.
	maxLikely = 20
	maxHost   = 255
	// MaxCopies bounds the copies of archives in a reply.
	MaxCopies = 32
)

// ErrAnswer means that a peer sent an answer that no honest peer sends.
var ErrAnswer = errors.New("search: invalid answer")

// request is a request of a conversation. The first has a query, the second ranks, and may have
// Linking, and each other has one of the three. A conversation without a query has only Linking.
type request struct {
	Query   string       `cbor:"1,keyasint,omitempty"`
	Rank    *rankRequest `cbor:"2,keyasint,omitempty"`
	Shown   []int        `cbor:"3,keyasint,omitempty"` // places of hits in the reply to Rank
	Linking []string     `cbor:"4,keyasint,omitempty"` // hosts
}

// rankRequest asks for the best pages.
type rankRequest struct {
	Pages uint64   `cbor:"1,keyasint"`
	With  []uint64 `cbor:"2,keyasint"`
	Limit int      `cbor:"3,keyasint"`
	// Copies are the owners of copies that are searched as well.
	Copies  []peer.ID `cbor:"4,keyasint,omitempty"`
	Anchors []anchor  `cbor:"5,keyasint,omitempty"` // of all peers
	Verify  bool      `cbor:"6,keyasint,omitempty"` // hits must have the phrases
	// Snippets is the number of hits with all phrases of which snippets are wanted.
	Snippets int `cbor:"7,keyasint,omitempty"`
}

// anchor is a page of which links have words of the query.
type anchor struct {
	Target  index.Target     `cbor:"1,keyasint"`
	Sources [][]index.Source `cbor:"2,keyasint"`
}

// reply is the reply to a request.
type reply struct {
	Refused string   `cbor:"1,keyasint,omitempty"`
	NoIndex bool     `cbor:"2,keyasint,omitempty"` // the peer has no index
	Pages   uint64   `cbor:"3,keyasint,omitempty"`
	With    []uint64 `cbor:"4,keyasint,omitempty"`

	Hits    []hit `cbor:"5,keyasint,omitempty"`
	Total   int   `cbor:"6,keyasint,omitempty"`
	Partial bool  `cbor:"7,keyasint,omitempty"`

	Snippets []snippet `cbor:"8,keyasint,omitempty"`

	// Copies are those of peers that do not answer this one.
	Copies []copyReply `cbor:"9,keyasint,omitempty"`

	Anchors []anchor         `cbor:"10,keyasint,omitempty"`
	Linking [][]index.Source `cbor:"11,keyasint,omitempty"` // of each host

	// Hosts are those of pages that are likely to be found.
	Hosts []string `cbor:"12,keyasint,omitempty"`

	// Ranked is what is known of the sources in Linking, in their order; none: nothing is.
	Ranked [][]rankedSource `cbor:"13,keyasint,omitempty"`
}

// rankedSource is an index.Linker without its source.
type rankedSource struct {
	_    struct{} `cbor:",toarray"`
	Out  uint32
	Rank float32
}

// copyReply are the counts of the copy of the archive of a peer that does not answer.
type copyReply struct {
	Naming  []byte   `cbor:"1,keyasint"`
	Indexed bool     `cbor:"2,keyasint,omitempty"` // without it there are no counts
	Whole   bool     `cbor:"3,keyasint,omitempty"`
	Pages   uint64   `cbor:"4,keyasint,omitempty"`
	With    []uint64 `cbor:"5,keyasint,omitempty"`
	Anchors []anchor `cbor:"6,keyasint,omitempty"`
}

// hit is a page in a reply.
type hit struct {
	Score     float64      `cbor:"1,keyasint"`
	URL       store.URL    `cbor:"2,keyasint"`
	Title     string       `cbor:"3,keyasint,omitempty"`
	Type      string       `cbor:"4,keyasint,omitempty"`
	Language  string       `cbor:"5,keyasint,omitempty"`
	FetchedAt int64        `cbor:"6,keyasint"` // Unix time in seconds
	Digest    index.Digest `cbor:"7,keyasint"`
	Canonical store.URL    `cbor:"8,keyasint,omitempty"`
}

// snippet is a part of a page in a reply. Marks are pairs of start and end.
type snippet struct {
	Text  string `cbor:"1,keyasint,omitempty"`
	Marks []int  `cbor:"2,keyasint,omitempty"`
	Lacks bool   `cbor:"3,keyasint,omitempty"` // a phrase of the query
}

// check checks the second request for a query of some words.
func (r *rankRequest) check(words int) error {
	switch {
	case r == nil:
		return errors.New("no counts")
	case len(r.With) != words:
		return fmt.Errorf("counts of %d words, want %d", len(r.With), words)
	case r.Limit < 1 || r.Limit > maxHits:
		return fmt.Errorf("%d hits requested, want 1 to %d", r.Limit, maxHits)
	case len(r.Copies) > MaxCopies:
		return fmt.Errorf("%d copies, at most %d", len(r.Copies), MaxCopies)
	case r.Snippets < 0 || r.Snippets > maxHits:
		return fmt.Errorf("%d snippets requested, at most %d", r.Snippets, maxHits)
	}
	return checkAnchors(r.Anchors, words)
}

func checkAnchors(all []anchor, words int) error {
	if len(all) > index.MaxAnchors {
		return fmt.Errorf("%w: %d anchors", ErrAnswer, len(all))
	}
	for _, a := range all {
		if err := checkSources(a.Sources, words, index.MaxSources); err != nil {
			return err
		}
	}
	return nil
}

// checkSources checks lists of sources.
func checkSources(all [][]index.Source, lists, most int) error {
	if len(all) != lists {
		return fmt.Errorf("%w: %d lists of sources, want %d", ErrAnswer, len(all), lists)
	}
	for _, s := range all {
		if len(s) > most {
			return fmt.Errorf("%w: %d sources, at most %d", ErrAnswer, len(s), most)
		}
		for i := range s[:max(len(s)-1, 0)] {
			if s[i] >= s[i+1] {
				return fmt.Errorf("%w: sources out of order", ErrAnswer)
			}
		}
	}
	return nil
}

// setLinking takes over what is known of the links to some hosts.
func (a *reply) setLinking(all [][]index.Linker) {
	known := false
	for _, some := range all {
		sources, ranked := make([]index.Source, len(some)), make([]rankedSource, len(some))
		for i, l := range some {
			sources[i], ranked[i] = l.Source, rankedSource{Out: l.Out, Rank: l.Rank}
			known = known || l.Out > 0
		}
		a.Linking, a.Ranked = append(a.Linking, sources), append(a.Ranked, ranked)
	}
	if !known {
		a.Ranked = nil
	}
}

// linking returns what a peer said of the links to some hosts, checked.
func (a *reply) linking(hosts int) ([][]index.Linker, error) {
	if err := checkSources(a.Linking, hosts, index.MaxLinking); err != nil {
		return nil, err
	}
	if a.Ranked != nil && len(a.Ranked) != hosts {
		return nil, fmt.Errorf("%w: ranks of %d hosts, want %d", ErrAnswer, len(a.Ranked), hosts)
	}
	all := make([][]index.Linker, hosts)
	for h, sources := range a.Linking {
		all[h] = make([]index.Linker, len(sources))
		for i, s := range sources {
			all[h][i].Source = s
		}
		if a.Ranked == nil {
			continue
		}
		if len(a.Ranked[h]) != len(sources) {
			return nil, fmt.Errorf("%w: ranks of %d sources, want %d", ErrAnswer,
				len(a.Ranked[h]), len(sources))
		}
		for i, r := range a.Ranked[h] {
			if !(r.Rank >= 0 && r.Rank <= index.MaxRank) {
				return nil, fmt.Errorf("%w: rank %v", ErrAnswer, r.Rank)
			}
			all[h][i].Out, all[h][i].Rank = r.Out, r.Rank
		}
	}
	return all, nil
}

func newAnchors(all []index.Anchor) []anchor {
	out := make([]anchor, len(all))
	for i, a := range all {
		out[i] = anchor(a)
	}
	return out
}

func openAnchors(all []anchor) []index.Anchor {
	out := make([]index.Anchor, len(all))
	for i, a := range all {
		out[i] = index.Anchor(a)
	}
	return out
}

// checkCounts checks the reply to the first request.
func (r *reply) checkCounts(words int) error {
	if len(r.Copies) > MaxCopies {
		return fmt.Errorf("%w: %d copies", ErrAnswer, len(r.Copies))
	}
	if len(r.Hosts) > maxLikely ||
		slices.ContainsFunc(r.Hosts, func(h string) bool { return len(h) > maxHost }) {
		return fmt.Errorf("%w: %d hosts", ErrAnswer, len(r.Hosts))
	}
	err := errors.Join(checkCounts(index.Counts{Pages: r.Pages, With: r.With}, words),
		checkAnchors(r.Anchors, words))
	for _, c := range r.Copies {
		if c.Indexed {
			err = errors.Join(err, checkCounts(index.Counts{Pages: c.Pages, With: c.With}, words),
				checkAnchors(c.Anchors, words))
		}
	}
	return err
}

func checkCounts(c index.Counts, words int) error {
	if c.Pages > maxPages || len(c.With) != words {
		return fmt.Errorf("%w: %d pages, counts of %d words", ErrAnswer, c.Pages, len(c.With))
	}
	for _, n := range c.With {
		if n > c.Pages {
			return fmt.Errorf("%w: a word in %d of %d pages", ErrAnswer, n, c.Pages)
		}
	}
	return nil
}

// checkHits checks the reply to the second request. urls checks the URLs.
func (r *reply) checkHits(limit int, maxScore float64, urls store.URLChecker) error {
	if len(r.Hits) > limit || r.Total < len(r.Hits) || int64(r.Total) > maxPages {
		return fmt.Errorf("%w: %d hits of %d, want at most %d", ErrAnswer, len(r.Hits), r.Total,
			limit)
	}
	last := maxScore*(1+1e-9) + 1e-9
	for _, h := range r.Hits {
		if math.IsNaN(h.Score) || h.Score < 0 || h.Score > last {
			return fmt.Errorf("%w: a score of %v, want 0 to %v", ErrAnswer, h.Score, last)
		}
		last = h.Score
		if err := h.check(urls); err != nil {
			return fmt.Errorf("%w: %w", ErrAnswer, err)
		}
	}
	return nil
}

// newHit returns the form in which a hit is sent.
func newHit(h index.Hit) hit {
	return hit{
		Score: h.Score, URL: h.URL, Title: h.Title, Type: h.Type, Language: h.Language,
		FetchedAt: h.FetchedAt.Unix(), Digest: h.Digest, Canonical: h.Canonical,
	}
}

// check checks the properties of a page.
func (h *hit) check(urls store.URLChecker) error {
	if len(h.Title) > maxTitle || len(h.Type) > 8 || len(h.Language) > 8 || h.FetchedAt < 0 ||
		h.FetchedAt > 1<<40 {
		return errors.New("a page with invalid properties")
	}
	if h.Canonical != "" {
		if err := urls.Check(h.Canonical); err != nil {
			return err
		}
	}
	return urls.Check(h.URL)
}

// checkSnippets checks the snippets in a reply.
func (r *reply) checkSnippets(most int) error {
	if len(r.Snippets) > most {
		return fmt.Errorf("%w: %d snippets, at most %d", ErrAnswer, len(r.Snippets), most)
	}
	for _, s := range r.Snippets {
		if len(s.Text) > maxSnippet || len(s.Marks) > 2*maxMarks || len(s.Marks)%2 != 0 ||
			!utf8.ValidString(s.Text) {
			return fmt.Errorf("%w: a snippet of %d bytes, %d marks", ErrAnswer, len(s.Text),
				len(s.Marks))
		}
		at := 0
		for _, m := range s.Marks {
			if m < at || m > len(s.Text) {
				return fmt.Errorf("%w: a mark at %d of %d bytes", ErrAnswer, m, len(s.Text))
			}
			at = m
		}
	}
	return nil
}
