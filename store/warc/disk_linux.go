package warc

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// FreeDisk returns the number of bytes an unprivileged user can still write in dir.
func FreeDisk(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(min(s.Bavail, 1<<40)) * s.Bsize, nil
}

// dirLock is the locked file of a directory.
type dirLock struct{ *os.File }

// Close ends the lock. Closing the file is not enough: a process that another goroutine is just
// starting has the file open, too, until it runs its program.
func (l dirLock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}

// lock locks a directory for writing by this process until the lock is closed.
func lock(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return dirLock{f}, nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
