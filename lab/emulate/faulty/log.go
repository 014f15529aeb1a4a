package faulty

import (
	"encoding/json"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Hit is one request as the server saw it.
type Hit struct {
	At       time.Time  `json:"at"`           // when its head had been read
	End      time.Time  `json:"end,omitzero"` // zero while it is answered
	Host     string     `json:"host"`         // without port
	Path     string     `json:"path"`         // with the query, as sent
	HTTPS    bool       `json:"https,omitempty"`
	Addr     netip.Addr `json:"addr"`   // destination
	Peer     netip.Addr `json:"peer"`   // source
	Conn     int64      `json:"conn"`   // number of the connection
	Status   int        `json:"status"` // 0: no head was sent
	Sent     int64      `json:"sent"`   // bytes of the body
	Complete bool       `json:"complete"`
	Page     bool       `json:"page"` // of the tree of pages, or a file
}

// key is the URL of a hit.
func (h *Hit) key() string {
	scheme := "http://"
	if h.HTTPS {
		scheme = "https://"
	}
	return scheme + h.Host + h.Path
}

// recorder is the log. It is safe for concurrent use.
type recorder struct {
	mu      sync.Mutex
	hits    []Hit
	fetched map[string]int // complete pages with status 200, by URL
	conns   int64
}

func (r *recorder) connected() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns++
	return r.conns
}

func (r *recorder) begin(h Hit) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hits = append(r.hits, h)
	return len(r.hits) - 1
}

func (r *recorder) end(i int, status int, sent int64, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.hits[i]
	h.End, h.Status, h.Sent, h.Complete = time.Now(), status, sent, complete
	if complete && status == 200 && h.Page {
		r.fetched[h.key()]++
	}
}

// Fetched returns the number of pages that were sent completely at least once.
func (w *Web) Fetched() int {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	return len(w.rec.fetched)
}

// Repeats returns the number of complete answers with pages that had been sent before.
func (w *Web) Repeats() (n int) {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	for _, times := range w.rec.fetched {
		n += times - 1
	}
	return n
}

// Conns returns the number of connections that were accepted.
func (w *Web) Conns() int64 {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	return w.rec.conns
}

// Log returns all requests so far, in the order in which they came.
func (w *Web) Log() []Hit {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	return slices.Clone(w.rec.hits)
}

// WriteLog writes all requests so far, one JSON object a line.
func (w *Web) WriteLog(to io.Writer) error {
	enc := json.NewEncoder(to)
	for _, h := range w.Log() {
		if err := enc.Encode(h); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns at most limit URLs of pages that were never sent completely.
func (w *Web) Missing(limit int) (urls []string) {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	for _, s := range w.sites {
		for _, u := range s.urls() {
			if len(urls) == limit {
				return urls
			}
			if w.rec.fetched[u] == 0 {
				urls = append(urls, u)
			}
		}
	}
	return urls
}
