package store

import (
	"errors"
	"fmt"
	"maps"

	"peerd/store/kv"
)

func (c *Counters) add(d Counters) {
	c.Pages += d.Pages
	c.Bytes += d.Bytes
	c.Failed += d.Failed
	c.RobotsDenied += d.RobotsDenied
	c.Seen += d.Seen
	c.Fetches += d.Fetches
	c.Dropped += d.Dropped
	c.HandoversOut += d.HandoversOut
	c.HandoversIn += d.HandoversIn
	c.EstimationsRequested += d.EstimationsRequested
	c.EstimationsServed += d.EstimationsServed
	c.BatchesSent += d.BatchesSent
	c.BatchesReceived += d.BatchesReceived
	c.URLsSent += d.URLsSent
	c.URLsReceived += d.URLsReceived
	c.Revisits += d.Revisits
	c.NotModified += d.NotModified
	c.Changed += d.Changed
	c.Probes += d.Probes
	c.Connects += d.Connects
}

// Count adds d to the counters when the transaction commits.
func (tx *Tx) Count(d Counters) {
	tx.counters.add(d)
	tx.counted = true
}

// CountNamed adds n to the counter of that name when the transaction commits.
// There are some dozen names, those of the heuristics that drop or mark
// something; they are few because every commit writes them all.
func (tx *Tx) CountNamed(name string, n int64) {
	if tx.named == nil {
		tx.named = map[string]int64{}
	}
	tx.named[name] += n
	tx.counted = true
}

// Named returns the counters that have names.
func (d *DB) Named() map[string]int64 {
	d.cmu.Lock()
	defer d.cmu.Unlock()
	return maps.Clone(d.named)
}

// Counters returns the sums as of the last commit.
func (d *DB) Counters() Counters {
	d.cmu.Lock()
	defer d.cmu.Unlock()
	return d.counters
}

// A ledger is what every transaction that queues or counts carries forward.
// Seq is kept, not taken from a clock: a clock set back would give out the
// places of entries that still wait.
type ledger struct {
	Counters Counters         `cbor:"1,keyasint"`
	Seq      uint64           `cbor:"2,keyasint"`
	Named    map[string]int64 `cbor:"3,keyasint,omitempty"`
}

var ledgerKey = spaceKey(spaceMeta, "ledger")

func (d *DB) loadLedger() error {
	var l ledger
	err := d.View(func(tx *Tx) error { return tx.get(ledgerKey, &l) })
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	d.setLedger(l)
	return nil
}

func (d *DB) setLedger(l ledger) {
	d.seq = l.Seq
	d.cmu.Lock()
	defer d.cmu.Unlock()
	d.counters, d.named = l.Counters, l.Named
}

// PutMeta keeps a small named value.
func (tx *Tx) PutMeta(name string, v any) error { return tx.put(spaceKey(spaceMeta, "v/"+name), v) }

// Meta reads a small named value into v, or returns ErrNotFound.
func (tx *Tx) Meta(name string, v any) error { return tx.get(spaceKey(spaceMeta, "v/"+name), v) }

// PutData, Data, DeleteData and EachData are a plain key-value space for the
// records that room overlay holds for others.
func (tx *Tx) PutData(key string, val []byte) error { return tx.set(spaceKey(spaceData, key), val) }

// Data returns the value of key, or ErrNotFound.
func (tx *Tx) Data(key string) ([]byte, error) {
	return tx.bytes(spaceKey(spaceData, key))
}

// DeleteData removes key.
func (tx *Tx) DeleteData(key string) error { return tx.del(spaceKey(spaceData, key)) }

// EachData calls fn for every key that begins with prefix. fn returns false to
// end.
func (tx *Tx) EachData(prefix string, fn func(key string, val []byte) (bool, error)) error {
	return tx.each(spaceKey(spaceData, prefix), nil, true, func(key []byte, it kv.Item) (bool, error) {
		val, err := it.ValueCopy(nil)
		if err != nil {
			return false, fmt.Errorf("store: read: %w", err)
		}
		return fn(string(key[1:]), val)
	})
}
