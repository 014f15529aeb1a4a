package kv

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dgraph-io/badger/v4"
)

// The errors of both engines. Where badger has an error, it is used as it is.
var (
	// ErrNotFound is returned by Txn.Get if there is no such key.
	ErrNotFound = badger.ErrKeyNotFound
	// ErrTooBig is returned by Set and Delete if the transaction would exceed Limits.
	// The previous writes can still be committed.
	ErrTooBig = badger.ErrTxnTooBig
	// ErrReadOnly is returned by Set and Delete in a read-only transaction.
	ErrReadOnly = badger.ErrReadOnlyTxn
	// ErrClosed is returned by all methods after Close, or after the process was ended
	// on its Disk.
	ErrClosed = badger.ErrDBClosed
	// ErrEmptyKey is returned for an empty key.
	ErrEmptyKey = badger.ErrEmptyKey
	// ErrNoSpace is returned by Open and Commit if the disk has no space left. Commit
	// has written nothing then, and a later one may succeed. The error also wraps
	// syscall.ENOSPC.
	ErrNoSpace = errors.New("kv: no space left")
	// ErrLocked is returned by Open if the store is open already.
	ErrLocked = errors.New("kv: in use")
)

// Options configures an engine. All fields except Logger must be set.
type Options struct {
	// MemTable is the size of badger's memtable in bytes. The writes of one transaction
	// are limited to 15 % of it.
	MemTable int64
	// Threshold is the size in bytes from which a value is stored in the value log. Such
	// a value counts as 12 bytes in its transaction.
	Threshold int64
	// IndexCache is the size of badger's cache of indices in bytes.
	IndexCache int64
	// Logger receives badger's warnings. Nil discards them.
	Logger *slog.Logger
}

// Engine is an open ordered key-value store. Its methods are safe for concurrent use.
type Engine interface {
	// Begin opens a transaction, which the caller must discard. It sees what was
	// committed before and nothing that is committed later. Conflicts are not detected:
	// if two transactions write the same key, the one that commits last wins.
	Begin(update bool) (Txn, error)
	// Limits returns the limits of one transaction.
	Limits() Limits
	// Sync returns when all earlier commits are on the disk.
	Sync() error
	// Close syncs and closes the engine. No other method may be running. A second call
	// does nothing.
	Close() error
	// Run maintains the store until ctx ends: it releases memory of mapped files, frees disk
	// space of values that were overwritten or deleted, and stops goroutines of the engine that
	// have nothing to do.
	Run(ctx context.Context)
}

// Limits are the limits of one transaction. The number of writes and their size must
// stay below them. Each write counts with key, value and 12 bytes.
type Limits struct{ Count, Bytes int64 }

// Txn is a transaction, for use by one goroutine.
type Txn interface {
	// Get returns the value of key, or ErrNotFound. It sees the writes of the
	// transaction.
	Get(key []byte) (Item, error)
	// Set sets the value of key. The caller must not change key and val before the end
	// of the transaction.
	Set(key, val []byte) error
	// Delete deletes key, which need not exist.
	Delete(key []byte) error
	// Each calls fn for every key that begins with prefix, from start on, in byte order,
	// until fn returns false or an error. Each returns that error. prefix must not be
	// empty; start must be nil or begin with prefix. fn may keep the key; the item is
	// valid until fn returns. values is a hint that fn reads most of the values. Each
	// does not see writes of fn.
	Each(prefix, start []byte, values bool, fn func(key []byte, it Item) (bool, error)) error
	// Commit makes all writes visible, or none of them, and ends the transaction. The
	// writes survive the process at once, and a power failure after Sync. Of what was committed
	// since, a power failure keeps the first transactions and loses the others, but a value
	// above Options.Threshold of one of the first may be unreadable.
	Commit() error
	// Discard ends the transaction without writing. After Commit or Discard it does
	// nothing.
	Discard()
}

// Item is a value found in a transaction.
type Item interface {
	// Value calls fn with the value, which fn must not change and must not use after
	// it returns.
	Value(fn func([]byte) error) error
	// ValueCopy appends the value to dst[:0] and returns the result.
	ValueCopy(dst []byte) ([]byte, error)
}
