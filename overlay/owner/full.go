package owner

import (
	"errors"
	"time"

	"peerd/store"
)

// errDiskFull is returned while the disk has no room for what this peer has to write
// down as an owner.
var errDiskFull = errors.New("owner: the disk is full")

// complainEvery is how often it is said that the disk is full.
const complainEvery = 10 * time.Second

// stall takes an error of the store. That there is no room is not final: nothing
// new is taken on then, what is in memory only is written down later (saveLate), and
// leases, which need no disk, are renewed. It returns what is final.
func (m *Manager) stall(err error) error {
	if !store.IsFull(err) {
		return err
	}
	now := time.Now()
	m.mu.Lock()
	loud := now.Sub(m.complained) >= complainEvery
	if loud {
		m.complained = now
	}
	m.mu.Unlock()
	m.full.Store(true)
	if loud {
		m.log.Error("what this peer owns is not written down: the disk is full", "err", err)
	}
	return nil
}

// saveLate writes down what was changed while there was no room, and finds out
// whether there is some again. The error is one of the store.
func (m *Manager) saveLate() error {
	var late []*subnet
	m.mu.Lock()
	for _, s := range m.subnets {
		if s.unsaved {
			late = append(late, s)
		}
	}
	m.mu.Unlock()
	for _, s := range late {
		if err := m.save(s); err != nil {
			return m.stall(err)
		}
	}
	if len(late) > 0 || !m.full.Load() {
		return nil
	}
	err := m.cfg.DB.Update(func(tx *store.Tx) error { // any write: the counters as they are
		tx.Count(store.Counters{})
		return nil
	})
	if err == nil {
		m.full.Store(false)
	}
	return m.stall(err)
}
