package kv

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"peerd/store/warc"
)

// Badger writes to sparse mapped files. If the file system is full, such a write is not
// an error but a SIGBUS, which terminates a Go program, and badger may not be able to
// open the database afterwards. So writes are refused while there is still space for
// what badger writes by itself: memtables and compactions.
const (
	minFree         = 64 << 20 // bytes that stay free
	minFreeToOpen   = 32 << 20 // less than minFree, so that a peer can restart
	maxReclaim      = 64 << 20 // bytes that reclaim may write before it frees any
	recheckBytes    = 1 << 20  // written bytes after which the disk is checked again
	recheckInterval = 200 * time.Millisecond
)

// freeSpace tracks the free space of the disk of a directory. Its methods are safe for
// concurrent use.
type freeSpace struct {
	dir  string
	free func(dir string) (int64, error)

	mu      sync.Mutex
	at      time.Time // last check of the disk
	written int64     // bytes reserved since then
	left    int64     // bytes above minFree at that check, minus written
}

func newFreeSpace(dir string) *freeSpace { return &freeSpace{dir: dir, free: warc.FreeDisk} }

// checkOpen returns an error if there is not enough free space to open the store.
func (s *freeSpace) checkOpen() error {
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < minFreeToOpen {
		return noSpaceError(s.dir, free, minFreeToOpen)
	}
	return nil
}

// reserve accounts for n bytes that are about to be written, or returns an error if there
// is not enough free space. It checks the disk before it refuses.
func (s *freeSpace) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.left < n || s.written+n > recheckBytes ||
		now.Sub(s.at) > recheckInterval {
		free, err := s.free(s.dir)
		if err != nil {
			return err
		}
		s.at, s.written, s.left = now, 0, free-minFree
		if s.left < n {
			return noSpaceError(s.dir, free, minFree+n)
		}
	}
	s.written += n
	s.left -= n
	return nil
}

func noSpaceError(dir string, free, want int64) error {
	return fmt.Errorf("%w: %s has %d bytes free, need %d: %w", ErrNoSpace, dir, free, want,
		syscall.ENOSPC)
}
