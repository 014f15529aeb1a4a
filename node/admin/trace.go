package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Trace is what is known of a URL: the rules for it, its owner, and what has happened to it.
type Trace struct {
	URL  string `json:"url"` // in canonical form
	Host string `json:"host"`
	// OutOfScope says why the network does not crawl the URL; "": it does. Then nothing is looked
	// up.
	OutOfScope string `json:"out_of_scope"`
	// Denied is the rule of the deny list by which this peer does not request the URL; "": none.
	Denied string `json:"denied"`
	// Placement is the owner of the host; null: its subnet is not known, for the reason Unplaced.
	Placement *Placement `json:"placement"`
	Unplaced  string     `json:"unplaced"`
	Here      URLState   `json:"here"` // at this peer
	// AtOwner is the state at the owner; null: this peer is the owner, there is none, or it did not
	// answer, for the reason Unanswered.
	AtOwner    *URLState `json:"at_owner"`
	Unanswered string    `json:"unanswered"`
}

// URLPlace is where a URL is counted. It is in one place at a time.
type URLPlace string

// The places.
const (
	PlaceNone     URLPlace = "none"      // it is not to be fetched now
	PlaceQueued   URLPlace = "queued"    // in the queue of its host
	PlaceInFlight URLPlace = "in flight" // being fetched
	PlacePending  URLPlace = "pending"   // until its owner has it, or is known
)

// URLState is what one peer knows of a URL.
type URLState struct {
	Place URLPlace `json:"place"`
	// Why says why it is in that place, in a sentence.
	Why string `json:"why"`
	// Ahead is the number of URLs of its host that are before it in the queue.
	Ahead int  `json:"ahead"`
	Seen  bool `json:"seen"` // it was accepted once
	// Page is its last fetch by the peer; null: there was none. GivenUp says why it is no longer
	// tried; null: it is.
	Page    *Page    `json:"page"`
	GivenUp *GivenUp `json:"given_up"`
	// NextVisit is when it is queued again; null: that is not planned.
	NextVisit *time.Time `json:"next_visit"`
	// HostState says whether the host answers: answering, failing, throttled or given_up; "": the
	// peer does not crawl the host. HostRetry is the earliest time of the next request to a host
	// that does not; null: it does.
	HostState string     `json:"host_state"`
	HostRetry *time.Time `json:"host_retry"`
	// Captures are its responses in the archive, the latest first, at most 100.
	Captures []Capture `json:"captures"`
	// CapturesUnread says why Captures may lack some; "": they are complete.
	CapturesUnread string `json:"captures_unread"`
}

// Capture is a response in the archive.
type Capture struct {
	At     time.Time `json:"at"`
	Status string    `json:"status"` // HTTP status; "-": the same content as before
	Type   string    `json:"type"`   // media type
	Bytes  int64     `json:"bytes"`  // in the file
	File   string    `json:"file"`
}

func (s *Server) trace(r *http.Request) (Trace, error) {
	raw := r.URL.Query().Get("url")
	if raw == "" || len(raw) > MaxURLBytes {
		return Trace{}, fmt.Errorf("%w: the parameter url needs a URL of at most %d bytes",
			ErrBadRequest, MaxURLBytes)
	}
	return s.cfg.Node.Trace(r.Context(), raw)
}

// Trace returns what the peer, and the owner, know of a URL.
func (c *Client) Trace(ctx context.Context, raw string) (t Trace, err error) {
	return t, c.call(ctx, http.MethodGet, pathTrace+"?"+url.Values{"url": {raw}}.Encode(), nil, &t)
}
