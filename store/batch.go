package store

import (
	"errors"
	"fmt"
	"maps"

	"peerd/store/kv"
)

// maxBatch bounds the functions of one shared transaction.
const maxBatch = 64

// A call is one Batch that waits for its transaction. Whoever leads sets done
// and err before it gives the turn; each call is given one.
type call struct {
	fn   func(*Tx) error
	turn chan struct{} // it has ended, or is to lead; of capacity 1
	done bool
	err  error
}

// end ends c and lets its caller go on.
func (c *call) end(err error) {
	c.err, c.done = err, true
	select {
	case c.turn <- struct{}{}:
	default: // it leads, and has had its turn
	}
}

// errAborted ends the calls that shared a transaction with one that panicked.
var errAborted = errors.New("store: another function of the same transaction did not return")

// Batch is Update for callers who are many: functions that wait at the same
// time share one transaction, and so one commit. fn may be called more than
// once, and by another goroutine while this one waits, each time as if for the
// first: what an earlier call did to the transaction is gone, what it did to
// variables outside is fn's to undo; the last call is the one that counts. When
// one function fails, or needs a transaction for itself, the others are not
// affected; when the commit fails, it fails for all that share it.
func (d *DB) Batch(fn func(*Tx) error) error {
	c := &call{fn: fn, turn: make(chan struct{}, 1)}
	d.bmu.Lock()
	d.calls = append(d.calls, c)
	lead := !d.leading
	d.leading = true
	d.bmu.Unlock()
	if !lead {
		<-c.turn
	}
	if !c.done {
		d.lead(c)
	}
	return c.err
}

// lead runs what waits until c has ended; c is the longest waiting. Then the
// longest waiting of the others leads. That nobody but the one who leads waits
// for DB.mu keeps the time between two transactions short.
func (d *DB) lead(c *call) {
	defer d.passOn()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !c.done {
		d.runLocked(d.nextCalls())
	}
}

func (d *DB) passOn() {
	d.bmu.Lock()
	defer d.bmu.Unlock()
	if len(d.calls) == 0 {
		d.leading = false
		return
	}
	d.calls[0].turn <- struct{}{}
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

// runLocked ends all calls, in as few transactions as it takes.
func (d *DB) runLocked(calls []*call) {
	defer func() {
		for _, c := range calls {
			if !c.done { // fn has panicked: its goroutine ends, the others go on
				c.end(errAborted)
			}
		}
	}()
	for len(calls) > 0 {
		n, err := d.together(calls)
		for _, c := range calls[:n] {
			c.end(err)
		}
		calls = calls[n:]
	}
}

// together runs the first of calls in one transaction and returns how many of
// them have ended, at least one, and how. One that fails is first tried again
// without those before it, which go ahead.
func (d *DB) together(calls []*call) (n int, err error) {
	failed := false
	err = d.updateLocked(func(tx *Tx) error {
		for n = 0; n < len(calls) && !(n > 0 && tx.full()); n++ {
			if err := calls[n].fn(tx); err != nil {
				failed = true
				return err
			}
		}
		return nil
	})
	switch {
	case failed && n == 0:
		return 1, err
	case failed:
		return d.together(calls[:n])
	case n > 1 && errors.Is(err, kv.ErrTooBig): // with what is written at the end
		return d.together(calls[:n/2])
	}
	return max(n, 1), err // none has run if the store is closed
}

// full says that no other function should be added to a transaction: what it
// writes is half of what the engine takes.
func (tx *Tx) full() bool {
	size := tx.size + int64(len(tx.hosts))*hostSize + tx.logSize()
	return size > tx.d.limits.Bytes/2 || tx.writes+int64(2*len(tx.hosts)) > tx.d.limits.Count/2
}

// hostSize is what a host's record and its place in the index take at most.
const hostSize = 900

// Update runs fn in a transaction and commits it when fn returns nil; if it
// does not, nothing has happened. Other Updates wait: fn must not call Update.
func (d *DB) Update(fn func(*Tx) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.updateLocked(fn)
}

func (d *DB) updateLocked(fn func(*Tx) error) error {
	t, err := d.kv.Begin(true)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	tx := &Tx{d: d, t: t, update: true, hosts: map[string]*hostSlot{}, seq: d.seq}
	defer tx.t.Discard()
	tx.log = d.newTxLog()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.flushHosts(); err != nil {
		return err
	}
	if err := tx.flushTail(); err != nil {
		return err
	}
	l := d.ledgerWith(tx)
	if tx.counted || tx.seq != d.seq {
		if err := tx.put(ledgerKey, l); err != nil {
			return err
		}
	}
	if err := tx.t.Commit(); err != nil {
		return fmt.Errorf("store: commit: %w", err)
	}
	d.setLedger(l)
	d.committedTails(tx)
	d.seen.committed(tx.sighted, tx.forgot)
	return nil
}

// ledgerWith returns the ledger as it is after tx.
func (d *DB) ledgerWith(tx *Tx) ledger {
	d.cmu.Lock()
	defer d.cmu.Unlock()
	l := ledger{Counters: d.counters, Seq: tx.seq, Named: d.named}
	l.Counters.add(tx.counters)
	if len(tx.named) > 0 {
		l.Named = make(map[string]int64, len(d.named)+1)
		maps.Copy(l.Named, d.named)
		for name, n := range tx.named {
			l.Named[name] += n
		}
	}
	return l
}
