package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"

	"peerd/store/kv"
)

// chanMutex is a mutex made of a channel. A goroutine that waits for it is durably
// blocked in the sense of testing/synctest, so virtual time passes while the holder waits
// for a slow or paused disk.
type chanMutex chan struct{}

func (l chanMutex) Lock()   { l <- struct{}{} }
func (l chanMutex) Unlock() { <-l }

// openEngine also returns the size from which values are stored in the value log.
func openEngine(dir string, o Options) (e kv.Engine, threshold int64, err error) {
	ko := kv.Options{
		MemTable: o.MemTable, Threshold: valueThreshold(o.MemTable),
		IndexCache: o.IndexCache, Logger: o.Logger,
	}
	if o.Disk != nil {
		dir = "(in memory)"
		e, err = o.Disk.Open(ko)
	} else if err = ensureVersion(dir); err != nil {
		return nil, 0, err
	} else {
		e, err = kv.Open(dir, ko)
	}
	switch {
	case errors.Is(err, kv.ErrLocked):
		return nil, 0, fmt.Errorf("%w: %s", ErrLocked, dir)
	case err != nil:
		return nil, 0, fmt.Errorf("store: open %s: %w", dir, err)
	}
	return e, ko.Threshold, nil
}

// valueThreshold returns the size in bytes from which values are stored in the value log
// and no longer count towards the size of their transaction. It is 1 KiB, or less if the
// memtable is too small for a thousand URLs of that size. The keys that are written for
// one URL take at most 850 bytes: queued, seen, no longer pending.
func valueThreshold(memTable int64) int64 {
	limit := memTable * 15 / 100
	return min(max(limit/1000-850, 128), 1<<10)
}

// ensureVersion checks the version of the store in dir and writes it for a new store. It
// does so before badger creates its first file, so that a crash in between leaves no
// store without a version. The version is in a plain file, so that a store that this
// version of badger cannot open is refused with a clear message, too.
func ensureVersion(dir string) error {
	file := filepath.Join(dir, "VERSION")
	got, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		if kv.Exists(dir) {
			return versionError(dir, "no version")
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if err := renameio.WriteFile(file, []byte(Version+"\n"), 0o600); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if v := strings.TrimSpace(string(got)); v != Version {
		return versionError(dir, fmt.Sprintf("version %q", v))
	}
	return nil
}

// versionError says what was found in dir and what the operator can do about it.
func versionError(dir, found string) error {
	return fmt.Errorf("%w: %s has %s, this peerd needs version %q: "+
		"use the peerd that wrote it, or move the directory away to start with an empty store",
		ErrVersion, dir, found, Version)
}

// IsNoSpace reports whether err means that the disk or a quota has no space left: it is
// ErrNoSpace, or an error of the file system below the store or the archive. The caller
// may try again later.
func IsNoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT)
}
