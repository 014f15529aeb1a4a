//go:build linux || darwin

package traffic

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// receiveBuffer returns a function for net.Dialer.Control that bounds what a socket may receive
// before it is read.
func receiveBuffer(bytes int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes)
		})
	}
}

// unread returns how many bytes a connection has received that were not read.
func unread(c net.Conn) (n int) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), fionread) })
	}
	return max(n, 0)
}
