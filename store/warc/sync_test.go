package warc

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// badDisk fails once, as systems do, when it is told to.
type badDisk struct{ sync, write, truncate atomic.Bool }

type badFile struct {
	*os.File
	disk *badDisk
}

func (d *badDisk) options(maxFile int64) Options {
	create := func(path string) (file, error) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		return badFile{f, d}, err
	}
	return Options{MaxFile: maxFile, MinFree: -1, Logger: silent, Info: testInfo,
		disk: disk{create: create}}
}

func failOnce(fail *atomic.Bool, otherwise func() error) error {
	if fail.CompareAndSwap(true, false) {
		return syscall.EIO
	}
	return otherwise()
}

func (f badFile) Sync() error { return failOnce(&f.disk.sync, f.File.Sync) }
func (f badFile) Truncate(n int64) error {
	return failOnce(&f.disk.truncate, func() error { return f.File.Truncate(n) })
}

func (f badFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = failOnce(&f.disk.write, func() error { n, err = f.File.WriteAt(b, at); return err })
	return n, err
}

// Once a file could not be synced, Sync does not say that everything is durable, also if the system
// has reported the error to another sync, or other files have followed.
func TestSyncFailure(t *testing.T) {
	t.Parallel()
	const small = 2000 // bytes: each exchange is in a file of its own
	for name, test := range map[string]struct {
		maxFile int64
		fail    func(t *testing.T, a *Archive, d *badDisk)
	}{
		"again": {1 << 20, func(t *testing.T, a *Archive, d *badDisk) {
			d.sync.Store(true)
			if err := a.Sync(); !errors.Is(err, syscall.EIO) {
				t.Errorf("Sync() = %v, want %v", err, syscall.EIO)
			}
		}},
		"checkpoint": {1 << 20, func(_ *testing.T, a *Archive, d *badDisk) {
			d.sync.Store(true)
			_ = a.do(func(w *writer) { w.checkpoint(w.current) })
			a.w.helpers.Wait()
		}},
		"later files": {small, func(t *testing.T, a *Archive, d *badDisk) {
			d.sync.Store(true)
			for i := range 4 {
				appendOne(t, a, page(i, 3000))
			}
		}},
		"abandoned": {1 << 20, func(t *testing.T, a *Archive, d *badDisk) {
			d.sync.Store(true)
			d.write.Store(true)
			d.truncate.Store(true)
			if _, err := a.Append(page(1, 300)); !errors.Is(err, syscall.EIO) {
				t.Errorf("Append() = %v, want %v", err, syscall.EIO)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, d := t.TempDir(), &badDisk{}
			a, err := Open(dir, d.options(test.maxFile))
			if err != nil {
				t.Fatal(err)
			}
			appendOne(t, a, page(0, 3000))
			if err := a.Sync(); err != nil {
				t.Fatal(err)
			}
			test.fail(t, a, d)
			for range 2 {
				if err := a.Sync(); !errors.Is(err, syscall.EIO) {
					t.Errorf("Sync() = %v, want %v", err, syscall.EIO)
				}
			}
			_ = a.Close() // it may return the error again
			a = open(t, dir, Options{})
			checkStrict(t, copyAll(t, &a.Reader))
			if err := a.Sync(); err != nil {
				t.Errorf("Sync() of the archive that was opened again: %v", err)
			}
			closeNow(t, a)
		})
	}
}
