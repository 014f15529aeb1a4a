package kv

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The badger engine refuses writes before the disk is full, and works again when there is
// space.
func TestNoSpace(t *testing.T) {
	opened, err := Open(t.TempDir(), small)
	must(t, err)
	defer opened.Close()
	e := opened.(*badgerEngine)
	free, checks := int64(minFree+500), 0
	e.space.free = func(string) (int64, error) { checks++; return free, nil }
	must(t, put(e, "k", string(make([]byte, 300))))
	must(t, put(e, "k", string(make([]byte, 300)))) // checks again: free has not changed
	free -= 400
	for range 3 {
		err := put(e, "k", string(make([]byte, 300)))
		wantErr(t, err, ErrNoSpace)
		wantErr(t, err, syscall.ENOSPC)
	}
	if e.reclaim() {
		t.Error("reclaim() without free space = true, want false")
	}
	if got := get(t, e, "k"); len(got) != 300 {
		t.Errorf("k has %d bytes, want 300", len(got))
	}
	x := begin(t, e, true)
	must(t, x.Commit()) // no writes
	free = 1 << 30
	must(t, put(e, "k", "v"))
	checks = 0
	start := time.Now()
	for range 50 {
		must(t, put(e, "k", string(make([]byte, 1000))))
	}
	if most := 5 + int(time.Since(start)/recheckInterval); checks > most {
		t.Errorf("50 commits checked the disk %d times, want at most %d", checks, most)
	}
	broken := errors.New("broken")
	e.space.free = func(string) (int64, error) { return 0, broken }
	wantErr(t, put(e, "k", string(make([]byte, recheckBytes))), broken)
}

// Other processes may fill the disk, so it is checked again after some time.
func TestFreeSpaceIsRechecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFreeSpace(t.TempDir())
		free := int64(10 << 30)
		s.free = func(string) (int64, error) { return free, nil }
		must(t, s.reserve(1))
		free = minFreeToOpen
		must(t, s.reserve(1))
		time.Sleep(2 * recheckInterval)
		wantErr(t, s.reserve(1), ErrNoSpace)
		must(t, s.checkOpen())
		free--
		wantErr(t, s.checkOpen(), ErrNoSpace)
	})
}
