package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"

	"peerd/store/kv"
)

// ErrTailGone is returned for a subnet whose changes are not logged, or whose
// log no longer holds the records that are asked for.
var ErrTailGone = errors.New("store: not in the log")

// defaultTailMax is how much the log of one subnet may hold, in bytes on disk.
const defaultTailMax = 64 << 20

// TailPos is a place in the log of a subnet: Seq is of the last record that it
// has behind it, 0 before the first.
type TailPos struct {
	_   struct{} `cbor:",toarray"`
	Log uint64   // the log's identity
	Seq uint64
}

// A tailMeta is the state of one log, as it is on disk.
type tailMeta struct {
	_       struct{} `cbor:",toarray"`
	Head    TailPos
	Base    TailPos
	Through uint64 // records up to here are trimmed
	Bytes   int64  // of the records that are left
	Broken  bool   // it has grown too large, or missed a change: nothing is logged
}

// tailBook holds the state of all logs, as of the last commit.
type tailBook struct {
	mu    sync.RWMutex
	all   map[netip.Prefix]tailMeta
	live  int // logs that are not broken
	grown chan struct{}
	max   int64

	// indexed is how far the index of out-links is; under DB.mu.
	indexed indexState
}

func (b *tailBook) get(p netip.Prefix) (tailMeta, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	m, ok := b.all[p]
	return m, ok
}

// logged says whether changes of p are logged.
func (b *tailBook) logged(p netip.Prefix) bool {
	m, ok := b.get(p)
	return ok && !m.Broken
}

// put takes in what was committed; a nil meta is of a log that was forgotten.
func (b *tailBook) put(metas map[netip.Prefix]*tailMeta) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, m := range metas {
		if old, ok := b.all[p]; ok && !old.Broken {
			b.live--
		}
		if m == nil {
			delete(b.all, p)
			continue
		}
		b.all[p] = *m
		if !m.Broken {
			b.live++
		}
	}
}

func (b *tailBook) any() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.live > 0
}

func (b *tailBook) signal() {
	select {
	case b.grown <- struct{}{}:
	default:
	}
}

// loadTails reads the state of the logs: one small record each.
func (d *DB) loadTails() error {
	metas := map[netip.Prefix]*tailMeta{}
	err := d.View(func(tx *Tx) error {
		if err := tx.Meta(indexMeta, &d.tail.indexed); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		return tx.each([]byte{spaceTail}, nil, true, func(key []byte, it kv.Item) (bool, error) {
			p, err := netip.ParsePrefix(string(key[1:]))
			if err != nil {
				return false, fmt.Errorf("%w: key %q: %v", ErrCorrupt, key, err)
			}
			m := &tailMeta{}
			metas[p] = m
			return true, it.Value(func(b []byte) error { return decode(key, b, m) })
		})
	})
	d.tail.put(metas)
	return err
}

// StartTail begins to log the changes of p's hosts, under an identity that no
// other log of p has had: whoever begins to own p draws it at random. base is
// what it continues: a replica at base needs no snapshot; zero means nothing.
// The first transaction after it is the first record. A log of the same
// identity goes on, one of another, or one that was broken, is forgotten.
// It is for one caller per subnet at a time.
func (d *DB) StartTail(p netip.Prefix, log uint64, base TailPos) error {
	m, ok := d.tail.get(p)
	if ok && !m.Broken && m.Head.Log == log {
		return nil
	}
	if ok && m.Head.Log == log {
		return fmt.Errorf("%w: the log %x of %v is broken; begin another", ErrTailGone, log, p)
	}
	if err := d.forgetTail(p); err != nil {
		return err
	}
	if err := d.indexOutlinks(); err != nil {
		return err
	}
	return d.putTail(p, &tailMeta{Head: TailPos{Log: log}, Base: base})
}

