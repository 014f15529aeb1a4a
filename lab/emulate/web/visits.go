package web

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// visits finds connections that are closed without a request. It is safe for concurrent
// use; a nil one does nothing.
type visits struct {
	log *recorder

	mu   sync.Mutex
	came map[net.Conn]time.Time // start of connections without a request so far
}

func newVisits(log *recorder) *visits {
	return &visits{log: log, came: make(map[net.Conn]time.Time)}
}

// changed is called by net/http with each state of a connection, in order.
func (v *visits) changed(c net.Conn, st http.ConnState) {
	if v == nil {
		return
	}
	now := time.Now()
	v.mu.Lock()
	came, bare := v.came[c]
	switch st {
	case http.StateNew:
		v.came[c] = now
	default:
		delete(v.came, c)
	}
	v.mu.Unlock()
	if bare && st == http.StateClosed {
		v.log.bare(came, addrOf(c.LocalAddr()), addrOf(c.RemoteAddr()))
	}
}

// addrOf returns the IP address of a, or the zero address.
func addrOf(a net.Addr) netip.Addr {
	ap, _ := netip.ParseAddrPort(a.String())
	return ap.Addr().Unmap()
}
