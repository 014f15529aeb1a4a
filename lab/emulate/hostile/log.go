package hostile

import (
	"net/netip"
	"sync"
	"time"
)

// How an exchange ended.
const (
	EndOpen    = "open"    // in progress
	EndDone    = "done"    // the answer was sent, as complete as the case intends
	EndClient  = "client"  // the client disconnected first
	EndCut     = "cut"     // the server closed the connection within the answer
	EndReset   = "reset"   // the server reset the connection
	EndStopped = "stopped" // the web was closed
)

// Hit is one request as the server saw it.
type Hit struct {
	Start  time.Time         `json:"start"`
	End    time.Time         `json:"end,omitzero"`
	Conn   int               `json:"conn"` // number of the connection
	Addr   netip.Addr        `json:"addr"` // destination
	Case   string            `json:"case,omitempty"`
	Host   string            `json:"host"` // as sent, in lower case, without port
	Method string            `json:"method"`
	Path   string            `json:"path"`             // the request target as sent
	Header map[string]string `json:"header,omitempty"` // fields listed in noted
	Status int               `json:"status"`           // 0: none, or not valid HTTP
	Sent   int64             `json:"sent"`             // bytes, including the head
	Ended  string            `json:"ended"`
}

// noted are the request fields that the log keeps.
var noted = []string{"User-Agent", "Accept-Encoding", "Referer", "Cookie", "Authorization",
	"Proxy-Authorization", "Range"}

// Conn is one connection, with or without requests.
type Conn struct {
	ID    int            `json:"id"`
	Start time.Time      `json:"start"`
	Addr  netip.Addr     `json:"addr"`
	Peer  netip.AddrPort `json:"peer"`
}

// Lookup is one DNS lookup.
type Lookup struct {
	At   time.Time    `json:"at"`
	Case string       `json:"case,omitempty"`
	Host string       `json:"host"`
	Got  []netip.Addr `json:"got,omitempty"` // none: no such host
}

// recorder is the log. It is safe for concurrent use.
type recorder struct {
	mu      sync.Mutex
	hits    []Hit
	conns   []Conn
	lookups []Lookup
	byCase  map[string]int
	byURL   map[string]int
	byName  map[string]int
}

func newRecorder() *recorder {
	return &recorder{byCase: map[string]int{}, byURL: map[string]int{}, byName: map[string]int{}}
}

func (r *recorder) connected(c Conn) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.ID = len(r.conns)
	r.conns = append(r.conns, c)
	return c.ID
}

// begin records the start of a request. nth is the number of earlier requests for the
// same URL, seen the number of requests for the same case, including this one.
func (r *recorder) begin(h Hit) (id, nth, seen int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	url := h.Host + h.Path
	nth = r.byURL[url]
	r.byURL[url]++
	r.byCase[h.Case]++
	h.Ended = EndOpen
	r.hits = append(r.hits, h)
	return len(r.hits) - 1, nth, r.byCase[h.Case]
}

func (r *recorder) end(id, status int, sent int64, ended string) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.hits[id]
	h.End, h.Status, h.Sent, h.Ended = now, status, sent, ended
}

// asked counts a lookup of host and returns the number of earlier ones.
func (r *recorder) asked(host string) (nth int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nth = r.byName[host]
	r.byName[host]++
	return nth
}

func (r *recorder) lookedUp(l Lookup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookups = append(r.lookups, l)
}

// Log returns all requests so far, in the order of their starts.
func (w *Web) Log() []Hit {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	return append([]Hit(nil), w.rec.hits...)
}

// Conns returns all connections so far, including those to forbidden addresses.
func (w *Web) Conns() []Conn {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	return append([]Conn(nil), w.rec.conns...)
}

// Lookups returns all calls of Web.Lookup so far.
func (w *Web) Lookups() []Lookup {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	return append([]Lookup(nil), w.rec.lookups...)
}
