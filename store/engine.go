package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"peerd/store/kv"
)

// A lock is a mutex that is a channel: who waits for it within a bubble of
// testing/synctest lets virtual time go on, as its holder may be waiting for a
// disk that is slow or stopped.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// openEngine also returns the size from which on values are kept apart.
func openEngine(dir string, o Options) (e kv.Engine, threshold int64, err error) {
	ko := kv.Options{
		MemTable: o.MemTable, Threshold: valueThreshold(o.MemTable),
		BlockCache: o.BlockCache, IndexCache: o.IndexCache, Logger: o.Logger,
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

// valueThreshold is the size in bytes from which on a value goes to the value
// log and no longer counts in its transaction: 1 KiB, less with a memtable so
// small that a thousand URLs just below that would not fit. 850 bytes are what
// the keys of one URL take at most: queued, marked as seen, no more deferred.
func valueThreshold(memTable int64) int64 {
	limit := memTable * 15 / 100
	return min(max(limit/1000-850, 128), 1<<10)
}

// ensureVersion checks the version of the store in dir, or writes it for a new
// one. That comes before badger makes its first file, so that a crash in
// between leaves no store without a version. The version stands in a plain
// file: a store that this badger could not even open is still refused with the
// right words.
func ensureVersion(dir string) error {
	file := filepath.Join(dir, "VERSION")
	got, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		if kv.Exists(dir) {
			return fmt.Errorf("%w: %s has no VERSION; move it away to start anew", ErrVersion, dir)
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
		return fmt.Errorf("%w: %s holds %q, this is %q; move it away or use the peerd that wrote it", ErrVersion, dir, v, Version)
	}
	return nil
}
