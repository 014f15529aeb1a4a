package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/fxamacker/cbor/v2"
	"github.com/google/renameio/v2"
)

// Version is the version of the layout on disk. A store of another version is
// refused, never converted in silence.
const Version = "peerd-store-2"

var (
	// ErrNotFound is returned when there is no such record.
	ErrNotFound = errors.New("store: not found")
	// ErrLocked is returned by Open when another process has the store open.
	ErrLocked = errors.New("store: in use by another process")
	// ErrVersion is returned by Open for a store of another version.
	ErrVersion = errors.New("store: written by another version of peerd")
	// ErrCorrupt is returned when a record cannot be read.
	ErrCorrupt = errors.New("store: corrupt record")
)

// Options tunes a DB.
type Options struct {
	// MemTable is the size of badger's memtable in bytes; what one transaction
	// writes is limited to 15 % of it, values in the value log not counted.
	// From 8 MiB on, a thousand Pushes (with an Undefer each) fit whatever the
	// length of their URLs. Zero means 8 MiB. Badger may hold three of them.
	MemTable int64
	// BlockCache and IndexCache bound badger's caches in bytes. Zero means
	// 16 MiB each.
	BlockCache, IndexCache int64
	// InMemory keeps nothing on disk: for tests.
	InMemory bool
	// Logger receives badger's warnings. Nil discards them.
	Logger *slog.Logger
}

// DB is one open store. All methods may be called at once.
type DB struct {
	b         *badger.DB
	threshold int64 // of values that go to the value log

	mu  sync.Mutex // serialises Update and Batch: transactions never conflict
	seq uint64     // the last place given out in a queue; under mu

	bmu     sync.Mutex
	calls   []*call // waiting for their Batch
	leading bool    // somebody runs calls, or is about to

	seen seenCache

	cmu      sync.Mutex
	counters Counters
	named    map[string]int64
}

// tableSize is the size of badger's tables, on all levels: while it compacts it
// holds a dozen of them in memory, and its own default grows to 64 MiB each.
const tableSize = 1 << 20

