package node

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"peerd/node/sitepage"
)

// Visitors are not told the name server and the networks of the peer.
func TestVisitorsSeeNothingInternal(t *testing.T) {
	o := options(t)
	o.Config.Crawl.Resolver = []string{"127.0.0.1:1"} // nothing answers
	n := newNode(t, o)
	defer n.Close()
	_, site := visited{n}.Site(t.Context(), "www.example.org")
	_, read := visited{n}.OptOut(t.Context(), "https://www.example.org")
	stop := visited{n}.StopAddr(netip.MustParseAddr("10.1.2.3"))
	for what, err := range map[string]error{"Site": site, "OptOut": read, "StopAddr": stop} {
		if err == nil || errors.Is(err, sitepage.ErrRefused) &&
			(strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "/8")) {
			t.Errorf("%s() = %v, want an error without addresses of the peer", what, err)
		}
	}
	if errors.Is(site, sitepage.ErrRefused) || !errors.Is(stop, sitepage.ErrRefused) {
		t.Errorf("Site() = %v, StopAddr() = %v, want only the second refused", site, stop)
	}
}
