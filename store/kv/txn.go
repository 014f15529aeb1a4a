package kv

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Badger's limits and overheads in bytes.
const (
	txnOverhead   = 11 + 10 // of the record of a transaction
	writeOverhead = 2 + 10
	pointerSize   = 12 // of a pointer to a value in the value log
	maxKey        = 65000
	maxValue      = 128 << 20
)

// memoryTxn reads an immutable state and collects its own writes.
type memoryTxn struct {
	m            *memoryEngine
	base         *tree
	own          *diffs // nil if read-only
	count, bytes int64  // of the writes, as badger counts them
	size         int64  // of the writes, as the page cache counts them
	done         bool
}

// memoryItem is a value. It is never changed.
type memoryItem []byte

func (i memoryItem) Value(fn func([]byte) error) error { return fn(i[:len(i):len(i)]) }

func (i memoryItem) ValueCopy(dst []byte) ([]byte, error) { return append(dst[:0], i...), nil }

func (t *memoryTxn) checkOpen() error {
	if t.done {
		return badger.ErrDiscardedTxn
	}
	return t.m.checkOpen()
}

func (t *memoryTxn) Get(key []byte) (Item, error) {
	if len(key) == 0 {
		return nil, ErrEmptyKey
	}
	if err := t.checkOpen(); err != nil {
		return nil, err
	}
	if t.own != nil {
		if x, ok := t.own.Get(string(key)); ok {
			if x.del {
				return nil, ErrNotFound
			}
			return memoryItem(x.val), nil
		}
	}
	if val, ok := t.base.Get(string(key)); ok {
		return memoryItem(val), nil
	}
	return nil, ErrNotFound
}

func (t *memoryTxn) Set(key, val []byte) error {
	return t.write(key, diff{val: slices.Clone(val)})
}

func (t *memoryTxn) Delete(key []byte) error { return t.write(key, diff{del: true}) }

func (t *memoryTxn) write(key []byte, x diff) error {
	switch {
	case t.own == nil:
		return ErrReadOnly
	case len(key) == 0:
		return ErrEmptyKey
	case len(key) > maxKey || len(x.val) > maxValue:
		return fmt.Errorf("kv: key of %d bytes with value of %d bytes is too large",
			len(key), len(x.val))
	}
	if err := t.checkOpen(); err != nil {
		return err
	}
	val := int64(len(x.val))
	if val >= t.m.threshold {
		val = pointerSize
	}
	count, bytes := t.count+1, t.bytes+int64(len(key))+val+writeOverhead
	if count >= t.m.limits.Count || bytes >= t.m.limits.Bytes {
		return ErrTooBig
	}
	t.count, t.bytes = count, bytes
	t.size += int64(len(key) + len(x.val))
	t.own.Set(string(key), x)
	return nil
}

func (t *memoryTxn) Each(prefix, start []byte, _ bool, fn func([]byte, Item) (bool, error)) error {
	if start == nil {
		start = prefix
	}
	for c := t.cursor(string(start)); ; {
		if err := t.checkOpen(); err != nil {
			return err
		}
		key, val, ok := c.next()
		if !ok || !strings.HasPrefix(key, string(prefix)) {
			return nil
		}
		if more, err := fn([]byte(key), memoryItem(val)); err != nil || !more {
			return err
		}
	}
}

// Commit changes nothing if the disk is full.
func (t *memoryTxn) Commit() error {
	if t.done {
		return badger.ErrDiscardedTxn
	}
	t.done = true
	if t.own == nil || t.own.Len() == 0 {
		return nil
	}
	return t.m.doDelayed(func(s Delays) time.Duration { return s.Commit }, func(d *Disk) error {
		if d.full {
			return fmt.Errorf("%w: %w", ErrNoSpace, syscall.ENOSPC)
		}
		d.commit(commit{t.own, t.size})
		return nil
	})
}

func (t *memoryTxn) Discard() { t.done = true }
