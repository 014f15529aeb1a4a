package web

import (
	"net/netip"
	"sync"
	"time"
)

// maxHits limits the length of the log; later requests are only counted.
const maxHits = 1 << 20

// maxAgent limits the length of a User-Agent in the log.
const maxAgent = 200

// Hit is one request as the site saw it. Times carry the monotonic clock.
type Hit struct {
	Start  time.Time  `json:"start"`         // when the request had been read
	End    time.Time  `json:"end,omitzero"`  // before its last bytes are sent; zero until then
	Site   int        `json:"site"`          // -1: the Host is not a site served here
	Host   string     `json:"host"`          // without port if it is a site
	Path   string     `json:"path"`          // canonical, with the query
	Method string     `json:"method"`        //
	Addr   netip.Addr `json:"addr"`          // destination
	Peer   netip.Addr `json:"peer"`          // source
	Agent  string     `json:"agent"`         // User-Agent, at most maxAgent bytes
	Status int        `json:"status"`        // 0: in progress, or the client disconnected
	Bytes  int64      `json:"bytes"`         // of the body
	Reused bool       `json:"reused"`        // not the first request of its connection
	Page   bool       `json:"page,omitzero"` // a page was sent completely
	// Bare marks a connection that was closed without a request: Site is -1, Host and
	// Path are empty, and Start and End are the time when it was opened.
	Bare bool `json:"bare,omitzero"`
}

// recorder is the log. It is safe for concurrent use.
type recorder struct {
	mu   sync.Mutex
	hits []Hit
	lost int // hits after the log was full
}

// begin records the start of a request and returns its number.
func (r *recorder) begin(h Hit) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.hits) >= maxHits {
		r.lost++
		return -1
	}
	r.hits = append(r.hits, h)
	return len(r.hits) - 1
}

// bare records a connection without a request.
func (r *recorder) bare(came time.Time, addr, peer netip.Addr) {
	r.begin(Hit{Start: came, End: came, Site: -1, Addr: addr, Peer: peer, Bare: true})
}

// end completes request i. It takes the time first, so that waiting for the mutex does
// not count.
func (r *recorder) end(i, status int, bytes int64, page bool) {
	now := time.Now()
	if i < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.hits[i]
	h.End, h.Status, h.Bytes, h.Page = now, status, bytes, page
}

// Log returns all requests to the addresses of the sites and all connections without a
// request so far, in the order in which they were recorded.
func (w *Web) Log() []Hit {
	w.recorder.mu.Lock()
	defer w.recorder.mu.Unlock()
	return append([]Hit(nil), w.recorder.hits...)
}
