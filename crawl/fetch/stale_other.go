//go:build !linux

package fetch

type socket struct{}

// stale returns false: the check in stale_linux.go exists for Linux only.
func (c *conn) stale() bool { return false }
