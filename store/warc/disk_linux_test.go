package warc

import (
	"errors"
	"syscall"
	"testing"
)

// A lock ends when it is closed, although a process that is being started has its file open.
func TestLockEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("lock() of a locked directory: %v, want ErrLocked", err)
	}
	child, err := syscall.Dup(int(l.(dirLock).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lock(dir)
	if err != nil {
		t.Fatalf("lock() after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
