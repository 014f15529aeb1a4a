package web

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// visits tells bare connections from those that a request came over. It is
// safe for concurrent use; a nil one does nothing.
type visits struct {
	log *recorder

	mu   sync.Mutex
	came map[net.Conn]time.Time // of connections without a byte so far
}

func newVisits(log *recorder) *visits {
	return &visits{log: log, came: make(map[net.Conn]time.Time)}
}

// changed is told each state of a connection, in order, by net/http.
func (v *visits) changed(c net.Conn, st http.ConnState) {
	if v == nil {
		return
	}
	now := time.Now()
	v.mu.Lock()
	came, silent := v.came[c]
	switch st {
	case http.StateNew:
		v.came[c] = now
	default:
		delete(v.came, c)
	}
	v.mu.Unlock()
	if silent && st == http.StateClosed {
		v.log.bare(came, addrOf(c.LocalAddr()), addrOf(c.RemoteAddr()))
	}
}

// addrOf is a's address without its port; the zero address if it has none.
func addrOf(a net.Addr) netip.Addr {
	ap, _ := netip.ParseAddrPort(a.String())
	return ap.Addr().Unmap()
}
