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

// tailBytes is the size of the last write of an answer. net/http buffers so few bytes
// and sends them after the handler has returned. So no client has the whole answer, and
// starts its politeness delay, before the end that is recorded in the log.
const tailBytes = 64

// buffers has the buffers in which pages are rendered.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// requestCount is the context key of the number of requests of a connection.
type requestCount struct{}

func countRequests(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, requestCount{}, new(atomic.Int64))
}

// serveSite answers and logs a request to an address of the sites.
func (w *Web) serveSite(rw http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s, ok := w.lookup(r.Host)
	hit := Hit{Start: start, Site: -1, Host: r.Host, Path: keyOf(r.URL), Method: r.Method,
		Addr: localAddr(r), Peer: remoteAddr(r)}
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
	if w.cfg.OnRequest != nil {
		w.cfg.OnRequest(hit)
	}
	if !ok {
		http.Error(rw, "no such site here", http.StatusMisdirectedRequest)
		w.recorder.end(i, http.StatusMisdirectedRequest, 0, false)
		return
	}
	status, n, page := w.respond(rw, r, s, start)
	w.recorder.end(i, status, n, page)
}

// respond answers a request to s after its delay, counted from start. Status 0 means
// that the client disconnected before.
func (w *Web) respond(
	rw http.ResponseWriter, r *http.Request, s *site, start time.Time,
) (status int, n int64, page bool) {
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

// keyOf returns the canonical path and query of a request.
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
	ap, _ := netip.ParseAddrPort(r.RemoteAddr) // net/http wrote it, so it is valid
	return ap.Addr().Unmap()
}
