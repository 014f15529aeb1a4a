package web

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// Exactly the connections that are closed without a request are logged as bare.
func TestBareConnections(t *testing.T) {
	t.Parallel()
	w := serve(t, testConfig(1, 4, 1))
	addr := netip.AddrPortFrom(w.Sites()[0].Addrs[0], uint16(w.Port()))
	begin := time.Now()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	cl := client(t, w)
	for u := range w.Pages() {
		get(t, cl, u)
	}
	cl.CloseIdleConnections()
	end := time.Now().Add(5 * time.Minute)
	for w.Audit().BareConnections == 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	a := w.Audit()
	if a.BareConnections != 1 || a.Requests != 4 || a.PagesFetched != 4 {
		t.Errorf("%+v", a)
	}
	for _, h := range w.Log() {
		if h.Bare && (h.Addr != addr.Addr() || !h.Peer.IsLoopback() || h.Start.Before(begin) ||
			h.End != h.Start) {
			t.Errorf("%+v", h)
		}
	}
}
