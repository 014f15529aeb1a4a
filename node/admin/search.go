package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// SearchResult is a part of the pages that were found.
type SearchResult struct {
	Offset int `json:"offset"` // number of hits before the first one here
	// Total is the number of pages that match, with copies that are not among the hits.
	Total int `json:"total"`
	// Partial says that there may be other or better hits: a peer did not answer, or did not look
	// at all of its pages.
	Partial bool `json:"partial"`
	// Answered, Copied, NoIndex and Failed count the peers that answered, those of which another
	// peer searched its copy of their archive, those that have no index, and those that did not
	// answer.
	Answered int         `json:"peers_answered"`
	Copied   int         `json:"peers_copied"`
	NoIndex  int         `json:"peers_without_index"`
	Failed   int         `json:"peers_failed"`
	Hits     []SearchHit `json:"hits"` // best first
}

// SearchHit is a page that was found.
type SearchHit struct {
	URL       string    `json:"url"`
	Title     string    `json:"title"`
	Type      string    `json:"type"`     // html or text
	Language  string    `json:"language"` // ISO 639-1; "" if unknown
	FetchedAt time.Time `json:"fetched_at"`
	Score     float64   `json:"score"`
	Peer      string    `json:"peer"` // that has the page, or a copy of it
	Snippet   string    `json:"snippet"`
	// Marks are the places of the words of the query in Snippet: first byte, and byte after the
	// last one.
	Marks [][2]int `json:"marks"`
}

func (s *Server) search(r *http.Request) (res SearchResult, err error) {
	q := r.URL.Query()
	offset, err := number(q, "offset", 0, 1<<40, 0)
	if err != nil {
		return res, err
	}
	limit, err := number(q, "limit", 0, MaxRows, 10)
	if err != nil {
		return res, err
	}
	return s.cfg.Node.Search(r.Context(), q.Get("q"), offset, limit)
}

// Search searches the indexes of all peers.
func (c *Client) Search(
	ctx context.Context, query string, offset, limit int,
) (r SearchResult, err error) {
	q := url.Values{"q": {query}, "offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(limit)}}
	return r, c.call(ctx, http.MethodGet, pathSearch+"?"+q.Encode(), nil, &r)
}
