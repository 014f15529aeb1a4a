package store

import (
	"fmt"
	"maps"
	"strings"

	"peerd/store/kv"
)

func (c *Counters) all() [20]*int64 {
	return [...]*int64{
		&c.Pages, &c.Bytes, &c.Failed, &c.RobotsDenied, &c.Seen, &c.Fetches, &c.Dropped,
		&c.HandoversOut, &c.HandoversIn, &c.EstimationsRequested, &c.EstimationsServed,
		&c.BatchesSent, &c.BatchesReceived, &c.URLsSent, &c.URLsReceived, &c.Revisits,
		&c.NotModified, &c.Changed, &c.Probes, &c.Connects,
	}
}

func (c *Counters) add(d Counters) {
	added := d.all()
	for i, n := range c.all() {
		*n += *added[i]
	}
}

// Sub returns what was added to d to get c.
func (c Counters) Sub(d Counters) Counters {
	taken := d.all()
	for i, n := range c.all() {
		*n -= *taken[i]
	}
	return c
}

// Count adds d to the counters when the transaction commits.
func (tx *Tx) Count(d Counters) {
	tx.counters.add(d)
	tx.counted = true
}

// CountNamed adds n to the named counter when the transaction commits. Every commit
// writes all named counters, so there should be only some dozens of names.
func (tx *Tx) CountNamed(name string, n int64) {
	if tx.named == nil {
		tx.named = map[string]int64{}
	}
	tx.named[name] += n
	tx.counted = true
}

// NamedCounters returns the named counters as of the last commit.
func (d *DB) NamedCounters() map[string]int64 {
	d.cmu.Lock()
	defer d.cmu.Unlock()
	return maps.Clone(d.named)
}

// Counters returns the counters as of the last commit.
func (d *DB) Counters() Counters {
	d.cmu.Lock()
	defer d.cmu.Unlock()
	return d.counters
}

// counterState is the record that every transaction that queues or counts updates. Seq
// is stored rather than derived from a clock: if the clock was set back, it would assign
// the positions of entries that are still queued.
type counterState struct {
	Counters Counters         `cbor:"1,keyasint"`
	Seq      uint64           `cbor:"2,keyasint"`
	Named    map[string]int64 `cbor:"3,keyasint,omitempty"`
}

var counterStateKey = spaceKey(spaceMeta, "counters")

func (d *DB) loadCounterState() error {
	var l counterState
	err := d.View(func(tx *Tx) error { return tx.get(counterStateKey, &l) })
	if IgnoreNotFound(err) != nil {
		return err
	}
	d.setCounterState(l)
	return nil
}

func (d *DB) setCounterState(l counterState) {
	d.seq = l.Seq
	d.cmu.Lock()
	defer d.cmu.Unlock()
	d.counters, d.named = l.Counters, l.Named
}

// PutMeta stores a small named value.
func (tx *Tx) PutMeta(name string, v any) error { return tx.put(spaceKey(spaceMeta, "v/"+name), v) }

// Meta reads a small named value into v, or returns ErrNotFound.
func (tx *Tx) Meta(name string, v any) error { return tx.get(spaceKey(spaceMeta, "v/"+name), v) }

// PutMeta is Tx.PutMeta in a transaction of its own.
func (d *DB) PutMeta(name string, v any) error {
	return d.Update(func(tx *Tx) error { return tx.PutMeta(name, v) })
}

// Meta is Tx.Meta in a transaction of its own. It leaves v as it is if there is no such value.
func (d *DB) Meta(name string, v any) error {
	return IgnoreNotFound(d.View(func(tx *Tx) error { return tx.Meta(name, v) }))
}

// PutData stores a value of package overlay or crawl. Keys of PutData, Data, DeleteData and
// EachData form a key space of their own.
func (tx *Tx) PutData(key string, val []byte) error { return tx.set(spaceKey(spaceData, key), val) }

// Data returns the value of key, or ErrNotFound.
func (tx *Tx) Data(key string) ([]byte, error) {
	return tx.bytes(spaceKey(spaceData, key))
}

// DeleteData removes key.
func (tx *Tx) DeleteData(key string) error { return tx.del(spaceKey(spaceData, key)) }

// DropData removes every key that begins with prefix, in several transactions and in order.
func (d *DB) DropData(prefix string) error {
	return d.deleteAll(spaceKey(spaceData, prefix), always)
}

// EachData calls fn for every key that begins with prefix, in order. fn returns false to
// stop.
func (tx *Tx) EachData(prefix string, fn func(key string, val []byte) (bool, error)) error {
	return tx.each(spaceKey(spaceData, prefix), nil, true,
		func(key []byte, it kv.Item) (bool, error) {
			val, err := it.ValueCopy(nil)
			if err != nil {
				return false, fmt.Errorf("store: read: %w", err)
			}
			return fn(string(key[1:]), val)
		})
}

// EachData is Tx.EachData in a transaction of its own, with what follows the prefix of each key.
// The first error of fn ends it.
func (d *DB) EachData(prefix string, fn func(rest string, val []byte) error) error {
	return d.View(func(tx *Tx) error {
		return tx.EachData(prefix, func(key string, val []byte) (bool, error) {
			return true, fn(strings.TrimPrefix(key, prefix), val)
		})
	})
}
