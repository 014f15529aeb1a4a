package kv

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"peerd/store/warc"
)

// Badger writes into mapped files with holes. On a full file system that is no
// error but a SIGBUS, which no Go program survives, and after it badger may not
// even open. So writes are refused while there is still room for what badger
// does by itself: writing out memtables, compacting.
const (
	reserve     = 64 << 20 // bytes that stay free
	openReserve = 32 << 20 // that must be free to open: less, so that who was refused can come back
	reclaimMost = 64 << 20 // what Reclaim may write before it gives something back
	lookBytes   = 1 << 20  // of writes after which to look again
	lookEvery   = 200 * time.Millisecond
)

// space knows how much room there is in a folder. Its methods may be called at
// once.
type space struct {
	dir  string
	free func(dir string) (int64, error)

	mu    sync.Mutex
	at    time.Time // when last looked
	since int64     // bytes written since
	left  int64     // bytes above reserve when last looked, minus those
}

func newSpace(dir string) *space { return &space{dir: dir, free: warc.FreeDisk} }

// open says whether there is room enough to open the store.
func (s *space) open() error {
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < openReserve {
		return fullError(s.dir, free, openReserve)
	}
	return nil
}

// take says whether n more bytes may be written, and counts them. Who is
// refused may ask again: it looks anew.
func (s *space) take(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.left < n || s.since+n > lookBytes || now.Sub(s.at) > lookEvery {
		free, err := s.free(s.dir)
		if err != nil {
			return err
		}
		s.at, s.since, s.left = now, 0, free-reserve
		if s.left < n {
			return fullError(s.dir, free, reserve+n)
		}
	}
	s.since += n
	s.left -= n
	return nil
}

func fullError(dir string, free, want int64) error {
	return fmt.Errorf("%w: %s has %d bytes free, of %d needed: %w", ErrFull, dir, free, want, syscall.ENOSPC)
}
