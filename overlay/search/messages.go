package search

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
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

// request is a request of a conversation. The first has a query, the second ranks, and each other
// has one of the others. A conversation without a query has only Linking.
type request struct {
	Query   string   `cbor:"1,keyasint,omitempty"`
	Rank    *ranking `cbor:"2,keyasint,omitempty"`
	Shown   []int    `cbor:"3,keyasint,omitempty"` // places of hits in the reply to Rank
	Linking []string `cbor:"4,keyasint,omitempty"` // hosts
}

// ranking asks for the best pages.
type ranking struct {
	Sum    index.Counts `cbor:"1,keyasint"` // of all peers
	Limit  int          `cbor:"2,keyasint"`
	Owners []peer.ID    `cbor:"3,keyasint,omitempty"` // of the copies that are searched as well
	Verify bool         `cbor:"4,keyasint,omitempty"` // without it, hits may lack phrases
	// Snippets is the number of hits with all phrases for which snippets are wanted, and Hosts are
	// those of which the linking ones are, so that they need not be asked for later.
	Snippets int      `cbor:"5,keyasint,omitempty"`
	Hosts    []string `cbor:"6,keyasint,omitempty"`
}

// reply is the reply to a request.
type reply struct {
	Refused string `cbor:"1,keyasint,omitempty"`
	NoIndex bool   `cbor:"2,keyasint,omitempty"` // the peer has no index
	Counts  counts `cbor:"3,keyasint"`
	Ranked  ranked `cbor:"4,keyasint"` // of a later request, what it asks for
}

// counts are the counts of a participant.
type counts struct {
	index.Counts `cbor:"1,keyasint"`
	// Copies are those of peers that do not answer this one.
	Copies []copyCounts `cbor:"2,keyasint,omitempty"`
	Hosts  []string     `cbor:"3,keyasint,omitempty"` // of pages that are likely to be found
}

// copyCounts are the counts of the copy of a peer that does not answer.
type copyCounts struct {
	index.Counts `cbor:"1,keyasint"`
	Naming       []byte  `cbor:"2,keyasint"`           // shows that the owner has named the peer
	Indexed      bool    `cbor:"3,keyasint,omitempty"` // without it there are no counts
	Whole        bool    `cbor:"4,keyasint,omitempty"`
	owner        peer.ID // by Naming
}

// ranked is the result of a ranking.
type ranked struct {
	index.Result `cbor:"1,keyasint"`
	// Snippets are those of the first hits, also of those that lack a phrase.
	Snippets []index.Snippet  `cbor:"2,keyasint,omitempty"`
	Linking  [][]index.Linker `cbor:"3,keyasint,omitempty"` // of each of the hosts
}

// fit leaves out what makes a reply larger than maxReply: snippets, which can be asked for later,
// then the last hits, or copies of archives. wanted is the number of hits that the other peer may
// need of this one.
func (a *reply) fit(wanted int) {
	for {
		raw, err := wire.Marshal(a)
		if err != nil || len(raw) <= maxReply {
			return // an error is that of sending it
		}
		r, c := &a.Ranked, &a.Counts
		cut := func(n int) int { return n * maxReply / len(raw) }
		switch {
		case len(r.Snippets) > 0:
			r.Snippets = r.Snippets[:len(r.Snippets)/2]
		case len(r.Hits) > 0:
			r.Hits = r.Hits[:cut(len(r.Hits))]
			r.Partial = r.Partial || len(r.Hits) < wanted
		case len(c.Copies) > 0:
			c.Copies = c.Copies[:cut(len(c.Copies))]
		default:
			return
		}
	}
}

// check checks the second request for a query of some words.
func (r *ranking) check(words int) error {
	switch {
	case r == nil:
		return errors.New("no counts")
	case len(r.Sum.With) != words:
		return fmt.Errorf("counts of %d words, want %d", len(r.Sum.With), words)
	case r.Limit < 1 || r.Limit > maxHits:
		return fmt.Errorf("%d hits requested, want 1 to %d", r.Limit, maxHits)
	case len(r.Owners) > MaxCopies:
		return fmt.Errorf("%d copies, at most %d", len(r.Owners), MaxCopies)
	case r.Snippets < 0 || r.Snippets > maxHits:
		return fmt.Errorf("%d snippets requested, at most %d", r.Snippets, maxHits)
	case len(r.Hosts) > maxHits:
		return errHosts
	}
	return checkAnchors(r.Sum.Anchors, words)
}

