package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// tailBytes are kept back from every answer until its handler has returned:
// net/http holds so few bytes in its buffers and sends them after that. So no
// client can have the whole answer, and start to count its pause, before the
// end that goes into the log.
const tailBytes = 64

// buffers holds the memory that pages are rendered in.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// requestCount is the context key of a connection's number of requests.
type requestCount struct{}

func countRequests(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, requestCount{}, new(atomic.Int64))
}

// serveSite answers on an address of the sites, and keeps the log.
func (w *Web) serveSite(rw http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s, ok := w.lookup(r.Host)
	hit := Hit{Start: start, Site: -1, Host: r.Host, Path: keyOf(r.URL), Method: r.Method, Addr: localAddr(r), Peer: remoteAddr(r)}
	if hit.Agent = r.UserAgent(); len(hit.Agent) > maxAgent {
		hit.Agent = hit.Agent[:maxAgent]
	}
	if n, _ := r.Context().Value(requestCount{}).(*atomic.Int64); n != nil {
		hit.Reused = n.Add(1) > 1
	}
	if ok = ok && s.served; ok {
		hit.Site, hit.Host = s.id, s.host
	}
	i := w.recorder.begin(hit)
	if w.cfg.Asked != nil {
		w.cfg.Asked(hit)
	}
	if !ok {
		http.Error(rw, "no such site here", http.StatusMisdirectedRequest)
		w.recorder.end(i, http.StatusMisdirectedRequest, 0, false)
		return
	}
	status, n, page := w.respond(rw, r, s, start)
	w.recorder.end(i, status, n, page)
}

// respond answers for s, a.delay after start. Status 0 means that the client
// went away before.
func (w *Web) respond(rw http.ResponseWriter, r *http.Request, s *site, start time.Time) (status int, n int64, page bool) {
	a := w.answer(s, keyOf(r.URL))
	body := a.body
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		a = answer{status: http.StatusMethodNotAllowed, ctype: typeText, page: -1}
		body = nil
	}
	if a.page >= 0 {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		*buf = w.render((*buf)[:0], s, a.page)
		body = *buf
	}
	if !wait(r.Context(), start.Add(a.delay+time.Duration(w.slow.Load()))) {
		return 0, 0, false
	}
	h := rw.Header()
	h.Set("Content-Type", a.ctype)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if a.location != "" {
		h.Set("Location", a.location)
	}
	rw.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return a.status, 0, false
	}
	cut := max(0, len(body)-tailBytes)
	_, err := rw.Write(body[:cut])
	if err == nil {
		_, err = rw.Write(body[cut:])
	}
	return a.status, int64(len(body)), a.page >= 0 && err == nil
}

// wait returns true at t, or false when ctx ends first.
func wait(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// keyOf is the canonical path and query of a request.
func keyOf(u *url.URL) string {
	key := (&url.URL{Path: u.Path}).EscapedPath()
	if u.RawQuery != "" {
		key += "?" + u.RawQuery
	}
	return key
}

func localAddr(r *http.Request) netip.Addr {
	a, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return a.AddrPort().Addr().Unmap()
}

func remoteAddr(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr) // net/http wrote it; the zero address otherwise
	return ap.Addr().Unmap()
}
