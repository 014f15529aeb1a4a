// Package bounded reads files that must not be large.
package bounded

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrTooLarge is matched by the error for a file that is larger than it may be.
var ErrTooLarge = errors.New("larger")

// ReadFile returns the content of a file of at most a number of bytes. Its errors name the file.
func ReadFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s: %w than %d bytes", name, ErrTooLarge, most)
	}
	return b, nil
}
