//go:build !linux

package warc

import (
	"io"
	"math"
	"os"
	"path/filepath"
)

// FreeDisk is supported on Linux only; elsewhere MinFree has no effect.
func FreeDisk(string) (int64, error) { return math.MaxInt64 / 2, nil }

// lock does not exclude other processes on this platform.
func lock(dir string) (io.Closer, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
}

// syncDir does nothing, because not all platforms support it.
func syncDir(string) error { return nil }
