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
	sc, ok := c.wire.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	events := int16(unix.POLLRDHUP)
	if !c.h2 {
		events |= unix.POLLIN
	}
	ended := false
	// Control, not Read: the reader waits in a Read of its own.
	err = rc.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds, 0)
		ended = err == nil && n > 0
	})
	return ended || err != nil
}
