package web

import (
	"encoding/json"
	"net/http"
	"time"
)

// serveExtra serves the additional address: the sites by Host, and for any other Host the
// log, its audit and the list of sites. Its requests are not logged or audited.
func (w *Web) serveExtra(rw http.ResponseWriter, r *http.Request) {
	if s, ok := w.lookup(r.Host); ok {
		w.respond(rw, r, s, time.Now())
		return
	}
	enc := json.NewEncoder(rw)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(rw, "only GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/-/log":
		rw.Header().Set("Content-Type", "application/x-ndjson")
		for _, h := range w.Log() {
			if enc.Encode(h) != nil { // the client has disconnected
				return
			}
		}
	case r.URL.Path == "/-/audit":
		rw.Header().Set("Content-Type", "application/json")
		_ = enc.Encode(w.Audit()) // as below
	case r.URL.Path == "/-/sites":
		rw.Header().Set("Content-Type", "application/json")
		_ = enc.Encode(w.Sites()) // as above
	default:
		http.NotFound(rw, r)
	}
}
