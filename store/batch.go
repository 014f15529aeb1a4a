package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"peerd/store/kv"
)

// maxBatch is the maximum number of functions in one shared transaction.
const maxBatch = 64

// call is one Batch call that waits for its transaction. The leading goroutine sets done
// and err before it sends to turn; each call receives once.
type call struct {
	fn   func(*Tx) error
	turn chan struct{} // capacity 1: the call has ended, or its goroutine is to lead
	done bool
	err  error
}

// end ends c and wakes its goroutine.
func (c *call) end(err error) {
	c.err, c.done = err, true
	select {
	case c.turn <- struct{}{}:
	default: // the leading goroutine, which has received already
	}
}

// errAborted ends the calls that shared a transaction with a function that panicked.
var errAborted = errors.New("store: another function of the same transaction did not return")

// Batch is like Update but combines concurrent calls into one transaction and so into
// one commit. fn may be called more than once, also by another goroutine. Changes that
// an earlier call of fn made to the transaction are undone; fn must reset the variables
// that it sets outside. Only the last call counts. If one function fails, or needs a
// transaction for itself, the others are not affected. If the commit fails, it fails
// for all functions that share it.
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

// lead runs waiting calls until c, the one that has waited longest, has ended. Then the
// next of the waiting calls leads. Only the leading goroutine waits for DB.mu, which
// keeps the time between two transactions short.
func (d *DB) lead(c *call) {
	defer d.passLead()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !c.done {
		d.runLocked(d.nextCalls())
	}
}

func (d *DB) passLead() {
	d.bmu.Lock()
	defer d.bmu.Unlock()
	if len(d.calls) == 0 {
		d.leading = false
		return
	}
	d.calls[0].turn <- struct{}{}
}

// nextCalls removes and returns the calls that have waited longest.
func (d *DB) nextCalls() []*call {
	d.bmu.Lock()
	defer d.bmu.Unlock()
	n := min(len(d.calls), maxBatch)
	calls := slices.Clone(d.calls[:n])
	d.calls = slices.Delete(d.calls, 0, n)
	return calls
}

// runLocked runs calls until all have ended, in as few transactions as possible.
func (d *DB) runLocked(calls []*call) {
	defer func() {
		for _, c := range calls {
			if !c.done { // fn has panicked: its goroutine exits, the others continue
				c.end(errAborted)
			}
		}
	}()
	for len(calls) > 0 {
		n, err := d.runShared(calls)
		for _, c := range calls[:n] {
			c.end(err)
		}
		calls = calls[n:]
	}
}

// runShared runs the first of calls in one transaction. It returns how many of them have
// ended, at least one, and their error. If one fails, the calls before it are run without
// it; the failed one is then the first and is run again.
func (d *DB) runShared(calls []*call) (n int, err error) {
	failed := false
	err = d.updateLocked(func(tx *Tx) error {
		for n = 0; n < len(calls) && (n == 0 || !tx.nearLimit()); n++ {
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
		return d.runShared(calls[:n])
	case n > 1 && errors.Is(err, kv.ErrTooBig): // including the writes before the commit
		return d.runShared(calls[:n/2])
	}
	return max(n, 1), err // n is 0 if the store is closed
}

// nearLimit reports whether no further function should run in the transaction: its writes
// have reached half of the limit of the engine.
func (tx *Tx) nearLimit() bool {
	size := tx.size + int64(len(tx.hosts))*maxHostSize + tx.logSize()
	return size > tx.d.limits.Bytes/2 || tx.writes+int64(2*len(tx.hosts)) > tx.d.limits.Count/2
}

// maxHostSize is the maximum size of a host's record and its entry in the subnet index.
const maxHostSize = 1200

// Update runs fn in a transaction and commits it if fn returns nil; otherwise nothing is
// changed. Only one Update runs at a time: fn must not call Update.
func (d *DB) Update(fn func(*Tx) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.updateLocked(fn)
}

// updateWhile runs fn in transactions, of which each does a part, until fn returns false.
func (d *DB) updateWhile(fn func(*Tx) (more bool, err error)) error {
	for more := true; more; {
		err := d.Update(func(tx *Tx) (err error) {
			more, err = fn(tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Probe commits a transaction that changes nothing. Only the engine knows how much space a write
// needs, so this shows whether there is some again.
func (d *DB) Probe() error {
	return d.Update(func(tx *Tx) error { tx.counted = true; return nil })
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
	if err := tx.flushLog(); err != nil {
		return err
	}
	l := d.counterStateAfter(tx)
	if tx.counted || tx.seq != d.seq {
		if err := tx.put(counterStateKey, l); err != nil {
			return err
		}
	}
	if err := tx.t.Commit(); err != nil {
		return fmt.Errorf("store: commit: %w", err)
	}
	d.setCounterState(l)
	d.committedLogs(tx)
	d.seen.update(tx.seenURLs, tx.seenDeleted)
	return nil
}

// counterStateAfter returns the counter state after tx is committed.
func (d *DB) counterStateAfter(tx *Tx) counterState {
	d.cmu.Lock()
	defer d.cmu.Unlock()
	l := counterState{Counters: d.counters, Seq: tx.seq, Named: d.named}
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
