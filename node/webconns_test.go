package node

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestOpenConnectionsAreReset verifies that the kernel repeats nothing on connections to web
// servers that are closed because the network was down.
func TestOpenConnectionsAreReset(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
		}
		ended <- err
	}()
	o := options(t)
	o.Config.Traffic.Bandwidth = 1e6
	n := newNode(t, o)
	c, err := n.webConns.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n.webConns.closeAll()
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server sees %v, want a reset", err)
	}
}
