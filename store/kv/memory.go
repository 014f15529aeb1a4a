package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4/skl"
	"github.com/tidwall/btree"
)

// memoryEngine is the engine of one simulated process on a Disk. Its operations run under
// the Disk's lock. They wait while the process is paused and fail after it has ended.
type memoryEngine struct {
	d         *Disk
	limits    Limits
	threshold int64
	ended     chan struct{} // closed when the process is ended
}

// limitsOf returns the limits that badger derives from o.
func limitsOf(o Options) (Limits, error) {
	size := 15 * o.MemTable / 100
	l := Limits{Bytes: size, Count: size / int64(skl.MaxNodeSize)}
	if o.Threshold <= 0 || o.Threshold > size || l.Count < 1 {
		return l, fmt.Errorf("kv: a memtable of %d bytes is too small for values of %d", o.MemTable,
			o.Threshold)
	}
	return l, nil
}

// do calls fn under the Disk's lock when the process is not paused.
func (m *memoryEngine) do(fn func(d *Disk) error) error {
	for {
		paused, err := m.try(fn)
		if paused == nil {
			return err
		}
		select {
		case <-paused:
		case <-m.ended:
		}
	}
}

func (m *memoryEngine) try(fn func(d *Disk) error) (paused chan struct{}, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	switch {
	case m.d.proc != m:
		return nil, ErrClosed
	case m.d.paused != nil:
		return m.d.paused, nil
	}
	return nil, fn(m.d)
}

// checkOpen waits while the process is paused and returns an error if it has ended.
func (m *memoryEngine) checkOpen() error {
	return m.do(func(*Disk) error { return nil })
}

// doDelayed is do with a delay: half of it passes before fn, half of it after. It ends early if the
// delays change.
func (m *memoryEngine) doDelayed(which func(Delays) time.Duration, fn func(d *Disk) error) error {
	var wait time.Duration
	var changed chan struct{}
	err := m.do(func(d *Disk) error {
		if wait = which(d.delays); wait > 0 && d.changed == nil {
			d.changed = make(chan struct{})
		}
		changed = d.changed
		return nil
	})
	if err != nil {
		return err
	}
	if wait <= 0 {
		return m.do(fn)
	}
	m.sleep(wait/2, changed)
	if err := m.do(fn); err != nil {
		return err
	}
	m.sleep(wait-wait/2, changed)
	return m.checkOpen()
}

// sleep waits for d, or until the delays change or the process has ended.
func (m *memoryEngine) sleep(d time.Duration, changed <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-m.ended:
	}
}

func (m *memoryEngine) Begin(update bool) (Txn, error) {
	t := &memoryTxn{m: m, count: 1, bytes: txnOverhead}
	if update {
		t.own = btree.NewMap[string, diff](8)
	}
	err := m.doDelayed(func(s Delays) time.Duration { return s.Begin }, func(d *Disk) error {
		t.base = d.snapshot()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (m *memoryEngine) Limits() Limits { return m.limits }

func (m *memoryEngine) Sync() error {
	return m.doDelayed(func(s Delays) time.Duration { return s.Sync }, func(d *Disk) error {
		d.sync()
		return nil
	})
}

// Close returns nil if the engine is closed or its process has ended.
func (m *memoryEngine) Close() error {
	err := m.do(func(d *Disk) error {
		d.sync()
		d.end()
		return nil
	})
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

func (m *memoryEngine) Run(ctx context.Context) { <-ctx.Done() }
