package fetch

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stale says whether the server has already ended this idle connection. Its
// FIN or RST may have come without net/http's reader having run since; asking
// the socket costs one system call and saves the request from being lost on a
// dead connection. On HTTP/1.1 anything else that came unasked is reason
// enough, too. Connections that are no sockets count as alive.
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
		s.raw, s.poll = raw, s.ask
		if s.events = unix.POLLRDHUP; !c.h2 {
			s.events |= unix.POLLIN
		}
	}
	// Control, not Read: the reader waits in a Read of its own.
	return s.raw.Control(s.poll) != nil || s.ended
}

// socket is what stale needs of a connection, made once.
type socket struct {
	raw    syscall.RawConn
	poll   func(fd uintptr) // ask
	events int16
	ended  bool // what ask saw
	fds    [1]unix.PollFd
}

func (s *socket) ask(fd uintptr) {
	s.fds[0] = unix.PollFd{Fd: int32(fd), Events: s.events}
	n, err := unix.Poll(s.fds[:], 0)
	s.ended = err == nil && n > 0
}
