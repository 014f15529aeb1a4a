package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"peerd/store/kv"
)

// Version is the version of the layout on disk. Open refuses a store of any other
// version; it never converts one.
const Version = "peerd-store-6"

var (
	// ErrNotFound is returned if there is no such record.
	ErrNotFound = errors.New("store: not found")
	// ErrLocked is returned by Open if another process has the store open.
	ErrLocked = errors.New("store: in use by another process")
	// ErrVersion is returned by Open for a store of another version.
	ErrVersion = errors.New("store: written by another version of peerd")
	// ErrNoSpace is returned by Open and by writing methods if the disk has no space
	// left. Nothing was written then. The error also wraps syscall.ENOSPC.
	ErrNoSpace = kv.ErrNoSpace
	// ErrCorrupt is returned if a record cannot be decoded.
	ErrCorrupt = errors.New("store: corrupt record")
)

// IgnoreNotFound returns nil for ErrNotFound, and any other error as it is.
func IgnoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Options configures a DB. The zero value is usable.
type Options struct {
	// MemTable is the size of badger's memtable in bytes; zero means 8 MiB. Badger may
	// hold three of them. The writes of one transaction are limited to 15 % of it, not
	// counting values in the value log. With at least 8 MiB, a transaction has space for
	// a thousand calls of Push and RemovePending for one host, whatever the length of the URLs.
	MemTable int64
	// IndexCache is the size of badger's cache of indices in bytes. Zero means 16 MiB.
	IndexCache int64
	// MaxChangeLog is the maximum size of the change log of one subnet, in bytes on disk.
	// Zero means 64 MiB.
	MaxChangeLog int64
	// Disk, if set, holds the store in memory instead of a directory: for simulations.
	// It can be opened again after Close, or after one of its methods ended the process.
	Disk *kv.Disk
	// InMemory keeps the store in memory until Close: for tests.
	InMemory bool
	// Logger receives badger's warnings. Nil discards them.
	Logger *slog.Logger
}

// DB is an open store. Its methods are safe for concurrent use.
type DB struct {
	kv        kv.Engine
	syncs     groupSync
	limits    kv.Limits // of a transaction
	threshold int64     // size from which values are stored in the value log

	mu  chanMutex // serialises Update and Batch: transactions never conflict
	seq uint64    // last sequence number of a queue entry; guarded by mu

	bmu     sync.Mutex
	calls   []*call // of Batch, waiting
	leading bool    // a goroutine runs calls, or is about to

	seen seenCache
	logs changeLogs

	cmu      sync.Mutex
	counters Counters
	named    map[string]int64
}

// Open opens the store in dir and creates it if it does not exist. The error wraps
// ErrLocked, ErrVersion, ErrNoSpace or an error of the file system.
func Open(dir string, o Options) (*DB, error) {
	o.MemTable = cmp.Or(o.MemTable, 8<<20)
	o.IndexCache = cmp.Or(o.IndexCache, 16<<20)
	o.MaxChangeLog = cmp.Or(o.MaxChangeLog, defaultMaxChangeLog)
	slots := seenSlots
	if o.Disk != nil {
		slots = simulatedSeenSlots
	} else if o.InMemory {
		o.Disk = kv.NewDisk()
	}
	e, threshold, err := openEngine(dir, o)
	if err != nil {
		return nil, err
	}
	d := &DB{kv: e, limits: e.Limits(), threshold: threshold, mu: make(chanMutex, 1),
		syncs: groupSync{turn: make(chanMutex, 1)},
		seen:  newSeenCache(slots)}
	d.logs = changeLogs{all: map[netip.Prefix]logState{}, changed: make(chan struct{}, 1),
		max: o.MaxChangeLog}
	if err := errors.Join(d.loadCounterState(), d.loadLogs()); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return d, nil
}

// Close writes all data to disk and closes the store. No other method may be running.
// A second call does nothing.
func (d *DB) Close() error { return d.kv.Close() }

// Run maintains the store until ctx is canceled: it reclaims memory, and the disk space
// of values that were overwritten or deleted.
func (d *DB) Run(ctx context.Context) error {
	d.kv.Run(ctx)
	return nil
}

// Sync returns when all committed data is on the disk and survives a power failure.
func (d *DB) Sync() error { return d.syncs.do(d.kv.Sync) }

