package store

import (
	"errors"
	"syscall"
)

// IsNoSpace reports whether err means that the disk or a quota has no space left: it is
// ErrNoSpace, or an error of the file system below the store or the archive. The caller
// may try again later.
func IsNoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT)
}
