package store

import (
	"errors"
	"syscall"
)

// IsFull says whether err means that there is no room: ErrFull, or what the file
// system itself says below the archive and the store. Who gets it may try again
// later.
func IsFull(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
