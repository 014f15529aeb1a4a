//go:build !linux

package fetch

type socket struct{}

// stale cannot tell on this system; see stale_linux.go.
func (c *conn) stale() bool { return false }
