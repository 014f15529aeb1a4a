//go:build !linux && !darwin

package config

// OpenFiles returns how many files a process may usually open.
func OpenFiles() uint64 { return usualOpenFiles }
