package kv

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// tableSize is the size of badger's tables, on all levels: while it compacts it
// holds a dozen of them in memory, and its own default grows to 64 MiB each.
const tableSize = 1 << 20

// Exists says whether badger has begun to write files in dir.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	return err == nil
}

// Open opens the badger database in dir, and makes one there if there is none.
// It fails with ErrLocked or what badger says.
func Open(dir string, o Options) (Engine, error) {
	room := newSpace(dir)
	if err := room.open(); err != nil {
		return nil, err
	}
	opts := badger.DefaultOptions(dir).
		WithMemTableSize(o.MemTable).WithNumMemtables(2).WithNumLevelZeroTables(2).
		WithValueThreshold(o.Threshold).WithValueLogFileSize(128 << 20).
		WithBlockCacheSize(o.BlockCache).WithIndexCacheSize(o.IndexCache).
		WithBaseTableSize(tableSize).WithCompression(options.Snappy).WithNumCompactors(2).
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
	return &onBadger{b: b, room: room}, nil
}

// onBadger is the engine of peers that run.
type onBadger struct {
	b    *badger.DB
	room *space
}

func (e *onBadger) Begin(update bool) (Txn, error) {
	if e.b.IsClosed() { // NewTransaction would wait for ever
		return nil, ErrClosed
	}
	return &badgerTxn{e: e, t: e.b.NewTransaction(update)}, nil
}

func (e *onBadger) Limits() Limits {
	return Limits{Count: e.b.MaxBatchCount(), Bytes: e.b.MaxBatchSize()}
}

func (e *onBadger) Sync() error { return e.b.Sync() }

func (e *onBadger) Close() error { return e.b.Close() }

func (e *onBadger) Reclaim() bool {
	return e.room.take(reclaimMost) == nil && e.b.RunValueLogGC(0.5) == nil
}

func (e *onBadger) Trim(most int64) { trim(e.room.dir, most) }

type badgerTxn struct {
	e    *onBadger
	t    *badger.Txn
	size int64 // of what was written
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

func (x *badgerTxn) Each(prefix, start []byte, values bool, fn func([]byte, Item) (bool, error)) error {
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
		if err := x.e.room.take(x.size); err != nil {
			x.t.Discard()
			return err
		}
	}
	return x.t.Commit()
}

func (x *badgerTxn) Discard() { x.t.Discard() }

// badgerLog passes badger's warnings and errors on; its chatter is dropped.
type badgerLog struct{ l *slog.Logger }

func (b badgerLog) log(level slog.Level, f string, a ...any) {
	if b.l != nil {
		b.l.Log(context.Background(), level, "badger", "text", strings.TrimSpace(fmt.Sprintf(f, a...)))
	}
}
func (b badgerLog) Errorf(f string, a ...any)   { b.log(slog.LevelError, f, a...) }
func (b badgerLog) Warningf(f string, a ...any) { b.log(slog.LevelWarn, f, a...) }
func (b badgerLog) Infof(string, ...any)        {}
func (b badgerLog) Debugf(string, ...any)       {}
