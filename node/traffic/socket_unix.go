//go:build unix

package traffic

import "syscall"

// receiveBuffer returns a function for net.Dialer.Control that bounds what a socket may receive
// before it is read.
func receiveBuffer(bytes int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes)
		})
	}
}
