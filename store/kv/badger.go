package kv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// tableSize is the size of badger's tables on all levels. During a compaction badger
// holds a dozen of them in memory; its default grows to 64 MiB each.
const tableSize = 512 << 10

// Exists reports whether dir contains a badger database.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	return err == nil
}

// Open opens the badger database in dir and creates it if it does not exist. The error
// wraps ErrLocked or ErrNoSpace, or comes from badger.
//
// Badger begins a new log when it replaces a memtable. The one before is synced first, so that a
// power failure loses no commit of it and keeps later ones.
func Open(dir string, o Options) (Engine, error) {
	space := newFreeSpace(dir)
	if err := space.checkOpen(); err != nil {
		return nil, err
	}
	if err := syncLogs(dir, true); err != nil { // of a process that was killed
		return nil, err
	}
	e := &badgerEngine{space: space}
	// Tables are not compressed: building one would take twice the memory, and blocks would be
	// cached beside the kernel's cache. Keys share their prefixes, and page records are compressed.
	opts := badger.DefaultOptions(dir).
		WithMemTableSize(o.MemTable).WithNumMemtables(2).WithNumLevelZeroTables(2).
		WithValueThreshold(o.Threshold).WithValueLogFileSize(128 << 20).
		WithBlockCacheSize(0).WithIndexCacheSize(o.IndexCache).
		WithBaseTableSize(tableSize).WithCompression(options.None).WithNumCompactors(2).
		WithDetectConflicts(false).WithMetricsEnabled(false).
		WithLogger(engineLog{badgerLog{o.Logger}, e})
	opts.TableSizeMultiplier = 1
	var err error
	e.b, err = badger.Open(opts)
	if err != nil {
		if strings.Contains(err.Error(), "Cannot acquire directory lock") {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, err
	}
	return e, nil
}

// badgerEngine is the engine of real peers.
type badgerEngine struct {
	b          *badger.DB
	space      *freeSpace
	compactors compactors // used by Run only

	syncing sync.Mutex // of logs, but not by badger
	failed  error      // of the first sync that failed
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

// Sync syncs values before the logs that refer to them. Once a sync has failed it fails always:
// what could not be written is lost, but the system may report it once only.
func (e *badgerEngine) Sync() error {
	err := e.syncLogs(false)
	if err == nil {
		err = e.failWith(e.b.Sync())
	}
	return err
}

// syncLogs is syncLogs for the logs of e.
func (e *badgerEngine) syncLogs(memtables bool) error {
	e.syncing.Lock()
	defer e.syncing.Unlock()
	if e.failed != nil {
		return fmt.Errorf("a sync has failed before; start the peer again: %w", e.failed)
	}
	err := syncLogs(e.space.dir, memtables)
	p := (*fs.PathError)(nil)
	if memtables || !errors.As(err, &p) || p.Op != "open" { // else it can be repeated
		e.failed = err
	}
	return err
}

// failWith makes all later syncs fail if err is not nil.
func (e *badgerEngine) failWith(err error) error {
	e.syncing.Lock()
	defer e.syncing.Unlock()
	e.failed = cmp.Or(e.failed, err)
	return err
}

// Extensions of the logs of memtables and of values. Badger numbers these files. It deletes the
// log of a memtable after it has written the memtable to a table and synced that.
const extLog, extValues = ".mem", ".vlog"

// syncLogs syncs the newest log of values, and with memtables the logs of all memtables, of which a
// few exist. Badger itself syncs a log of values when it replaces it, but not that of a memtable.
func syncLogs(dir string, memtables bool) error {
	files, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var values string
	var names []string
	for _, f := range files {
		switch filepath.Ext(f.Name()) {
		case extValues:
			values = f.Name()
		case extLog:
			if memtables {
				names = append(names, f.Name())
			}
		}
	}
	if values != "" {
		names = slices.Insert(names, 0, values)
	}
	for _, name := range names {
		err := syncFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync %s: %w", name, err)
		}
	}
	return nil
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

// maxMapped is the size of mapped files in memory, including the program itself, above which Run
// returns memory to the kernel, every trimInterval. It looks for values to reclaim every
// reclaimInterval.
const (
	maxMapped       = 40 << 20
	trimInterval    = time.Second
	reclaimInterval = 10 * time.Minute
)

// Run leaves the compactors running: nothing starts them afterwards, and without them writes would
// wait for ever once level 0 is full.
func (e *badgerEngine) Run(ctx context.Context) {
	values, memory := time.NewTicker(reclaimInterval), time.NewTicker(trimInterval)
	defer values.Stop()
	defer memory.Stop()
	defer func() { e.compactors.start(e.b, time.Now()) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-memory.C:
			e.compactors.update(e.b, time.Now())
			trim(e.space.dir, maxMapped)
		case <-values.C:
			for ctx.Err() == nil && e.reclaim() {
			}
		}
	}
}

// reclaim frees some disk space of values, and reports whether it found any. It may write for
// long, so the compactors run.
func (e *badgerEngine) reclaim() bool {
	e.compactors.start(e.b, time.Now())
	return e.space.reserve(maxReclaim) == nil && e.b.RunValueLogGC(0.5) == nil
}

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

// engineLog is the log of an engine.
type engineLog struct {
	badgerLog
	e *badgerEngine
}

// Debugf finds in a message when badger replaces a memtable, before the first write to the log of
// the new one, while nothing else can be written. There is no other way to learn it in time.
// TestReplacedMemtables notices if the message changes.
func (b engineLog) Debugf(f string, _ ...any) {
	if strings.HasPrefix(f, "Flushing memtable") {
		_ = b.e.syncLogs(true) // the next Sync returns the error
	}
}
