package bounded_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"peerd/internal/bounded"
)

func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := bounded.ReadFile(name, 3); err != nil || string(b) != "abc" {
		t.Errorf("ReadFile(3) = %q, %v, want all", b, err)
	}
	_, err := bounded.ReadFile(name, 2)
	if want := name + ": larger than 2 bytes"; !errors.Is(err, bounded.ErrTooLarge) ||
		err.Error() != want {
		t.Errorf("ReadFile(2) = %v, want %s", err, want)
	}
	if _, err := bounded.ReadFile(name+"x", 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile() of a missing file = %v, want ErrNotExist", err)
	}
}
