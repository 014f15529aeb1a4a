//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// openFiles returns how many files this process may open.
func openFiles() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return minFiles
	}
	return l.Cur
}
