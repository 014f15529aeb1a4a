package hostile

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// idle is how long a connection waits for its next request.
const idle = 30 * time.Second

// serveConn answers the requests of one connection, one after the other.
func (w *Web) serveConn(nc net.Conn) {
	stop := context.AfterFunc(w.ctx, func() { nc.Close() })
	defer stop()
	defer nc.Close()
	addr := addrPort(nc.LocalAddr()).Addr()
	id := w.rec.connected(Conn{Start: time.Now(), Addr: addr, Peer: addrPort(nc.RemoteAddr())})
	br := bufio.NewReader(nc)
	for {
		_ = nc.SetReadDeadline(time.Now().Add(idle))
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		req.Body.Close() // a crawler sends no body
		x := w.exchange(nc, br, req)
		hit := Hit{Start: time.Now(), Conn: id, Addr: addr, Host: x.host, Method: req.Method,
			Path: x.target, Header: notedOf(req)}
		if x.c != nil {
			hit.Case = x.c.Name
		}
		var n, seen int
		n, x.nth, seen = w.rec.begin(hit)
		x.serve(seen)
		w.rec.end(n, x.status, x.sent, x.ending())
		if x.over || x.failed {
			return
		}
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	t, _ := a.(*net.TCPAddr)
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func notedOf(r *http.Request) map[string]string {
	m := map[string]string{}
	for _, name := range noted {
		if v := r.Header.Values(name); len(v) > 0 {
			m[name] = strings.Join(v, ", ")
		}
	}
	return m
}

// exchange returns the exchange for a request.
func (w *Web) exchange(nc net.Conn, br *bufio.Reader, req *http.Request) *exchange {
	host := req.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	x := &exchange{web: w, conn: nc, br: br, host: strings.TrimSuffix(strings.ToLower(host), "."),
		target: req.RequestURI}
	if i := strings.Index(x.target, "://"); i >= 0 { // absolute form (RFC 9112, section 3.2.2)
		if j := strings.IndexByte(x.target[i+3:], '/'); j >= 0 {
			x.target = x.target[i+3+j:]
		}
	}
	x.path, x.query, _ = strings.Cut(x.target, "?")
	x.c = w.caseOf(x.host)
	x.head = req.Method == http.MethodHead
	x.over = req.Close || req.ProtoMinor == 0
	return x
}

// serve lets the case answer. seen is the number of its requests.
func (x *exchange) serve(seen int) {
	switch {
	case addrPort(x.conn.LocalAddr()).Addr() == portalAddr && x.host == Portal:
		x.portal()
	case x.c == nil || addrPort(x.conn.LocalAddr()).Addr() != x.c.addr:
		x.answer(http.StatusMisdirectedRequest, "", "no such host here")
	case !x.web.opts.Endless && seen > 2*x.c.Bound.Requests:
		x.answer(http.StatusGone, "", "you have been here too often")
	default:
		x.c.serve(x)
	}
}
