package node

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel resets a connection to a web server of which a request is not acknowledged before
// another peer may take the subnet over.
func TestUnackedRequestsEnd(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := newNode(t, options(t))
	c, err := n.webConns.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if cerr := raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if most := time.Duration(got) * time.Millisecond; most != 5*time.Second {
		t.Errorf("data may be unacknowledged for %v, want 5s", most)
	}
}
