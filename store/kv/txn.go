package kv

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Badger's figures.
const (
	txnOverhead   = 11 + 10 // its own record of a transaction
	writeOverhead = 2 + 10
	pointerSize   = 12 // what is left of a value in the value log
	keyMost       = 65000
	valueMost     = 128 << 20
)

// memoryTxn reads a state that nobody changes, and keeps its writes to itself.
type memoryTxn struct {
	m            *memory
	base         *tree
	own          *diffs // nil in a view
	count, bytes int64  // as badger counts them
	size         int64  // of the writes, for the page cache
	done         bool
}

// memoryItem is a value; nobody changes it.
type memoryItem []byte

func (i memoryItem) Value(fn func([]byte) error) error { return fn(i[:len(i):len(i)]) }

func (i memoryItem) ValueCopy(dst []byte) ([]byte, error) { return append(dst[:0], i...), nil }

func (t *memoryTxn) alive() error {
	if t.done {
		return badger.ErrDiscardedTxn
	}
	return t.m.alive()
}

func (t *memoryTxn) Get(key []byte) (Item, error) {
	if len(key) == 0 {
		return nil, ErrEmptyKey
	}
	if err := t.alive(); err != nil {
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
	case len(key) > keyMost || len(x.val) > valueMost:
		return fmt.Errorf("kv: a key of %d bytes with a value of %d is too large", len(key), len(x.val))
	}
	if err := t.alive(); err != nil {
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
		if err := t.alive(); err != nil {
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

// Commit has no effect on a disk that is full.
func (t *memoryTxn) Commit() error {
	if t.done {
		return badger.ErrDiscardedTxn
	}
	t.done = true
	if t.own == nil || t.own.Len() == 0 {
		return nil
	}
	return t.m.slowly(func(s Delays) time.Duration { return s.Commit }, func(d *Disk) error {
		if d.full {
			return fmt.Errorf("%w: %w", ErrFull, syscall.ENOSPC)
		}
		d.commit(commit{t.own, t.size})
		return nil
	})
}

func (t *memoryTxn) Discard() { t.done = true }
