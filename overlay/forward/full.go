package forward

import (
	"context"
	"time"

	"peerd/store"
)

// fullness is what is known of a store that has no room. The Forwarder's mutex
// guards it.
type fullness struct {
	on      bool
	next    time.Time // when to try
	refused int64     // writes since it began
}

// fullRest is how long nothing is moved before the store is tried again that had no
// room: ten seconds at the default waits.
func (c Config) fullRest() time.Duration { return max(c.MaxRetry/3, c.Retry) }

// stall takes the error of some work: that the store is full is not final. Then
// nothing is moved, and nothing taken in, until it takes a write again. It returns
// what is final.
func (f *Forwarder) stall(err error) error {
	if !store.IsFull(err) {
		return err
	}
	f.mu.Lock()
	began := !f.full.on
	f.full.on, f.full.next = true, time.Now().Add(f.cfg.fullRest())
	f.full.refused++
	f.mu.Unlock()
	if began {
		f.wake()
		f.log.Error("no URL is moved or taken in: the store has no room", "err", err, "again_in", f.cfg.fullRest())
	}
	return nil
}

// stalled says whether the store had no room when it was last written to.
func (f *Forwarder) stalled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.full.on
}

// tryDisk writes something, the counters as they are. Nobody but the store itself
// knows how much room it needs.
func (f *Forwarder) tryDisk(context.Context) error {
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(store.Counters{})
		return nil
	})
	f.mu.Lock()
	refused := f.full.refused
	if err == nil {
		f.full = fullness{}
	}
	f.mu.Unlock()
	if err == nil {
		f.log.Info("the store has room again", "refused", refused)
	}
	return err
}
