//go:build !linux

package node

import (
	"syscall"
	"time"
)

// limitUnacked does nothing: only Linux can reset a connection when data is not acknowledged.
func limitUnacked(syscall.Conn, time.Duration) error { return nil }
