package kv

import (
	"errors"
	"log/slog"

	"github.com/dgraph-io/badger/v4"
)

// The errors of both engines. They are badger's own where it has one, so that
// they need not be translated.
var (
	// ErrNotFound is returned by Txn.Get when there is no such key.
	ErrNotFound = badger.ErrKeyNotFound
	// ErrTooBig is returned by Set and Delete when the transaction would grow
	// beyond Limits. What it held before can still be committed.
	ErrTooBig = badger.ErrTxnTooBig
	// ErrReadOnly is returned by Set and Delete in a view.
	ErrReadOnly = badger.ErrReadOnlyTxn
	// ErrClosed is returned by everything after Close, and after the process
	// has been ended on its Disk.
	ErrClosed = badger.ErrDBClosed
	// ErrEmptyKey is returned for a key of no bytes.
	ErrEmptyKey = badger.ErrEmptyKey
	// ErrFull is returned when there is no room on the disk: by Commit, which
	// then has written nothing and may succeed as soon as there is room again,
	// and by Open. It comes with syscall.ENOSPC.
	ErrFull = errors.New("kv: no room")
	// ErrLocked is returned by Open when the store is open already.
	ErrLocked = errors.New("kv: in use")
)

// Options tunes an engine. Zero values are errors.
type Options struct {
	// MemTable is the size of badger's memtable in bytes; what one transaction
	// writes is limited to 15 % of it.
	MemTable int64
	// Threshold is the size in bytes from which on a value goes to the value
	// log, and counts as 12 bytes in its transaction.
	Threshold int64
	// BlockCache and IndexCache bound badger's caches in bytes.
	BlockCache, IndexCache int64
	// Logger receives badger's warnings. Nil discards them.
	Logger *slog.Logger
}

// Engine is an open ordered map. All methods may be called at once.
type Engine interface {
	// Begin opens a transaction, which must be discarded. It sees what was
	// committed before and nothing of what is committed later. There is no
	// check for conflicts: of two transactions that write the same key the one
	// that commits last wins.
	Begin(update bool) (Txn, error)
	// Limits says how much one transaction may write.
	Limits() Limits
	// Sync returns when all that was committed before is on the disk itself.
	Sync() error
	// Close syncs and closes. Nothing may be under way; a second Close does
	// nothing.
	Close() error
	// Reclaim gives back some of the space of values that were overwritten or
	// deleted, and says whether it found any.
	Reclaim() bool
	// Trim gives back the memory of mapped files if it is more than most bytes.
	Trim(most int64)
}

// Limits of one transaction: both the number of writes and their bytes must
// stay below, each write counted with 12 bytes on top of key and value.
type Limits struct{ Count, Bytes int64 }

// Txn is one transaction. It is used by one goroutine.
type Txn interface {
	// Get returns the value of key, or ErrNotFound; in an update, as it was
	// written here.
	Get(key []byte) (Item, error)
	// Set writes. Neither key nor val may be changed before the transaction
	// ends.
	Set(key, val []byte) error
	// Delete removes key; one that is not there may be removed too.
	Delete(key []byte) error
	// Each calls fn for every key that begins with prefix, from start on, in
	// the order of bytes, until it returns false or an error, which Each then
	// returns. prefix is not empty, start either nil or begins with it. The key
	// is fn's to keep, the item good only until fn returns. values says that fn
	// wants most of the values. What fn writes is not seen by the Each under way.
	Each(prefix, start []byte, values bool, fn func(key []byte, it Item) (bool, error)) error
	// Commit makes the writes visible, all or none of them, and ends the
	// transaction. They survive the process; the machine only with Sync.
	Commit() error
	// Discard ends the transaction without writing. After Commit or another
	// Discard it does nothing.
	Discard()
}

// Item is a value that has been found.
type Item interface {
	// Value calls fn with the value, which is good only until fn returns and
	// must not be changed.
	Value(fn func([]byte) error) error
	// ValueCopy appends the value to dst[:0]; the result is the caller's.
	ValueCopy(dst []byte) ([]byte, error)
}
