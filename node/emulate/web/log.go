package web

import (
	"net/netip"
	"sync"
	"time"
)

// maxHits bounds the log of a web that is served for long; what comes after is
// counted only.
const maxHits = 1 << 20

// maxAgent bounds what is kept of a User-Agent.
const maxAgent = 200

// Hit is one request as the site saw it. Times carry the monotonic clock.
type Hit struct {
	Start  time.Time  `json:"start"`         // the request had been read
	End    time.Time  `json:"end,omitzero"`  // before its last bytes left; zero while under way
	Site   int        `json:"site"`          // -1: the Host is none of the sites served here
	Host   string     `json:"host"`          // without port if it is a site
	Path   string     `json:"path"`          // canonical, with the query
	Method string     `json:"method"`        //
	Addr   netip.Addr `json:"addr"`          // that was dialled
	Peer   netip.Addr `json:"peer"`          // that dialled
	Agent  string     `json:"agent"`         // User-Agent, at most maxAgent bytes
	Status int        `json:"status"`        // 0: under way, or the client went away
	Bytes  int64      `json:"bytes"`         // of the body
	Reused bool       `json:"reused"`        // not the first request of its connection
	Page   bool       `json:"page,omitzero"` // a page was sent, whole
	// Bare is a connection that was closed without a request: Site is -1, Host
	// and Path are empty, and End is Start, when it came.
	Bare bool `json:"bare,omitzero"`
}

// recorder is the log. It is safe for concurrent use.
type recorder struct {
	mu   sync.Mutex
	hits []Hit
	lost int // hits that came when the log was full
}

// begin enters a request that is under way and returns its number.
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

// bare enters a connection that nothing was asked over.
func (r *recorder) bare(came time.Time, addr, peer netip.Addr) {
	r.begin(Hit{Start: came, End: came, Site: -1, Addr: addr, Peer: peer, Bare: true})
}

// end completes request i. The time is taken first, so that waiting for others
// here makes no request look longer.
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

// Log returns every request so far to the addresses of the sites, and every
// connection that closed without one, in the order in which they were entered.
func (w *Web) Log() []Hit {
	w.recorder.mu.Lock()
	defer w.recorder.mu.Unlock()
	return append([]Hit(nil), w.recorder.hits...)
}
