package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/store/kv"
)

// Version is the version of the layout on disk. A store of another version is
// refused, never converted in silence.
const Version = "peerd-store-3"

var (
	// ErrNotFound is returned when there is no such record.
	ErrNotFound = errors.New("store: not found")
	// ErrLocked is returned by Open when another process has the store open.
	ErrLocked = errors.New("store: in use by another process")
	// ErrVersion is returned by Open for a store of another version.
	ErrVersion = errors.New("store: written by another version of peerd")
	// ErrFull is returned by Open and by what writes when there is no room on
	// the disk; then nothing was written. It comes with syscall.ENOSPC.
	ErrFull = kv.ErrFull
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
	// TailMax bounds the log of one subnet's changes (StartTail), in bytes on
	// disk. Zero means 64 MiB.
	TailMax int64
	// Disk holds everything instead of a folder: for simulations. It may be
	// opened again when the store was closed, or ended on it.
	Disk *kv.Disk
	// InMemory keeps nothing on disk: for tests. It is a Disk of its own.
	InMemory bool
	// Logger receives badger's warnings. Nil discards them.
	Logger *slog.Logger
}

// DB is one open store. All methods may be called at once.
type DB struct {
	kv        kv.Engine
	limits    kv.Limits // of a transaction
	threshold int64     // of values that go to the value log

	mu  lock   // serialises Update and Batch: transactions never conflict
	seq uint64 // the last place given out in a queue; under mu

	bmu     sync.Mutex
	calls   []*call // waiting for their Batch
	leading bool    // somebody runs calls, or is about to

	seen seenCache
	tail tailBook

	cmu      sync.Mutex
	counters Counters
	named    map[string]int64
}

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
	if o.TailMax == 0 {
		o.TailMax = defaultTailMax
	}
	slots := seenSlots
	if o.Disk != nil {
		slots = simulatedSlots
	} else if o.InMemory {
		o.Disk = kv.NewDisk()
	}
	e, threshold, err := openEngine(dir, o)
	if err != nil {
		return nil, err
	}
	d := &DB{kv: e, limits: e.Limits(), threshold: threshold, mu: make(lock, 1), seen: newSeenCache(slots)}
	d.tail = tailBook{all: map[netip.Prefix]tailMeta{}, grown: make(chan struct{}, 1), max: o.TailMax}
	if err := errors.Join(d.loadLedger(), d.loadTails()); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return d, nil
}

// Close writes everything out and closes the store. Nothing may be under way;
// a second Close does nothing.
func (d *DB) Close() error { return d.kv.Close() }

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
			d.kv.Trim(mappedMost)
		case <-values.C:
			for ctx.Err() == nil && d.kv.Reclaim() {
			}
		}
	}
}

// Sync returns when everything written before is on the disk itself.
func (d *DB) Sync() error { return d.kv.Sync() }

// Tx is one transaction. It is used by one goroutine and dies with the
// function it was given to. Reads see the transaction's own writes. In an
// Update only one iteration (Hosts, Queue, Peek, ...) may be open at a time:
// none may be begun within the function given to another.
type Tx struct {
	d        *DB
	t        kv.Txn
	update   bool
	hosts    map[string]*hostSlot // read or put; what has changed is written at the end
	size     int64                // of what was written, as the engine counts it
	writes   int64
	seq      uint64           // the last place given out in a queue
	counters Counters         // deltas
	named    map[string]int64 // deltas
	counted  bool
	sighted  []sighting                 // of URLs found or made seen, for the cache
	forgot   bool                       // a seen URL was deleted
	log      *txLog                     // nil while no subnet is logged
	tails    map[netip.Prefix]*tailMeta // logs whose state is written; nil: forgotten
	grew     bool                       // something was logged
}

// View runs fn in a transaction that only reads, and sees one state.
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
		if err := tx.note(key, val, true); err != nil {
			return err
		}
	}
	return tx.write(key, val)
}

// write is set for what the log of a subnet has in another form.
func (tx *Tx) write(key, val []byte) error {
	tx.wrote(len(key), len(val))
	if err := tx.t.Set(key, val); err != nil {
		return fmt.Errorf("store: write: %w", err)
	}
	return nil
}

// wrote counts a write, as the engine does: its key, and its value or a pointer.
func (tx *Tx) wrote(key, val int) {
	if int64(val) >= tx.d.threshold {
		val = 12
	}
	tx.size += int64(key+val) + 12
	tx.writes++
}

func (tx *Tx) get(key []byte, v any) error {
	it, err := tx.t.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("store: read: %w", err)
	}
	return it.Value(func(b []byte) error { return decode(key, b, v) })
}

// bytes returns the value of key, which is the caller's, or ErrNotFound.
func (tx *Tx) bytes(key []byte) ([]byte, error) {
	it, err := tx.t.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("store: read: %w", err)
	}
	return it.ValueCopy(nil)
}

func (tx *Tx) has(key []byte) (bool, error) {
	_, err := tx.t.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store: read: %w", err)
	}
	return true, nil
}

func (tx *Tx) del(key []byte) error {
	if tx.log != nil {
		if err := tx.note(key, nil, false); err != nil {
			return err
		}
	}
	tx.forgot = tx.forgot || key[0] == spaceSeen
	tx.wrote(len(key), 0)
	if err := tx.t.Delete(key); err != nil {
		return fmt.Errorf("store: delete: %w", err)
	}
	return nil
}

// each calls fn for every key with the prefix, from the key after `after` on
// when that is set. fn returns false to end.
func (tx *Tx) each(prefix, after []byte, values bool, fn func(key []byte, item kv.Item) (bool, error)) error {
	start := prefix
	if len(after) > 0 {
		start = append(append([]byte{}, after...), 0)
	}
	return tx.eachFrom(prefix, start, values, fn)
}

// eachFrom is each from the key start on.
func (tx *Tx) eachFrom(prefix, start []byte, values bool, fn func(key []byte, item kv.Item) (bool, error)) error {
	return tx.t.Each(prefix, start, values, fn)
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
