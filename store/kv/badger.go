package kv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// tableSize is the size of badger's tables on all levels. During a compaction badger
// holds a dozen of them in memory; its default grows to 64 MiB each.
const tableSize = 512 << 10

// Exists reports whether dir contains a badger database.
func Exists(dir string) bool {
	return exists(filepath.Join(dir, badger.ManifestFilename))
}

// Open opens the badger database in dir and creates it if it does not exist. The error
// wraps ErrLocked or ErrNoSpace, or comes from badger.
func Open(dir string, o Options) (Engine, error) {
	space := newFreeSpace(dir)
	if err := space.checkOpen(); err != nil {
		return nil, err
	}
	// Tables are not compressed: building one would take twice the memory, and blocks would be
	// cached beside the kernel's cache. Keys share their prefixes, and page records are compressed.
	opts := badger.DefaultOptions(dir).
		WithMemTableSize(o.MemTable).WithNumMemtables(2).WithNumLevelZeroTables(2).
		WithValueThreshold(o.Threshold).WithValueLogFileSize(128 << 20).
		WithBlockCacheSize(0).WithIndexCacheSize(o.IndexCache).
		WithBaseTableSize(tableSize).WithCompression(options.None).WithNumCompactors(2).
		WithDetectConflicts(false).WithMetricsEnabled(false).
		WithLogger(badgerLog{o.Logger})
	opts.TableSizeMultiplier = 1
	b, err := badger.Open(opts)
	if err != nil {
		if strings.Contains(err.Error(), "Cannot acquire directory lock") {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, err
	}
	return &badgerEngine{b: b, space: space}, nil
}

// badgerEngine is the engine of real peers.
type badgerEngine struct {
	b     *badger.DB
	space *freeSpace
	// newest is the number of the newest log of a memtable when all logs were on the disk last.
	newest atomic.Int64
}

func (e *badgerEngine) Begin(update bool) (Txn, error) {
	if e.b.IsClosed() { // NewTransaction would block forever
		return nil, ErrClosed
	}
	return &badgerTxn{e: e, t: e.b.NewTransaction(update)}, nil
}

func (e *badgerEngine) Limits() Limits {
	return Limits{Count: e.b.MaxBatchCount(), Bytes: e.b.MaxBatchSize()}
}

// Sync also syncs the logs of memtables that badger has replaced and not yet written to tables.
// Badger itself syncs only that of the current memtable.
func (e *badgerEngine) Sync() error {
	if err := e.b.Sync(); err != nil {
		return err
	}
	if n := e.newest.Load(); exists(e.log(n)) && !exists(e.log(n+1)) {
		return nil // none was replaced since
	}
	logs, err := filepath.Glob(filepath.Join(e.space.dir, "*"+extLog))
	if err != nil {
		return err
	}
	var newest int64
	for _, name := range logs {
		if err := syncFile(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync %s: %w", name, err)
		}
		n, _ := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), extLog), 10, 64)
		newest = max(newest, n)
	}
	e.newest.Store(newest)
	return nil
}

// extLog is the extension of the logs of memtables, which badger numbers. It deletes one after it
// has written the memtable to a table and synced that.
const extLog = ".mem"

func (e *badgerEngine) log(n int64) string {
	return filepath.Join(e.space.dir, fmt.Sprintf("%05d", n)+extLog)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// syncFile syncs a file, also what was written to it through a mapping.
func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (e *badgerEngine) Close() error { return e.b.Close() }

func (e *badgerEngine) Reclaim() bool {
	return e.space.reserve(maxReclaim) == nil && e.b.RunValueLogGC(0.5) == nil
}

func (e *badgerEngine) Trim(limit int64) { trim(e.space.dir, limit) }

type badgerTxn struct {
	e    *badgerEngine
	t    *badger.Txn
	size int64 // of the writes
}

func (x *badgerTxn) Get(key []byte) (Item, error) {
	it, err := x.t.Get(key)
	if err != nil {
		return nil, err
	}
	return it, nil
}

func (x *badgerTxn) Set(key, val []byte) error {
	x.size += int64(len(key) + len(val))
	return x.t.Set(key, val)
}

func (x *badgerTxn) Delete(key []byte) error {
	x.size += int64(len(key))
	return x.t.Delete(key)
}

func (x *badgerTxn) Each(
	prefix, start []byte, values bool, fn func([]byte, Item) (bool, error),
) error {
	o := badger.DefaultIteratorOptions
	o.Prefix = prefix
	o.PrefetchValues = values
	o.PrefetchSize = 16
	it := x.t.NewIterator(o)
	defer it.Close()
	if start == nil {
		start = prefix
	}
	for it.Seek(start); it.Valid(); it.Next() {
		more, err := fn(it.Item().KeyCopy(nil), it.Item())
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (x *badgerTxn) Commit() error {
	if x.size > 0 {
		if err := x.e.space.reserve(x.size); err != nil {
			x.t.Discard()
			return err
		}
	}
	return x.t.Commit()
}

func (x *badgerTxn) Discard() { x.t.Discard() }

// badgerLog forwards badger's warnings and errors to a slog.Logger.
type badgerLog struct{ l *slog.Logger }

func (b badgerLog) log(level slog.Level, f string, a ...any) {
	if b.l != nil {
		b.l.Log(context.Background(), level, "received message from badger",
			"text", strings.TrimSpace(fmt.Sprintf(f, a...)))
	}
}
func (b badgerLog) Errorf(f string, a ...any)   { b.log(slog.LevelError, f, a...) }
func (b badgerLog) Warningf(f string, a ...any) { b.log(slog.LevelWarn, f, a...) }
func (b badgerLog) Infof(string, ...any)        {}
func (b badgerLog) Debugf(string, ...any)       {}
