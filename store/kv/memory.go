package kv

import (
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4/skl"
	"github.com/tidwall/btree"
)

// memory is one process's engine on a Disk. Whatever it does it does under the
// Disk's lock, after it has passed the gate that holds up those who are paused
// or slow and turns away those who are dead.
type memory struct {
	d         *Disk
	limits    Limits
	threshold int64
	dead      chan struct{} // closed when the process is ended
}

// limitsOf returns the limits that badger derives from o.
func limitsOf(o Options) (Limits, error) {
	size := 15 * o.MemTable / 100
	l := Limits{Bytes: size, Count: size / int64(skl.MaxNodeSize)}
	if o.Threshold <= 0 || o.Threshold > size || l.Count < 1 {
		return l, fmt.Errorf("kv: a memtable of %d bytes is too small for values of %d", o.MemTable, o.Threshold)
	}
	return l, nil
}

// do calls fn under the Disk's lock as soon as the process runs.
func (m *memory) do(fn func(d *Disk) error) error {
	for {
		halt, err := m.try(fn)
		if halt == nil {
			return err
		}
		select {
		case <-halt:
		case <-m.dead:
		}
	}
}

func (m *memory) try(fn func(d *Disk) error) (halt chan struct{}, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	switch {
	case m.d.proc != m:
		return nil, ErrClosed
	case m.d.halt != nil:
		return m.d.halt, nil
	}
	return nil, fn(m.d)
}

// alive says whether the process runs, as soon as it is not paused.
func (m *memory) alive() error {
	return m.do(func(*Disk) error { return nil })
}

// slowly is do on a disk that takes its time: half of it passes before fn.
func (m *memory) slowly(which func(Delays) time.Duration, fn func(d *Disk) error) error {
	var wait time.Duration
	if err := m.do(func(d *Disk) error { wait = which(d.delays); return nil }); err != nil {
		return err
	}
	if wait <= 0 {
		return m.do(fn)
	}
	m.sleep(wait / 2)
	if err := m.do(fn); err != nil {
		return err
	}
	m.sleep(wait - wait/2)
	return m.alive()
}

// sleep lets time pass, until the process is ended.
func (m *memory) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.dead:
	}
}

func (m *memory) Begin(update bool) (Txn, error) {
	t := &memoryTxn{m: m, count: 1, bytes: txnOverhead}
	if update {
		t.own = btree.NewMap[string, diff](8)
	}
	err := m.slowly(func(s Delays) time.Duration { return s.Begin }, func(d *Disk) error {
		t.base = d.snapshot()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (m *memory) Limits() Limits { return m.limits }

func (m *memory) Sync() error {
	return m.slowly(func(s Delays) time.Duration { return s.Sync }, func(d *Disk) error {
		d.sync()
		return nil
	})
}

// Close closes what is closed or dead already without an error.
func (m *memory) Close() error {
	err := m.do(func(d *Disk) error {
		d.sync()
		d.end()
		return nil
	})
	if err == ErrClosed {
		return nil
	}
	return err
}

func (m *memory) Reclaim() bool { return false }

func (m *memory) Trim(int64) {}
