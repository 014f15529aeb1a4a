package fetch

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stale reports whether the server has closed this idle connection. The reader of net/http may not
// have seen the FIN or RST yet; checking the socket costs one system call, and prevents the request
// from being lost on a closed connection. On HTTP/1.1, unexpected data also makes a connection
// stale. Connections without a socket are never stale.
func (c *conn) stale() bool {
	s := &c.socket
	if s.raw == nil {
		sc, ok := c.wire.Conn.(syscall.Conn)
		if !ok {
			return false
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return true
		}
		s.raw = raw
	}
	if s.events = unix.POLLRDHUP; !c.h2 && !c.fresh {
		s.events |= unix.POLLIN
	}
	// Control and not Read, because the reader of net/http is blocked in a Read.
	return s.raw.Control(s.check) != nil || s.ended
}

// socket is the state of a connection that stale needs.
type socket struct {
	raw    syscall.RawConn
	events int16
	ended  bool // result of check
	fds    [1]unix.PollFd
}

func (s *socket) check(fd uintptr) {
	s.fds[0] = unix.PollFd{Fd: int32(fd), Events: s.events}
	n, err := unix.Poll(s.fds[:], 0)
	s.ended = err == nil && n > 0
}
