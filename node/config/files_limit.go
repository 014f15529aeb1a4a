//go:build linux || darwin

package config

import "golang.org/x/sys/unix"

// OpenFiles returns how many files this process may open; 1024, which is usual, if it is unknown.
func OpenFiles() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return usualOpenFiles
	}
	return l.Cur
}