// Tx is a transaction. It is for one goroutine and must not be used after the function
// that received it has returned. Reads see the writes of the transaction itself. In an
// Update, only one iteration (Hosts, Queue, Peek, ...) may be active at a time: the
// function passed to one must not start another.
type Tx struct {
	d           *DB
	t           kv.Txn
	update      bool
	hosts       map[string]*hostSlot // read or put; changes are written at the end
	size        int64                // of the writes, as the engine counts them
	writes      int64
	seq         uint64           // last sequence number of a queue entry
	counters    Counters         // deltas
	named       map[string]int64 // deltas
	counted     bool
	seenURLs    []urlHash                  // URLs found or marked as seen, for the cache
	seenDeleted bool                       // the transaction deleted a URL of a seen set
	log         *txLog                     // nil if no subnet is logged
	logStates   map[netip.Prefix]*logState // written log states; nil: the log is deleted
	logChanged  bool                       // the transaction appended to a change log
}

// View runs fn in a read-only transaction, which sees one consistent state.
func (d *DB) View(fn func(*Tx) error) error {
	t, err := d.kv.Begin(false)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	tx := &Tx{d: d, t: t, hosts: map[string]*hostSlot{}}
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
	if tx.log != nil {
		if err := tx.logChange(key, val, true); err != nil {
			return err
		}
	}
	return tx.write(key, val)
}

// write sets a key without logging the change; the caller logs it in another form.
func (tx *Tx) write(key, val []byte) error {
	tx.wrote(len(key), len(val))
	if err := tx.t.Set(key, val); err != nil {
		return fmt.Errorf("store: write: %w", err)
	}
	return nil
}

// wrote counts a write as the engine does: the key, and the value or a pointer to it.
func (tx *Tx) wrote(key, val int) {
	if int64(val) >= tx.d.threshold {
		val = 12
	}
	tx.size += int64(key+val) + 12
	tx.writes++
}

// item returns the item of key, or ErrNotFound.
func (tx *Tx) item(key []byte) (kv.Item, error) {
	it, err := tx.t.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("store: read: %w", err)
	}
	return it, nil
}

func (tx *Tx) get(key []byte, v any) error {
	it, err := tx.item(key)
	if err != nil {
		return err
	}
	return it.Value(func(b []byte) error { return decode(key, b, v) })
}

// bytes returns a copy of the value of key, or ErrNotFound.
func (tx *Tx) bytes(key []byte) ([]byte, error) {
	it, err := tx.item(key)
	if err != nil {
		return nil, err
	}
	return it.ValueCopy(nil)
}

func (tx *Tx) has(key []byte) (bool, error) {
	_, err := tx.item(key)
	return err == nil, IgnoreNotFound(err)
}

func (tx *Tx) del(keys ...[]byte) error {
	for _, key := range keys {
		if tx.log != nil {
			if err := tx.logChange(key, nil, false); err != nil {
				return err
			}
		}
		tx.seenDeleted = tx.seenDeleted || key[0] == spaceSeen
		tx.wrote(len(key), 0)
		if err := tx.t.Delete(key); err != nil {
			return fmt.Errorf("store: delete: %w", err)
		}
	}
	return nil
}

// each calls fn for every key with the prefix, in order, starting behind the key after
// if it is set (see keyBehind). fn returns false to stop.
func (tx *Tx) each(
	prefix, after []byte, values bool, fn func(key []byte, item kv.Item) (bool, error),
) error {
	start := prefix
	if len(after) > 0 {
		start = append(append([]byte{}, after...), 0)
	}
	return tx.t.Each(prefix, start, values, fn)
}

// eachValue is each for values of one type.
func eachValue[T any](
	tx *Tx, prefix, after []byte, fn func(key []byte, v T) (bool, error),
) error {
	return tx.each(prefix, after, true, func(key []byte, it kv.Item) (bool, error) {
		var v T
		if err := it.Value(func(b []byte) error { return decode(key, b, &v) }); err != nil {
			return false, err
		}
		return fn(key, v)
	})
}

// Times are stored with microseconds. Records written by this peer may be large: a page
// of many megabytes has more links than the default limit of the library.
var (
	encMode, _ = cbor.EncOptions{Time: cbor.TimeUnixMicro}.EncMode()
	decMode, _ = cbor.DecOptions{MaxArrayElements: 1 << 30}.DecMode()
)

func decode(key, b []byte, v any) error {
	if err := decMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: key %q: %w", ErrCorrupt, key, err)
	}
	return nil
}
