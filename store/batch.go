package store

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// maxBatch bounds the functions of one shared transaction.
const maxBatch = 64

// A call is one Batch that waits for its transaction. done and err are guarded
// by DB.mu.
type call struct {
	fn   func(*Tx) error
	done bool
	err  error
}

// Batch is Update for callers who are many: functions that wait at the same
// time share one transaction, and so one commit. fn may be called more than
// once, each time as if for the first: what an earlier call did to the
// transaction is gone, what it did to variables outside is fn's to undo. When
// one of them fails, the others are not affected.
func (d *DB) Batch(fn func(*Tx) error) error {
	c := &call{fn: fn}
	d.bmu.Lock()
	d.calls = append(d.calls, c)
	d.bmu.Unlock()

	d.mu.Lock()
	defer d.mu.Unlock()
	for !c.done { // whoever was before us may have done it for us
		d.runLocked(d.nextCalls())
	}
	return c.err
}

// nextCalls takes the longest waiting calls.
func (d *DB) nextCalls() []*call {
	d.bmu.Lock()
	defer d.bmu.Unlock()
	n := min(len(d.calls), maxBatch)
	calls := append([]*call(nil), d.calls[:n]...)
	rest := copy(d.calls, d.calls[n:])
	clear(d.calls[rest:])
	d.calls = d.calls[:rest]
	return calls
}

// runLocked ends all calls: in one transaction if none of them fails, else
// each in its own.
func (d *DB) runLocked(calls []*call) {
	if len(calls) > 1 && d.together(calls) == nil {
		return
	}
	for _, c := range calls {
		c.err, c.done = d.updateLocked(c.fn), true
	}
}

// together runs all calls in one transaction. If it fails, nothing has
// happened and no call is done.
func (d *DB) together(calls []*call) error {
	err := d.updateLocked(func(tx *Tx) error {
		for _, c := range calls {
			if err := c.fn(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for _, c := range calls {
			c.done = true
		}
	}
	return err
}

// Update runs fn in a transaction and commits it when fn returns nil; if it
// does not, nothing has happened. Other Updates wait: fn must not call Update.
func (d *DB) Update(fn func(*Tx) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.updateLocked(fn)
}

func (d *DB) updateLocked(fn func(*Tx) error) error {
	if d.b.IsClosed() {
		return fmt.Errorf("store: %w", badger.ErrDBClosed)
	}
	tx := &Tx{d: d, t: d.b.NewTransaction(true), update: true, hosts: map[string]*Host{}, seq: d.seq}
	defer tx.t.Discard()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.flushHosts(); err != nil {
		return err
	}
	l := ledger{Counters: d.Counters(), Seq: tx.seq, Named: d.Named()}
	l.Counters.add(tx.counters)
	for name, n := range tx.named {
		if l.Named == nil {
			l.Named = map[string]int64{}
		}
		l.Named[name] += n
	}
	if tx.counted || tx.seq != d.seq {
		if err := tx.put(ledgerKey, l); err != nil {
			return err
		}
	}
	if err := tx.t.Commit(); err != nil {
		return fmt.Errorf("store: commit: %w", err)
	}
	d.setLedger(l)
	d.seen.committed(tx.sighted, tx.forgot)
	return nil
}
