package kv

import (
	"errors"
	"syscall"
	"testing"
)

// Badger is not let near the end of the disk, says so in good time, and goes on
// when there is room again.
func TestNoRoom(t *testing.T) {
	opened, err := Open(t.TempDir(), small)
	must(t, err)
	defer opened.Close()
	e := opened.(*onBadger)
	free, looks := int64(reserve+500), 0
	e.room.free = func(string) (int64, error) { looks++; return free, nil }
	must(t, put(e, "k", string(make([]byte, 300))))
	err = put(e, "k", string(make([]byte, 300))) // it looks again: there is as much as before
	must(t, err)
	free -= 400
	for range 3 {
		err = put(e, "k", string(make([]byte, 300)))
		wantErr(t, err, ErrFull)
		wantErr(t, err, syscall.ENOSPC)
	}
	if e.Reclaim() {
		t.Error("space is reclaimed where there is none for it")
	}
	if got := get(t, e, "k"); len(got) != 300 {
		t.Errorf("k has %d bytes", len(got))
	}
	x := begin(t, e, true)
	must(t, x.Commit()) // of nothing
	free = 1 << 30
	must(t, put(e, "k", "v"))
	looks = 0
	for range 50 {
		must(t, put(e, "k", string(make([]byte, 1000))))
	}
	if looks > 5 {
		t.Errorf("it looked %d times", looks)
	}
	broken := errors.New("broken")
	e.room.free = func(string) (int64, error) { return 0, broken }
	wantErr(t, put(e, "k", string(make([]byte, lookBytes))), broken)
}

// Others fill the disk too.
func TestRoomIsLookedAtAgain(t *testing.T) {
	s := newSpace(t.TempDir())
	free := int64(10 << 30)
	s.free = func(string) (int64, error) { return free, nil }
	must(t, s.take(1))
	free = openReserve
	must(t, s.take(1))
	s.at = s.at.Add(-2 * lookEvery)
	wantErr(t, s.take(1), ErrFull)
	must(t, s.open())
	free--
	wantErr(t, s.open(), ErrFull)
}
