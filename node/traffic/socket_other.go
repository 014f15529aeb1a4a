//go:build !linux && !darwin

package traffic

import (
	"net"
	"syscall"
)

// receiveBuffer leaves the buffer of a socket as it is.
func receiveBuffer(int) func(network, address string, c syscall.RawConn) error {
	return nil
}

// unread returns 0: it is not known.
func unread(net.Conn) int { return 0 }
