package warc

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// faulty is a file on a disk that has so many bytes left.
type faulty struct {
	*os.File
	left *atomic.Int64
	cut  error // of Truncate
}

func (f faulty) WriteAt(b []byte, at int64) (int, error) {
	if n := f.left.Add(-int64(len(b))); n < 0 {
		k := max(0, int64(len(b))+n)
		m, _ := f.File.WriteAt(b[:k], at)
		f.left.Store(0)
		return m, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(b, at)
}

func (f faulty) Truncate(n int64) error {
	if f.cut != nil {
		return f.cut
	}
	return f.File.Truncate(n)
}

// TestDiskFull lets the disk end at every so many bytes, with and without a
// truncate that works.
func TestDiskFull(t *testing.T) {
	for _, cutErr := range []error{nil, syscall.EIO} {
		for room := int64(0); room < 9000; room += 211 {
			t.Run(fmt.Sprint(room, cutErr), func(t *testing.T) {
				t.Parallel() // each waits for the disk most of the time
				dir := t.TempDir()
				var left atomic.Int64
				left.Store(room)
				a := open(t, dir, Options{disk: disk{create: func(path string) (file, error) {
					f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
					return faulty{f, &left, cutErr}, err
				}}})
				var stored []Location
				full := 0
				for i := range 12 {
					loc, err := a.Append(page(i, 300))
					if err != nil {
						wantErr(t, err, ErrFull)
						full++
						if i > 8 && room%2 == 0 {
							left.Store(1 << 20) // somebody tidies up
						}
						continue
					}
					stored = append(stored, loc)
				}
				if full == 0 && room < 8000 || len(stored) == 0 && room%2 == 0 {
					t.Fatalf("room %d: %d stored, %d refused", room, len(stored), full)
				}
				closeNow(t, a)
				if r, err := OpenReader(dir); err != nil || cutErr == nil {
					checkStrict(t, whole(t, r)) // nothing is there to be repaired
				}
				a = open(t, dir, Options{})
				checkStrict(t, whole(t, &a.Reader))
				checkIndexes(t, a)
				for _, loc := range stored {
					if _, err := a.ReadAt(loc); err != nil {
						t.Fatalf("room %d: %v", room, err)
					}
				}
				closeNow(t, a)
			})
		}
	}
}

func TestQuota(t *testing.T) {
	dir := t.TempDir()
	const quota = 100 << 10
	for range 2 { // what is there at Open counts
		a := open(t, dir, Options{Quota: quota, MaxFile: 30 << 10})
		var err error
		for i := 0; err == nil && i < 1000; i++ {
			_, err = a.Append(page(i, 3000))
		}
		wantErr(t, err, ErrFull)
		if s := a.Stats(); s.Refused != 1 || s.RefusedBytes == 0 || s.Bytes > quota {
			t.Errorf("%+v", s)
		}
		closeNow(t, a)
		var n int64
		for _, name := range names(t, dir) {
			n += int64(len(readFile(t, dir, name)))
		}
		if n > quota || n < quota*9/10 || n != a.Stats().Bytes {
			t.Errorf("%d bytes on disk, %+v", n, a.Stats())
		}
	}
	free := int64(5 << 20)
	a := open(t, t.TempDir(), Options{MinFree: 4 << 20, disk: disk{free: func(string) (int64, error) { return free, nil }}})
	appendOne(t, a, page(1, 3000))
	free = 4 << 20
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = a.Append(page(i, 20000))
	}
	wantErr(t, err, ErrFull)
	if s := a.Stats(); s.Bytes > freeEvery+100<<10 {
		t.Errorf("%d bytes were written below the limit", s.Bytes)
	}
	free = 5 << 20
	appendOne(t, a, page(1, 3000))
}