// Open opens the store in dir, and makes one there if there is none. It fails
// with ErrLocked, ErrVersion or what the file system says.
func Open(dir string, o Options) (*DB, error) {
	if o.MemTable == 0 {
		o.MemTable = 8 << 20
	}
	if o.BlockCache == 0 {
		o.BlockCache = 16 << 20
	}
	if o.IndexCache == 0 {
		o.IndexCache = 16 << 20
	}
	if !o.InMemory {
		if err := ensureVersion(dir); err != nil {
			return nil, err
		}
	}
	opts := badger.DefaultOptions(dir).
		WithMemTableSize(o.MemTable).WithNumMemtables(2).WithNumLevelZeroTables(2).
		WithValueThreshold(valueThreshold(o)).WithValueLogFileSize(128 << 20).
		WithBlockCacheSize(o.BlockCache).WithIndexCacheSize(o.IndexCache).
		WithBaseTableSize(tableSize).WithCompression(options.Snappy).WithNumCompactors(2).
		WithDetectConflicts(false).WithMetricsEnabled(false).
		WithLogger(badgerLog{o.Logger})
	opts.TableSizeMultiplier = 1
	if o.InMemory {
		opts = opts.WithDir("").WithValueDir("").WithInMemory(true)
	}
	b, err := badger.Open(opts)
	if err != nil {
		if strings.Contains(err.Error(), "Cannot acquire directory lock") {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, fmt.Errorf("store: open %s: %w", dir, err)
	}
	d := &DB{b: b, threshold: valueThreshold(o), seen: newSeenCache()}
	if err := d.loadLedger(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return d, nil
}

// valueThreshold is the size in bytes from which on a value goes to the value
// log and no longer counts in its transaction: 1 KiB, less with a memtable so
// small that a thousand URLs just below that would not fit. 850 bytes are what
// the keys of one URL take at most: queued, marked as seen, no more deferred.
func valueThreshold(o Options) int64 {
	limit := o.MemTable * 15 / 100
	if o.InMemory { // there is no value log: a larger value would be refused
		return min(1<<20, limit)
	}
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
		if _, err := os.Stat(filepath.Join(dir, badger.ManifestFilename)); err == nil {
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

// Close writes everything out and closes the store. Nothing may be under way;
// a second Close does nothing.
func (d *DB) Close() error { return d.b.Close() }

// mappedMost is how much memory mapped tables may take before it is given back,
// at intervals of trimEvery; the program itself is part of it.
const (
	mappedMost = 48 << 20
	trimEvery  = 3 * time.Second
)

// Run does the store's housekeeping until ctx ends: it gives back the space of
// values that were overwritten or deleted, and memory.
func (d *DB) Run(ctx context.Context) error {
	values, memory := time.NewTicker(10*time.Minute), time.NewTicker(trimEvery)
	defer values.Stop()
	defer memory.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-memory.C:
			d.trim(mappedMost)
		case <-values.C:
			for ctx.Err() == nil && d.b.RunValueLogGC(0.5) == nil {
			}
		}
	}
}

// Sync returns when everything written before is on the disk itself.
func (d *DB) Sync() error {
	if d.b.Opts().InMemory {
		return nil
	}
	return d.b.Sync()
}

// Tx is one transaction. It is used by one goroutine and dies with the
// function it was given to. Reads see the transaction's own writes. In an
// Update only one iteration (Hosts, Queue, Peek, ...) may be open at a time:
// none may be begun within the function given to another.
type Tx struct {
	d        *DB
	t        *badger.Txn
	update   bool
	hosts    map[string]*hostSlot // read or put; what has changed is written at the end
	size     int64                // of what was written, as badger counts it
	writes   int64
	seq      uint64           // the last place given out in a queue
	counters Counters         // deltas
	named    map[string]int64 // deltas
	counted  bool
	sighted  []sighting // of URLs found or made seen, for the cache
	forgot   bool       // a seen URL was deleted
}

// View runs fn in a transaction that only reads, and sees one state.
func (d *DB) View(fn func(*Tx) error) error {
	if d.b.IsClosed() {
		return fmt.Errorf("store: %w", badger.ErrDBClosed)
	}
	tx := &Tx{d: d, t: d.b.NewTransaction(false), hosts: map[string]*hostSlot{}}
	defer tx.t.Discard()
	return fn(tx)
}

func (tx *Tx) put(key []byte, v any) error {
	b, err := encMode.Marshal(v)
	if err != nil {
		return fmt.Errorf("store: encode: %w", err)
	}
	return tx.set(key, b)
}

func (tx *Tx) set(key, val []byte) error {
	tx.wrote(len(key), len(val))
	if err := tx.t.Set(key, val); err != nil {
		return fmt.Errorf("store: write: %w", err)
	}
	return nil
}

// wrote counts a write, as badger does: its key, and its value or a pointer.
func (tx *Tx) wrote(key, val int) {
	if int64(val) >= tx.d.threshold {
		val = 12
	}
	tx.size += int64(key+val) + 12
	tx.writes++
}

func (tx *Tx) get(key []byte, v any) error {
	it, err := tx.t.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("store: read: %w", err)
	}
	return it.Value(func(b []byte) error { return decode(key, b, v) })
}

func (tx *Tx) has(key []byte) (bool, error) {
	_, err := tx.t.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store: read: %w", err)
	}
	return true, nil
}

func (tx *Tx) del(key []byte) error {
	tx.forgot = tx.forgot || key[0] == spaceSeen
	tx.wrote(len(key), 0)
	if err := tx.t.Delete(key); err != nil {
		return fmt.Errorf("store: delete: %w", err)
	}
	return nil
}

// each calls fn for every key with the prefix, from the key after `after` on
// when that is set. fn returns false to end.
func (tx *Tx) each(prefix, after []byte, values bool, fn func(key []byte, item *badger.Item) (bool, error)) error {
	o := badger.DefaultIteratorOptions
	o.Prefix = prefix
	o.PrefetchValues = values
	o.PrefetchSize = 16
	it := tx.t.NewIterator(o)
	defer it.Close()
	start := prefix
	if len(after) > 0 {
		start = append(append([]byte{}, after...), 0)
	}
	for it.Seek(start); it.Valid(); it.Next() {
		more, err := fn(it.Item().KeyCopy(nil), it.Item())
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Times keep their microseconds. What this peer wrote itself may be large: a
// page of many megabytes has more links than the library's default admits.
var (
	encMode, _ = cbor.EncOptions{Time: cbor.TimeUnixMicro}.EncMode()
	decMode, _ = cbor.DecOptions{MaxArrayElements: 1 << 30}.DecMode()
)

func decode(key, b []byte, v any) error {
	if err := decMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: key %q: %v", ErrCorrupt, key, err)
	}
	return nil
}

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