// StopTail forgets the log of p. It is for one caller per subnet at a time.
func (d *DB) StopTail(p netip.Prefix) error {
	if err := d.forgetTail(p); err != nil {
		return err
	}
	for more := true; more; {
		err := d.Update(func(tx *Tx) (err error) {
			more, err = tx.releaseCross(p, TailPos{Seq: math.MaxUint64})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetTail deletes the state and the records of p's log.
func (d *DB) forgetTail(p netip.Prefix) error {
	if _, ok := d.tail.get(p); ok {
		if err := d.putTail(p, nil); err != nil {
			return err
		}
	}
	return d.dropAll(hostPrefix(spaceLog, p.String()))
}

// putTail writes the state of a log, nil to forget it. No transaction sees it
// change under way.
func (d *DB) putTail(p netip.Prefix, m *tailMeta) error {
	return d.Update(func(tx *Tx) error {
		tx.tails = map[netip.Prefix]*tailMeta{p: m}
		if m == nil {
			return tx.del(tailKey(p))
		}
		return tx.put(tailKey(p), m)
	})
}

// TailHead returns the end of p's log and what the log continues. It is false
// for a subnet that is not logged, also because its log grew beyond
// Options.TailMax or could not take a change: then StartTail begins another,
// and replicas need a new snapshot. It reads memory only.
func (d *DB) TailHead(p netip.Prefix) (head, base TailPos, ok bool) {
	m, ok := d.tail.get(p)
	if !ok || m.Broken {
		return TailPos{}, TailPos{}, false
	}
	return m.Head, m.Base, true
}

// TailHead is DB.TailHead as of what this transaction sees: in a View, the
// state of p's hosts there is what the records up to head have led to.
func (tx *Tx) TailHead(p netip.Prefix) (head TailPos, ok bool, err error) {
	m, err := tx.tailMeta(p)
	if errors.Is(err, ErrTailGone) {
		return TailPos{}, false, nil
	}
	return m.Head, err == nil, err
}

func (tx *Tx) tailMeta(p netip.Prefix) (tailMeta, error) {
	var m tailMeta
	err := tx.get(tailKey(p), &m)
	if errors.Is(err, ErrNotFound) || err == nil && m.Broken {
		err = fmt.Errorf("%w: %v", ErrTailGone, p)
	}
	return m, err
}

// Tail calls fn for the records of p's log behind after, in order; their
// numbers have no gap. raw is fn's to keep. fn returns false to end. It fails
// with ErrTailGone when p is not logged or the record next to after is trimmed.
func (tx *Tx) Tail(p netip.Prefix, after uint64, fn func(seq uint64, raw []byte) (bool, error)) error {
	m, err := tx.tailMeta(p)
	if err != nil {
		return err
	}
	if after < m.Through || after > m.Head.Seq {
		return fmt.Errorf("%w: %v: the record after %d of %d to %d", ErrTailGone, p, after, m.Through, m.Head.Seq)
	}
	prefix := logPrefix(p, m.Head.Log)
	from := binary.BigEndian.AppendUint64(slices.Clone(prefix), after+1)
	return tx.eachFrom(prefix, from, true, func(key []byte, it kv.Item) (bool, error) {
		seq, _, err := splitRecord(prefix, key)
		if err != nil {
			return false, err
		}
		raw, err := it.ValueCopy(nil)
		if err != nil {
			return false, fmt.Errorf("store: read: %w", err)
		}
		return fn(seq, raw)
	})
}

// TrimTail forgets the records of p's log up to through, inclusive: every
// replica has them on its disk, and what was before them. It works in transactions of bounded size.
func (d *DB) TrimTail(p netip.Prefix, through uint64) error {
	for more := true; more; {
		err := d.Update(func(tx *Tx) (err error) {
			more, err = tx.trimTail(p, through)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) trimTail(p netip.Prefix, through uint64) (more bool, err error) {
	m, err := tx.tailMeta(p)
	if err != nil {
		return false, err
	}
	through = min(through, m.Head.Seq)
	more, err = tx.releaseCross(p, TailPos{Log: m.Head.Log, Seq: through})
	if err != nil || through <= m.Through {
		return more, err
	}
	var keys [][]byte
	last, prefix := m.Through, logPrefix(p, m.Head.Log)
	from := binary.BigEndian.AppendUint64(slices.Clone(prefix), m.Through+1)
	err = tx.eachFrom(prefix, from, false, func(key []byte, _ kv.Item) (bool, error) {
		seq, size, err := splitRecord(prefix, key)
		if err != nil || seq > through || len(keys) == dropAtOnce {
			return false, err
		}
		keys, last = append(keys, key), seq
		m.Bytes -= size
		return true, nil
	})
	if err != nil || len(keys) == 0 {
		return false, err
	}
	for _, k := range keys {
		if err := tx.del(k); err != nil {
			return false, err
		}
	}
	m.Through = last
	tx.tails = map[netip.Prefix]*tailMeta{p: &m}
	return more || last < through, tx.put(tailKey(p), m)
}

// TailGrown holds a token after any transaction that has logged something, or
// has broken a log. It is for one reader.
func (d *DB) TailGrown() <-chan struct{} { return d.tail.grown }

// Tails returns the subnets that are logged.
func (d *DB) Tails() []netip.Prefix {
	d.tail.mu.RLock()
	defer d.tail.mu.RUnlock()
	return slices.Collect(maps.Keys(d.tail.all))
}

func tailKey(p netip.Prefix) []byte { return spaceKey(spaceTail, p.String()) }

func logPrefix(p netip.Prefix, log uint64) []byte {
	return binary.BigEndian.AppendUint64(hostPrefix(spaceLog, p.String()), log)
}

// recordKey names a record. Its size is in the key, so that trimming need not
// read it.
func recordKey(p netip.Prefix, log, seq uint64, size int) []byte {
	k := binary.BigEndian.AppendUint64(logPrefix(p, log), seq)
	return binary.BigEndian.AppendUint32(k, uint32(size))
}

func splitRecord(prefix, key []byte) (seq uint64, size int64, err error) {
	k := key[len(prefix):]
	if len(k) != 12 {
		return 0, 0, fmt.Errorf("%w: key %q", ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(k), int64(binary.BigEndian.Uint32(k[8:])) + int64(len(key)), nil
}
