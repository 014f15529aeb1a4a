//go:build linux || darwin

package node

import "golang.org/x/sys/unix"

// openFiles returns the limit on open files of this process.
func openFiles() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return usualOpenFiles
	}
	return l.Cur
}
