package node

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacked has the kernel reset a connection when data was not acknowledged for a time (RFC
// 5482). Without that it repeats a request minutes later, also if that is given up.
func limitUnacked(c syscall.Conn, most time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(most.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
