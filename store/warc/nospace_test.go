package warc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// faultyFile is a file on a disk with a limited number of free bytes.
type faultyFile struct {
	*os.File
	left *atomic.Int64

	truncateErr error
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if n := f.left.Add(-int64(len(b))); n < 0 {
		k := max(0, int64(len(b))+n)
		m, _ := f.File.WriteAt(b[:k], at)
		f.left.Store(0)
		return m, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(b, at)
}

func (f faultyFile) Truncate(n int64) error {
	if f.truncateErr != nil {
		return f.truncateErr
	}
	return f.File.Truncate(n)
}

// TestDiskFull uses disks of different sizes, with and without a working Truncate.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, truncateErr := range []error{nil, syscall.EIO} {
		for free := int64(0); free < 9000; free += 633 {
			t.Run(fmt.Sprint(free, truncateErr), func(t *testing.T) {
				t.Parallel() // waits for the disk most of the time
				dir := t.TempDir()
				var left atomic.Int64
				left.Store(free)
				a := open(t, dir, Options{disk: disk{create: func(path string) (file, error) {
					f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
					return faultyFile{f, &left, truncateErr}, err
				}}})
				var stored []Location
				refused := 0
				for i := range 12 {
					loc, err := a.Append(page(i, 300))
					if err != nil {
						wantErr(t, err, ErrNoSpace)
						refused++
						if i > 8 && free%2 == 0 {
							left.Store(1 << 20) // files were deleted
						}
						continue
					}
					stored = append(stored, loc)
				}
				if refused == 0 && free < 8000 || len(stored) == 0 && free%2 == 0 {
					t.Fatalf("%d exchanges were stored, %d refused, want some of each",
						len(stored), refused)
				}
				closeNow(t, a)
				if r, err := OpenReader(dir); err != nil || truncateErr == nil {
					checkStrict(t, copyAll(t, r)) // needs no repair
				}
				a = open(t, dir, Options{})
				checkStrict(t, copyAll(t, &a.Reader))
				checkIndexes(t, a)
				for _, loc := range stored {
					if _, err := a.ReadAt(loc); err != nil {
						t.Fatalf("ReadAt(%+v) = %v", loc, err)
					}
				}
				closeNow(t, a)
			})
		}
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const quota = 100 << 10
	for range 2 { // existing files count
		a := open(t, dir, Options{Quota: quota, MaxFile: 30 << 10})
		var err error
		for i := 0; err == nil && i < 1000; i++ {
			_, err = a.Append(page(i, 3000))
		}
		wantErr(t, err, ErrNoSpace)
		if s := a.Stats(); s.Refused != 1 || s.RefusedBytes == 0 || s.Bytes > quota {
			t.Errorf("Stats() = %+v, want one refused exchange and at most %d bytes", s, quota)
		}
		closeNow(t, a)
		var n int64
		for _, name := range names(t, dir) {
			n += int64(len(readFile(t, dir, name)))
		}
		if n > quota || n < quota*9/10 || n != a.Stats().Bytes {
			t.Errorf("%d bytes are on disk, Stats() = %+v, want 90 to 100 %% of %d", n, a.Stats(),
				quota)
		}
	}
	free := int64(5 << 20)
	a := open(t, t.TempDir(), Options{MinFree: 4 << 20,
		disk: disk{free: func(string) (int64, error) {
			return free, nil
		}}})
	appendOne(t, a, page(1, 3000))
	free = 4 << 20
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = a.Append(page(i, 20000))
	}
	wantErr(t, err, ErrNoSpace)
	if s := a.Stats(); s.Bytes > recheckFreeBytes+100<<10 {
		t.Errorf("%d bytes were written below MinFree, want at most %d", s.Bytes,
			recheckFreeBytes+100<<10)
	}
	free = 5 << 20
	appendOne(t, a, page(1, 3000))
}

// An exchange that does not fit is cut so that it just fits.
func TestCut(t *testing.T) {
	t.Parallel()
	const space = 200 << 10
	x := page(1, 0)
	x.Body = make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{1}).Read(x.Body)
	var a *Archive
	for name, o := range map[string]Options{
		"quota": {Quota: space},
		"disk": {MinFree: 1 << 20, disk: disk{free: func(string) (int64, error) {
			return 1<<20 + space - a.Stats().Bytes, nil
		}}},
	} {
		a = open(t, t.TempDir(), o)
		if same, err := a.Cut(page(2, 10)); err != nil || same.Truncated != "" {
			t.Errorf("%s: Cut() of what fits: truncated %q, %v", name, same.Truncated, err)
		}
		_, err := a.Append(x)
		wantErr(t, err, ErrNoSpace)
		cut, err := a.Cut(x)
		if err != nil || cut.Truncated != "length" || len(cut.Body) < space*9/10 {
			t.Fatalf("%s: Cut() = %d bytes, truncated %q, %v", name, len(cut.Body), cut.Truncated,
				err)
		}
		loc := appendOne(t, a, cut)
		if c, err := a.ReadAt(loc); err != nil || !bytes.Equal(c.Body, cut.Body) {
			t.Errorf("%s: ReadAt() = %v, want the body that was cut", name, err)
		}
		closeNow(t, a)
	}
}

// A full archive has space again within a minute after files were moved away.
func TestFilesMovedAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const quota = 100 << 10
		a := open(t, dir, Options{Quota: quota, MaxFile: 30 << 10, MinFree: -1})
		defer closeNow(t, a)
		fill := func() {
			t.Helper()
			var err error
			for i := 0; err == nil; i++ {
				_, err = a.Append(page(i, 3000))
			}
			wantErr(t, err, ErrNoSpace)
		}
		fill()
		synctest.Wait() // all but the last file are finished
		before := a.Recount()
		for _, name := range names(t, dir) {
			if strings.HasSuffix(name, warcSuffix) || strings.HasSuffix(name, ".cdxj") {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s := a.Recount(); s != before {
			t.Errorf("Recount() = %+v at once, want %+v", s, before)
		}
		time.Sleep(recountEvery)
		var held int64
		for _, name := range names(t, dir) {
			held += int64(len(readFile(t, dir, name)))
		}
		appendOne(t, a, page(1, 3000))
		if s := a.Stats(); s.Bytes < held+3000 || s.Bytes > held+8000 || s.Files != 1 {
			t.Errorf("Stats() = %+v, want 1 file and some more than %d bytes", s, held)
		}
		fill()
		if s := a.Stats(); s.Bytes > quota || s.Bytes < quota*9/10 {
			t.Errorf("Stats() = %+v", s)
		}
	})
}