func checkAnchors(all []index.Anchor, words int) error {
	if len(all) > index.MaxAnchors {
		return fmt.Errorf("%w: %d anchors", ErrAnswer, len(all))
	}
	for _, a := range all {
		if len(a.Sources) != words {
			return fmt.Errorf("%w: sources of %d words, want %d", ErrAnswer, len(a.Sources), words)
		}
		for _, s := range a.Sources {
			if len(s) > index.MaxSources || !ascending(s) {
				return fmt.Errorf("%w: %d sources, or out of order", ErrAnswer, len(s))
			}
		}
	}
	return nil
}

func ascending(all []index.Source) bool {
	for i := range all[:max(len(all)-1, 0)] {
		if all[i] >= all[i+1] {
			return false
		}
	}
	return true
}

// checkLinking checks what a peer said of the links to some hosts.
func checkLinking(all [][]index.Linker, hosts int) error {
	if len(all) != hosts {
		return fmt.Errorf("%w: links to %d hosts, want %d", ErrAnswer, len(all), hosts)
	}
	for _, some := range all {
		var sources []index.Source
		for _, l := range some {
			sources = append(sources, l.Source)
			if !(l.Rank >= 0 && l.Rank <= index.MaxRank) {
				return fmt.Errorf("%w: rank %v", ErrAnswer, l.Rank)
			}
		}
		if len(some) > index.MaxLinking || !ascending(sources) {
			return fmt.Errorf("%w: %d sources, or out of order", ErrAnswer, len(some))
		}
	}
	return nil
}

// check checks the reply to the first request.
func (c *counts) check(words int) error {
	if len(c.Copies) > MaxCopies {
		return fmt.Errorf("%w: %d copies", ErrAnswer, len(c.Copies))
	}
	if len(c.Hosts) > maxLikely ||
		slices.ContainsFunc(c.Hosts, func(h string) bool { return len(h) > maxHost }) {
		return fmt.Errorf("%w: %d hosts", ErrAnswer, len(c.Hosts))
	}
	err := checkCounts(c.Counts, words)
	for _, n := range c.Copies {
		if n.Indexed {
			err = errors.Join(err, checkCounts(n.Counts, words))
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
	return checkAnchors(c.Anchors, words)
}

// checkHits checks the reply to the second request. urls checks the URLs.
func (r *ranked) checkHits(limit int, maxScore float64, urls store.URLChecker) error {
	if len(r.Hits) > limit || r.Total < len(r.Hits) || int64(r.Total) > maxPages {
		return fmt.Errorf("%w: %d hits of %d, want at most %d", ErrAnswer, len(r.Hits), r.Total,
			limit)
	}
	last := maxScore*(1+1e-9) + 1e-9
	for i := range r.Hits {
		h := &r.Hits[i]
		if math.IsNaN(h.Score) || h.Score < 0 || h.Score > last {
			return fmt.Errorf("%w: a score of %v, want 0 to %v", ErrAnswer, h.Score, last)
		}
		last, h.Score = h.Score, math.Abs(h.Score) // no negative zero
		h.Archive, h.FetchedAt = store.Location{}, h.FetchedAt.UTC()
		if err := checkMeta(&h.Meta, urls); err != nil {
			return fmt.Errorf("%w: %w", ErrAnswer, err)
		}
	}
	return nil
}

// checkMeta checks the properties of a page.
func checkMeta(m *index.Meta, urls store.URLChecker) error {
	if at := m.FetchedAt.UTC(); len(m.Title) > maxTitle || len(m.Type) > 8 ||
		len(m.Language) > 8 || at.Unix() < 0 || at.Year() > 9999 { // JSON has no later years
		return errors.New("a page with invalid properties")
	}
	if m.Canonical != "" {
		if err := urls.Check(m.Canonical); err != nil {
			return err
		}
	}
	return urls.Check(m.URL)
}

// checkSnippets checks snippets in a reply.
func checkSnippets(all []index.Snippet, most int) error {
	if len(all) > most {
		return fmt.Errorf("%w: %d snippets, at most %d", ErrAnswer, len(all), most)
	}
	for _, s := range all {
		if len(s.Text) > maxSnippet || len(s.Marks) > maxMarks || !utf8.ValidString(s.Text) {
			return fmt.Errorf("%w: a snippet of %d bytes, %d marks", ErrAnswer, len(s.Text),
				len(s.Marks))
		}
		at := 0
		for _, m := range s.Marks {
			if m[0] < at || m[1] < m[0] || m[1] > len(s.Text) {
				return fmt.Errorf("%w: a mark at %v of %d bytes", ErrAnswer, m, len(s.Text))
			}
			at = m[1]
		}
	}
	return nil
}
