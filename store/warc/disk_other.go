//go:build !linux

package warc

import (
	"math"
	"os"
	"path/filepath"
)

// FreeDisk is not known here: MinFree has no effect.
func FreeDisk(string) (int64, error) { return math.MaxInt64 / 2, nil }

// lock does not keep a second process out here.
func lock(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
}

// syncDir cannot be done everywhere; names become durable when the system likes.
func syncDir(string) error { return nil }
